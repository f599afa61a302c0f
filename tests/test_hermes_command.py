"""`/dataspace`: what it shows, what it changes, and that it does neither where others read along."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from bridges.hermes import blocks, command, hooks
from bridges.hermes.command import HELP, answer, register_command
from bridges.hermes.runtime import running
from bridges.hermes.shown import SHOWN, table
from dataspace import Facet
from engines import facts as f
from engines.engine import serve
from tests.conftest import CHECKOUT
from tests.hermes_adapter import watcher
from tests.hermes_adapter.desk import FAKE, Engines, commit, conversation, facts, hosted
from tests.hermes_adapter.fakes import Fake
from tests.hermes_adapter.fixtures import engines
from tests.hermes_adapter.watcher import HEARD, MADE, NAME

__all__ = ["engines"]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Agents of other tests are not there, and nothing was said."""
    monkeypatch.setattr(blocks, "_said", set())
    monkeypatch.setattr(hooks, "_live", type(hooks._live)())
    watcher.forget()
    yield
    watcher.forget()


def say(raw: str = "") -> str:
    """In the terminal."""
    facts(f.Session)
    return answer(raw, acts=True)


def kinds(engine: Any) -> list[str]:
    """The kinds that serve, as facts."""
    return [fact.engine.partition("#")[0] for fact in facts(f.Serving, engine)]


def on_the_thread(fn: Any) -> Any:
    """Do something with the desk."""
    runtime = running()
    assert runtime is not None
    return runtime.ask(fn)


# -- what is shown ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", ["", "status", " STATUS ", "engines", "facts", "facts usage", "skills", "plug x"])
def test_before_anything_has_begun(engines: Engines, raw: str) -> None:
    """One sentence, and nothing is started by it."""
    assert command.NOBODY == answer(raw, acts=True)
    assert running() is None


def test_the_status_tells_how_a_conversation_stands(engines: Engines) -> None:
    """Who compacts, how full it is, what was done and what is wanted."""
    engine = engines.started("compressor", FAKE, observers=[NAME])
    sid = engine.seat.cell.sid
    text = say()
    assert text.startswith(
        f"1 conversation; observers: {NAME}\n\n{sid} (active): host session s1, profile fin, model m"
    )
    assert "provider p" in text
    assert f"compressors: compressor (in charge), {FAKE}" in text
    assert "prompt not known yet; compaction from 150,000 tokens of a window of 200,000" in text
    assert "watcher: 2 heard" in text
    engine.update_from_response({"prompt_tokens": 160_000})
    text = say("status")
    assert "prompt 160,000 tokens, 107% of the threshold of 150,000 of a window of 200,000" in text
    assert "a compaction is wanted: threshold" in text
    engine.compress(conversation(60, 12_000), current_tokens=160_000)
    commit(engine)
    assert "latest compaction: 160,000 to" in say()
    assert f"by compressor#{sid.removeprefix('hermes-')}" in say()
    engine.seat.cell.hold("The compressor rests.")
    assert "held back: The compressor rests." in say()


def test_the_status_tells_what_had_to_be_mended(engines: Engines) -> None:
    """The host shows its user nothing of a compaction that it took over; here it is, until the next one is sound."""
    engine = engines.started(FAKE)
    rows = conversation()
    Fake.plan = lambda _self, given, _told: [given[0], given[2], *given[-2:]]
    for said in (True, False):
        assert engine.compress(rows, force=True) is not rows
        commit(engine)
        line = f"  mended: row 1: the result 'c0' has no call before it (in what {FAKE} gave)"
        assert said is (line in say("").splitlines())
        assert said is ("mended" in say(""))
        Fake.plan = None


def test_without_a_window_and_without_engines(engines: Engines) -> None:
    """Only what is known is told."""
    engine = engines.started(window=0)
    assert "compressors: none" in say()
    assert engine.seat.kinds == ()
    assert "window" not in say()
    assert "No engine is plugged in." == say("engines")


def test_the_engines_are_told_with_what_they_are(engines: Engines) -> None:
    """Who serves whom as what, who is in charge, at work, has crashed, has given up, or says nothing of itself."""
    engine = engines.started("compressor", FAKE, observers=[NAME])
    number = engine.seat.cell.sid.removeprefix("hermes-")
    lines = say("engines").splitlines()
    assert "engine role for notes".split() == lines[0].split()
    assert f"compressor#{number} compressor hermes-{number} in charge" in [" ".join(line.split()) for line in lines]
    assert f"{NAME} observer all" in [" ".join(line.split()) for line in lines]

    def others(desk: Any) -> None:
        def gone(me: Facet) -> None:
            me.publish(f.GaveUp("poet", 5, "no rhyme"))
            me.publish(f.Working(f"compressor#{number}", f"hermes-{number}"))

        def crashes(me: Facet) -> None:
            me.publish(f.Serving("compressor#x", "shadow"))
            raise RuntimeError("no")

        desk.me.spawn(gone, name="witness")
        desk.me.spawn(crashes, name=f"{FAKE}#9")
        desk.me.spawn(lambda me: serve(me, lambda _me, _asked: None, role="reviser"), name=f"{FAKE}#9")

    on_the_thread(others)
    text = " ".join(say("engines").split())
    assert "in charge, at work" in text
    assert f"{FAKE}#9 reviser all 1 crash" in text
    assert "poet gave up after 5 crashes" in text


