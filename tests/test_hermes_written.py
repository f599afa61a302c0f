"""Engines of the dataspace that somebody else has written, named in Hermes' settings; and what `/dataspace` says of them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bridges.cli.errors import BadInput
from bridges.cli.kinds import boot_of, with_own
from bridges.hermes import hooks
from bridges.hermes.command import answer
from engines import facts as f
from engines.named import is_named, maker
from tests.hermes_adapter import written
from tests.hermes_adapter.desk import FAKE, Engines, commit, conversation, facts
from tests.hermes_adapter.fakes import Fake
from tests.hermes_adapter.fixtures import engines
from tests.hermes_adapter.written import BOOT, FACTORY, NAME, NOTE, ONE, UNBOOTED

__all__ = ["engines"]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents of other tests are not there."""
    monkeypatch.setattr(hooks, "_live", type(hooks._live)())


def say(raw: str = "") -> str:
    """In the terminal."""
    facts(f.Session)
    return answer(raw, acts=True)


def compacted(engine: Any) -> tuple[str, str]:
    """Who makes the next compaction, and what is said in it."""
    rows = conversation(60, 12_000)
    done = engine.compress(rows, current_tokens=160_000)
    assert done is not rows
    commit(engine)
    (fact,) = facts(f.Compressed, engine)
    return fact.by, done[0]["content"] if done[0]["role"] == "assistant" else done[1]["content"]


@pytest.mark.parametrize(("name", "said"), [(BOOT, NOTE), (FACTORY, "asked 1 times"), (FAKE, "In short.")])
def test_a_name_stands_for_whatever_can_compact(engines: Engines, name: str, said: str) -> None:
    """A boot function, what makes one, or a class of context engines: settings, status and compactions treat them alike."""
    engine = engines.started(name, "compressor")
    number = engine.seat.cell.sid.removeprefix("hermes-")
    assert f"compressors: {name} (in charge), compressor\n" in say()
    assert (f"{name}#{number}", said) == compacted(engine)
    assert [name, "compressor"] == engine.get_status()["engines"]


@pytest.mark.parametrize("name", [BOOT, FACTORY])
def test_each_conversation_has_an_engine_of_its_own(engines: Engines, name: str) -> None:
    """Though it says that it serves everybody: nobody else's is asked, counted or shown, and each ends with its conversation."""
    one, other = engines.started(name), engines.started(name, session="s2")
    third = engines.started("compressor", session="s3")
    sids = [engine.seat.cell.sid for engine in (one, other, third)]
    numbers = [sid.removeprefix("hermes-") for sid in sids]
    assert {f"{name}#{number}" for number in numbers[:2]} == {
        s.engine for s in facts(f.Serving, role="compressor", sid=None)
    }
    assert [(name,), (name,), ("compressor",)] == [
        tuple(one.partition("#")[0] for one in engine.seat.cell.engines.compressors) for engine in (one, other, third)
    ]
    lines = [" ".join(line.split()) for line in say("engines").splitlines()]
    assert [f"{name}#{number} compressor {sid} in charge" in lines for number, sid in zip(numbers, sids, strict=True)][
        :2
    ] == [
        True,
        True,
    ]
    assert not [line for line in say().splitlines() if "not in the list" in line]
    for engine, number in zip((one, other), numbers[:2], strict=True):
        by, said = compacted(engine)
        assert f"{name}#{number}" == by
        assert said in {NOTE, "asked 1 times"}
    other.on_session_end("s2", [])
    other.on_session_reset()
    other.on_session_start("s4", platform="cli", model="m")
    assert f"{name}#{numbers[0]}" == compacted(one)[0]
    by, said = compacted(other)
    assert by.startswith(f"{name}#")
    assert said in {NOTE, "asked 1 times"}  # nothing is left of the conversation before
    assert f"{name}#{numbers[1]}" != facts(f.Compressed, other)[0].by


def test_plugged_swapped_and_unplugged(engines: Engines) -> None:
    """As any other; the one that is plugged in anew is another one."""
    engine = engines.started("compressor")
    assert f"{BOOT} serves now, compressor is unplugged. Asked in this order: {BOOT}." == say(f"swap compressor {BOOT}")
    assert compacted(engine)[0].startswith(BOOT)
    assert "nobody: nothing is compacted" in say(f"unplug {BOOT}")
    assert "compressors: none" in say()
    assert {} == engine.seat.native
    assert f"{BOOT} serves now. Asked in this order: {BOOT}." == say(f"plug {BOOT}")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (f"{NAME}:no_such", "AttributeError"),
        (f"{NAME}:nothing", "TypeError: nothing is int, and neither a boot function nor something that makes one"),
        (UNBOOTED, "TypeError: it gives int, which is neither a context engine nor a boot function"),
        (f"{NAME}:Needy", r"TypeError: .*missing 1 required positional argument: 'what'"),
        ("no.such.module:boot", "ModuleNotFoundError"),
    ],
)
def test_what_cannot_serve_is_said_and_the_next_one_does(
    engines: Engines, caplog: pytest.LogCaptureFixture, name: str, why: str
) -> None:
    """One warning with the reason."""
    engine = engines.started(name, "compressor")
    assert ("compressor",) == engine.seat.kinds
    (said,) = [message for message in caplog.messages if name in message]
    assert re.search(f"cannot be loaded: {why}", said)


def test_one_that_has_ended_is_not_asked(engines: Engines) -> None:
    """An asynchronous boot function that returns is over; the next one compacts."""
    assert compacted(engines.started(ONE, "compressor"))[0].startswith("compressor#")


def test_an_observer_that_serves_as_a_compressor_is_told_as_one(engines: Engines) -> None:
    """The status, who is asked and who compacts agree, whatever is in the list of engines."""
    engine = engines.started(observers=[NAME])
    assert f"compressors: {NAME} (in charge, not in the list of engines)\n" in say()
    assert (NAME, NOTE) == compacted(engine)
    assert f"by {NAME}" in say()
    told = say("plug compressor")
    assert f"compressor serves now. Asked in this order: compressor, {NAME} (not in the list of engines)." == told
    told = say("unplug compressor")
    assert f"compressor is unplugged. Asked in this order: {NAME} (not in the list of engines)." == told
    say(f"unplug {NAME}")
    assert "compressors: none" in say()


def test_the_command_line_takes_the_same_names() -> None:
    """Both load through one function."""
    kinds = with_own({}, [BOOT, FACTORY, "compressor"])
    assert {BOOT, FACTORY} == set(kinds)
    assert written.written is boot_of(f"{BOOT}#2", kinds)
    assert boot_of(FACTORY, kinds) is not boot_of(FACTORY, kinds)
    assert (True, False) == (is_named(BOOT), is_named("lossless-hermes"))
    assert isinstance(maker(FAKE)(), Fake)
    with pytest.raises(BadInput, match="nothing is int"):
        with_own({}, [f"{NAME}:nothing"])