def test_an_observer_that_announces_nothing_is_listed(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs all the same."""
    monkeypatch.setattr(
        watcher, "boot", lambda _settings, _of: lambda me: me.observe(f.Noted, heard=lambda _note: None)
    )
    engines.started("compressor", observers=[NAME])
    assert f"{NAME} observer all" in " ".join(say("engines").split())


def test_facts_are_counted_and_found(engines: Engines) -> None:
    """All of a class by its name, some by a pattern; a pattern that cannot be read is met with what to write."""
    engine = engines.started("compressor")
    engine.update_from_response({"prompt_tokens": 7_000})
    sid = engine.seat.cell.sid
    assert ["Session", "1"] in [line.split() for line in say("facts").splitlines()]
    assert say("facts usage") == say(f"facts (usage {sid})") == say(f"facts usage {sid}")
    assert f"Usage(sid='{sid}', seq=1, prompt=7000" in say("facts usage")
    assert say("facts budget") == say("facts (budget ?sid 200000)")
    assert "Nothing like that stands." == say("facts (usage hermes-0)")
    for wrong in ("(usage", "usages", "(usage #:size 3)"):
        assert "A pattern is written (usage hermes-1)" in say(f"facts {wrong}")
    assert ("(column 2)" in say("facts (usages)"), "(column" in say("facts usages")) == (True, False)


def test_many_facts_and_long_ones_are_cut(engines: Engines) -> None:
    """It is for a terminal."""
    engines.started("compressor")

    def publish(desk: Any) -> None:
        for at in range(45):
            desk.me.publish(f.SnapshotSaved("s", f"{at}" + "/very/long" * 100, "x", 1.0))

    on_the_thread(publish)
    lines = say("facts snapshot-saved").splitlines()
    assert 41 == len(lines)
    assert "... and 5 more" == lines[-1]
    assert {240} == {len(line) for line in lines[:-1]}


def test_skills_from_the_facts(engines: Engines) -> None:
    """Where their engine has no words of its own."""
    engines.started("compressor")
    assert "No skill was loaded." == say("skills")

    def publish(desk: Any) -> None:
        desk.me.publish(f.SkillPruned("s1", "tides", "ab" * 32))
        desk.me.publish(f.SkillAvailable("s1", "knots", "cd" * 32))
        desk.me.publish(f.SkillRequired("s1", "sail", "tides"))

    on_the_thread(publish)
    head, *rows = [line.split() for line in say("skills").splitlines()]
    assert ["conversation", "skill", "hash", "state", "required"] == head
    assert [["s1", "knots", "cdcdcdcd", "available"], ["s1", "tides", "abababab", "pruned", "yes"]] == rows


def test_skills_in_the_words_of_their_engine(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it runs and has any."""
    from bridges.hermes import observers

    monkeypatch.setattr(observers, "available", lambda: (observers.Observer("skills", "skills", NAME),))
    monkeypatch.setattr("bridges.hermes.settings.available", observers.available)
    engines.started("compressor", observers=["skills"])
    assert "watcher shows 'tides'" == say("skills tides")
    say("unplug skills")
    assert "No skill was loaded." == say("skills")


def test_no_secret_is_shown(engines: Engines) -> None:
    """Neither a key of an agent nor what looks like one."""
    engine = engines.started("compressor")
    key = engine.api_key
    other = "ghp_" + "a1B2" * 9

    def publish(desk: Any) -> None:
        desk.me.publish(f.SnapshotFailed("s", "x", f"the server said {key} and {other}"))

    on_the_thread(publish)
    text = say("facts snapshot-failed")
    assert "the server said" in text
    assert key not in text
    assert other not in text


def test_a_table_is_as_wide_as_it_has_to_be() -> None:
    """And no line ends in blanks."""
    assert "a     b\nlong  x\nx" == table(("a", "b"), [("long", "x"), ("x", "")])


# -- what is changed --------------------------------------------------------------------------------------------------


def test_engines_are_plugged_and_unplugged(engines: Engines) -> None:
    """In the order in which they came; the last one too."""
    engine = engines.started("compressor")
    assert f"{FAKE} serves now. Asked in this order: compressor, {FAKE}." == say(f"plug {FAKE}")
    assert ["compressor", FAKE] == sorted(kinds(engine))
    assert f"{FAKE} is plugged in already." == say(f"plug {FAKE}")
    assert f"compressor is unplugged. Asked in this order: {FAKE}." == say("unplug compressor")
    assert [FAKE] == kinds(engine)
    assert "compressor is not plugged in; /dataspace engines shows what is." == say("unplug compressor")
    assert f"{FAKE} is unplugged. Asked in this order: nobody: nothing is compacted." == say(f"unplug {FAKE}")
    assert [] == kinds(engine)
    rows = conversation()
    assert engine.compress(rows) is rows


def test_a_swap_keeps_the_place(engines: Engines) -> None:
    """The new one is asked where the old one was; every conversation of the process gets it."""
    one, other = engines.started(FAKE, "builtin"), engines.started(FAKE, session="s2")
    assert f"compressor serves now, {FAKE} is unplugged." in say(f"swap {FAKE} compressor")
    assert ("compressor", "builtin") == one.seat.kinds
    assert ("compressor",) == other.seat.kinds
    assert f"{FAKE} is not plugged in" in say(f"swap {FAKE} compressor")
    assert "compressor is plugged in already." == say("swap compressor compressor")
    assert "builtin serves now, compressor is unplugged. Asked in this order: builtin." == say(
        "swap compressor builtin"
    )
    assert ["builtin"] == kinds(one)


def test_an_engine_that_cannot_be_had_changes_nothing(engines: Engines, caplog: pytest.LogCaptureFixture) -> None:
    """The log says why."""
    engine = engines.started(FAKE)
    for raw in ("plug nonesuch", f"swap {FAKE} nonesuch"):
        assert "There is no engine 'nonesuch' to be had" in say(raw)
    assert ((FAKE,), [FAKE]) == (engine.seat.kinds, kinds(engine))
    assert hosted() is engine.seat.in_charge().front
    assert "there is no context engine 'nonesuch'" in caplog.text


def test_an_engine_that_does_not_come_to_serve(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said; those that were there go on."""
    engine = engines.started("compressor")
    monkeypatch.setattr(command, "SECONDS", 0.05)
    monkeypatch.setattr(
        engine.seat, "boots", lambda cell, those: {cell.names[kind]: lambda _me: None for kind in those}
    )
    facts(f.Session)
    assert f"{FAKE} does not serve yet" in answer(f"swap compressor {FAKE}", acts=True)
    assert ["compressor"] == kinds(engine)


def test_observers_are_plugged_and_unplugged(engines: Engines) -> None:
    """With their aides, for conversations that go on too; unplugged stays unplugged for those that come."""
    engine = engines.started("compressor")
    assert f"{NAME} observes now." == say(f"plug {NAME}")
    assert f"{NAME} is plugged in already." == say(f"plug {NAME}")
    (made,) = MADE
    assert {"Session", "Transcript"} <= {type(fact).__name__ for fact in HEARD}  # what stood when it came
    assert [NAME] == engine.get_status()["observers"]
    assert f"{NAME} is unplugged." == say(f"unplug {NAME}")
    assert ("ended", "") == made.told[-1]
    assert f"{NAME} is not plugged in" in say(f"unplug {NAME}")
    engines.started("compressor", session="s2", observers=[NAME])
    assert "observers: none" in say()
    assert f"{NAME} observes now." == say(f"plug {NAME}")
    assert f"observers: {NAME}" in say()


def test_an_observer_that_cannot_be_had(engines: Engines, caplog: pytest.LogCaptureFixture) -> None:
    """The log says why; agents are as they were."""
    engine = engines.started("compressor")
    assert "no.such.module cannot be had; the log says why." == say("plug no.such.module")
    assert [] == engine.get_status()["observers"]
    assert "cannot be loaded" in caplog.text
    for raw in (f"swap compressor {NAME}", f"swap {NAME} compressor"):
        assert "An observer has no place" in say(raw)


def test_without_an_agent_there_is_nobody_to_change(engines: Engines) -> None:
    """The dataspace runs, its agents are gone."""
    engine = engines.started("compressor")
    facts(f.Session)
    engine.seat.cell = None
    assert command.NOBODY == answer("plug compressor", acts=True)
    assert f"{NAME} cannot be had; the log says why." == answer(f"plug {NAME}", acts=True)


@pytest.mark.parametrize("raw", ["plug", "plug a b", "unplug", "swap a", "swap a b c", "plug builtin#2"])
def test_how_it_is_written(engines: Engines, raw: str) -> None:
    """Wrong arguments are met with the right form."""
    engines.started("compressor")
    said = say(raw)
    assert said.startswith("Write it so:\n/dataspace " + raw.split(maxsplit=1)[0])
    assert 2 == len(said.splitlines())


def test_a_word_that_is_none(engines: Engines) -> None:
    """What there is instead."""
    assert f"There is no /dataspace dance.\n{HELP}" == answer("dance", acts=True)
    assert HELP == answer("help", acts=False)


# -- where others read along ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", ["plug compressor", "unplug compressor", f"swap compressor {FAKE}", f"plug {NAME}"])
def test_elsewhere_nothing_is_changed(engines: Engines, raw: str) -> None:
    """A sentence says who changes engines there."""
    engine = engines.started("compressor")
    facts(f.Session)
    assert command.TERMINAL == answer(raw, acts=False)
    assert ["compressor"] == kinds(engine)


def test_elsewhere_nothing_of_anybodys_is_shown(engines: Engines) -> None:
    """Numbers and names of engines; neither ids nor texts."""
    engine = engines.started("compressor", FAKE, observers=[NAME], session="private-1")
    other = engines.started("compressor", session="private-2")
    engine.update_from_response({"prompt_tokens": 160_000})
    facts(f.Session)
    said = {raw: answer(raw, acts=False) for raw in ("", "engines", "facts", "facts session", "skills", "skills x")}
    for text in said.values():
        assert not [word for word in ("private", "hermes-", "#", "160") if word in text]
    assert said[""].startswith(f"2 conversations; observers: {NAME}\n")
    assert (2, 1) == (len(engine.seat.kinds), len(other.seat.kinds))
    assert "compressor compressor one each 2 of them" in " ".join(said["engines"].split())
    assert ["Session", "2"] in [line.split() for line in said["facts"].splitlines()]


def test_a_loop_is_not_held_up(engines: Engines) -> None:
    """Its thread gets a coroutine, which answers although the dataspace does not for a while."""
    engines.started("compressor")
    facts(f.Session)
    runtime = running()
    assert runtime is not None
    held = threading.Event()

    async def gateway() -> tuple[str, bool]:
        runtime.soon(lambda _desk: held.wait(5))
        waiting = asyncio.ensure_future(command._command("facts"))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        early = waiting.done()
        held.set()
        return await waiting, early

    text, early = asyncio.run(gateway())
    assert not early
    assert text.startswith("fact")


def test_a_dataspace_that_does_not_answer(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits is told."""
    engines.started("compressor")
    facts(f.Session)
    runtime = running()
    assert runtime is not None
    held = threading.Event()
    monkeypatch.setattr(command, "SECONDS", 0.05)
    runtime.soon(lambda _desk: held.wait(5))
    try:
        assert "has not answered" in answer("engines", acts=True)
    finally:
        held.set()


def test_a_fault_of_ours_is_in_the_log(engines: Engines, monkeypatch: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The host gets a sentence."""
    engines.started("compressor")
    facts(f.Session)
    monkeypatch.setattr("bridges.hermes.shown.SHOWN", {"facts": lambda *_a, **_k: 1 / 0})
    assert "/dataspace facts has failed; the log says more." == answer("facts", acts=True)
    assert "ZeroDivisionError" in caplog.text


def test_every_word_is_in_the_reference() -> None:
    """What can be said, in the help and on the page."""
    page = (CHECKOUT / "docs" / "reference" / "hermes-command.md").read_text(encoding="utf-8")
    for word in (*SHOWN, *command._ACTS, "help"):
        assert f"`/dataspace {word}" in page
        assert f"/dataspace {word}" in HELP or f"/dataspace [{word}]" in HELP


# -- the host ---------------------------------------------------------------------------------------------------------


class Context:
    """A plugin context with commands."""

    def __init__(self, cli: Any = None) -> None:
        self.commands: dict[str, Any] = {}
        self._manager = type("Manager", (), {"_cli_ref": cli})()

    def register_command(self, name: str, handler: Any, description: str = "", args_hint: str = "") -> None:
        self.commands[name] = (handler, description, args_hint)


def test_the_host_is_told_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what can be said after it; a host without commands, or with others, does without."""
    context = Context()
    register_command(context)
    handler, description, hint = context.commands["dataspace"]
    assert "engines" in description
    assert "swap" in hint
    assert HELP == handler("help")
    register_command(object())
    monkeypatch.setattr(Context, "register_command", lambda *_args, **_more: 1 / 0)
    register_command(context)


def test_only_the_terminal_acts(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host has one at hand for plugins there, and nowhere else."""
    engine = engines.started("compressor", FAKE)
    facts(f.Session)
    for context, word in ((object(), "config.yaml"), (Context(), "config.yaml"), (Context(object()), "is unplugged")):
        monkeypatch.setattr(hooks, "host_context", [context])
        monkeypatch.setattr(command, "host_context", [context])
        assert word in command._command(f"unplug {FAKE}")
    assert ["compressor"] == kinds(engine)
