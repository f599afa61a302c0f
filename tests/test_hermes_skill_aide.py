"""What the skills observer answers a host at once, without a host."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridges.hermes import skill_audit, skill_observer
from bridges.hermes.aides import Call, Standing, TurnBegun
from bridges.hermes.blocks import read_block
from bridges.hermes.settings import read_settings
from bridges.hermes.skill_observer import BOOK, Options, SkillAide, show
from bridges.hermes.wording import host_wording
from engines.messages import Messages
from engines.skills import revise, scan
from engines.skills.wording import PRUNED, RULE
from engines.transcript import is_foreign_summary
from tests.skill_rows import body_of, load, marker_row, result_text, user, work

SID = "aide-1"
ALPHA = result_text("alpha", body_of("alpha"))


def settings(**skills: Any) -> Any:
    """Settings with this block for skills."""
    return read_settings({"context": {"dataspace": {"observers": ["skills"], "skills": skills}}})


def standing(**skills: Any) -> Standing:
    """Where the aide stands."""
    return Standing(SID, "host", "", "default", "m", "cli", settings(**skills), lambda _m: None, lambda _f, *_a: None)


@pytest.fixture
def make() -> Iterator[Any]:
    """Makes aides for one conversation, which ends with the test."""
    made: list[SkillAide] = []

    def aide(**skills: Any) -> SkillAide:
        made.append(skill_observer.aide(standing(**skills)))  # type: ignore[arg-type]
        return made[-1]

    yield aide
    for one in made:
        one.ended("session_end")


def loaded(aide: SkillAide, call: str, result: str = ALPHA) -> str | None:
    """`skill_view` has answered."""
    return aide.tool_result(Call("skill_view", {"name": "alpha"}, call, result, "ok"))


def lose(aide: SkillAide, **result: Any) -> None:
    """A skill is loaded for a task and pruned in the middle of it."""
    aide.context(TurnBegun("t1", "go", first=True))
    loaded(aide, "k1", result_text("alpha", body_of("alpha"), **result))
    aide.request([user("go"), *load("k1", "alpha", result_text("alpha", body_of("alpha"), **result))])
    aide.compacted()
    aide.request([user("go"), *marker_row("k1", "alpha")])


def test_requests_are_wanted_only_while_something_is_not_known(make: Any) -> None:
    """After a load and after a compaction, until the next one; and when a turn begins with skills known."""
    aide = make()
    aide.context(TurnBegun("t1", "go", first=True))
    wanted = [aide.wants_requests()]
    loaded(aide, "k1")
    wanted.append(aide.wants_requests())
    aide.request([])  # a provider of another form, nothing to be seen
    wanted.append(aide.wants_requests())
    aide.request([user("go"), *load("k1", "alpha")])
    wanted.append(aide.wants_requests())
    aide.compacted()
    wanted.append(aide.wants_requests())
    aide.request([user("go"), *load("k1", "alpha")])
    aide.turn_ended("t1")
    aide.context(TurnBegun("t2", "more"))
    wanted.append(aide.wants_requests())
    assert [False, True, True, False, True, True] == wanted


def test_a_repeat_is_answered_with_a_notice_and_a_loss_with_a_word(make: Any) -> None:
    """Both through the result of a tool."""
    aide = make(block="warn")
    lose(aide)
    assert aide.veto("terminal", {}, "k2") is None
    said = aide.tool_result(Call("terminal", {}, "k2", "done", "ok"))
    assert said.startswith("done\n\n[Skills: The text of alpha")
    assert aide.tool_result(Call("terminal", {}, "k3", "done", "ok")) is None
    assert loaded(aide, "k4") is None
    assert "already_active" in (loaded(aide, "k5") or "")


def test_what_is_pruned_goes_with_the_users_message(make: Any) -> None:
    """The names and the rule; nothing where nothing is pruned."""
    aide = make()
    assert aide.context(TurnBegun("t0", "hello", first=True)) is None
    lose(aide)
    assert f"[Skills pruned from context: alpha. {RULE}]" == aide.context(TurnBegun("t2", "more"))


def test_a_tool_waits_while_the_file_is_there(make: Any, tmp_path: Path) -> None:
    """It is looked for when somebody would have to wait, and no sooner."""
    (tmp_path / "SKILL.md").write_text("x", encoding="utf-8")
    aide = make()
    lose(aide, skill_dir=str(tmp_path))
    assert "was not run" in (aide.veto("terminal", {}, "k2") or "")
    (tmp_path / "SKILL.md").unlink()
    assert aide.veto("terminal", {}, "k3") is None


def test_changed_settings_count_at_once(make: Any) -> None:
    """Such as the mode."""
    aide = make()
    lose(aide)
    aide.changed(settings(block="off"))
    assert aide.veto("terminal", {}, "k2") is None


def test_what_people_are_shown(make: Any) -> None:
    """Name, short hash, state, tokens, what is required and pinned; nothing after the end."""
    me: Any = None
    aide = make(pinned=["alpha"])
    loaded(aide, "k1")
    (line,) = [line for line in show(me, "").splitlines() if line.startswith(SID)]
    assert ["alpha", "unseen", "141", "yes", "yes"] == [
        word for at, word in enumerate(line.split()) if at not in {0, 2}
    ]
    aide.ended("session_reset")
    assert SID not in show(me, "")
    assert not aide.wants_requests()
    assert aide.veto("terminal", {}, "k2") is None


@pytest.mark.parametrize(
    ("told", "block"), [("on", "on"), (True, "on"), ("off", "off"), (False, "off"), ("warn", "warn"), ("maybe", "on")]
)
def test_yaml_has_words_of_its_own_for_on_and_off(told: Any, block: str) -> None:
    """They arrive as true and false."""
    assert block == read_block(Options, {"block": told}, "skills").policy.block


def test_the_options_become_a_policy() -> None:
    """Noughts are no limits; a share is one."""
    block = {"total_tokens": 5, "keep": 0.25, "looking": ["mine"], "once": False, "active_block": True}
    policy = read_block(Options, block, "skills").policy
    assert (5, None, 0.25, False, True) == (policy.total, policy.each, policy.keep, policy.once, policy.gather)
    assert {"mine", "skill_view"} <= policy.looking
    assert 0.8 == read_block(Options, {"keep": 2}, "skills").policy.keep


def test_a_summary_that_was_added_is_in_the_hosts_words() -> None:
    """So that the host knows it for none of the user's; done twice it is as done once."""
    rows = Messages.of([user("one"), *marker_row("k1", "alpha"), user("now")])
    made = skill_observer._dressed(revise(rows, scan(rows)))
    assert is_foreign_summary(made[0])
    assert str(made[0]["content"]).startswith(host_wording().prefix)
    assert made == skill_observer._dressed(revise(made, scan(rows)))
    assert PRUNED in str(made.thaw())


class Host:
    """What a host gives a plugin, as far as middleware goes."""

    def __init__(self) -> None:
        self._manager = self
        self._middleware: dict[str, list[Any]] = {}

    def register_middleware(self, kind: str, callback: Any) -> None:
        self._middleware.setdefault(kind, []).append(callback)

    def send(self, turn: str, messages: Any) -> Any:
        told = [
            ask(request={"messages": messages, "model": "m"}, turn_id=turn) for ask in self._middleware["llm_request"]
        ]
        return told[0]


def test_with_audit_the_transcript_keeps_what_the_model_is_not_sent(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result stays, the request is looked over; registered once, in turns that want it, and again if forgotten."""
    host = Host()
    monkeypatch.setattr(skill_audit, "host_context", [host])
    aide = make(audit=True)
    aide.context(TurnBegun("t1", "go", first=True))
    aide.context(TurnBegun("t2", "go"))
    assert [1] == [len(each) for each in host._middleware.values()]
    assert [None, None] == [loaded(aide, "k1"), loaded(aide, "k2")]
    rows = [user("go"), *load("k1", "alpha"), *load("k2", "alpha")]
    sent = host.send("t2", rows)["request"]
    assert "m" == sent["model"]
    assert "already_active" in sent["messages"][-1]["content"]
    assert [None] * 5 == [
        host.send("t1", rows),
        host.send("other", rows),
        host.send("t2", rows[:3]),
        host.send("t2", None),
        host.send("t2", [1]),
    ]
    host._middleware.clear()
    aide.context(TurnBegun("t3", "go"))
    assert 1 == len(host._middleware["llm_request"])
    aide.ended("session_end")
    assert [] == host._middleware["llm_request"]


def test_an_older_version_is_metadata_from_the_next_request_on(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also without audit, in later turns too; requests are looked over while such a turn lasts, and no longer."""
    host = Host()
    monkeypatch.setattr(skill_audit, "host_context", [host])
    aide = make()
    aide.context(TurnBegun("t1", "go", first=True))
    assert loaded(aide, "k1") is None
    assert {} == host._middleware
    newer = loaded(aide, "k2", result_text("alpha", body_of("alpha") + "More.\n"))
    rows = [user("go"), *load("k1", "alpha"), *load("k2", "alpha", newer)]
    for turn in ("t1", "t2"):
        first, second = (json.loads(row["content"]) for row in host.send(turn, rows)["request"]["messages"][2::2])
        assert (True, None) == (first["superseded"], first.get("content"))
        assert body_of("alpha") + "More.\n" == second["content"]
        aide.turn_ended(turn)
        assert [] == host._middleware["llm_request"]
        aide.context(TurnBegun("t2", "more"))
    aide.changed(settings(once=False))
    aide.context(TurnBegun("t3", "off"))
    assert [] == host._middleware["llm_request"]


def test_a_resumed_session_is_looked_over_where_there_is_cause(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first request shows whether a text stands there twice; a host without middleware sends what there is."""
    host = Host()
    rows = [user("go"), *load("k1", "alpha"), *load("k2", "alpha"), user("more")]
    for there, told, wanted in ((host, {}, True), (host, {"once": False}, False), (object(), {}, False)):
        monkeypatch.setattr(skill_audit, "host_context", [there])
        host._middleware.clear()
        aide = make(**told)
        aide.context(TurnBegun("t1", "more"))
        aide.request(rows[:3])
        assert {} == host._middleware
        aide.request(rows)
        assert wanted == bool(host._middleware.get("llm_request"))
        aide.ended("session_end")


def test_a_request_that_cannot_be_looked_over_goes_out(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """Whatever is wrong with it or with us; and of turns that never end only the latest are remembered."""
    host = Host()
    monkeypatch.setattr(skill_audit, "host_context", [host])
    monkeypatch.setattr(skill_audit, "MOST", 2)
    for turn in ("t1", "t2", "t3"):
        skill_audit.look_over(turn)
    rows = [user("go"), *load("k1", "alpha"), *load("k2", "alpha")]
    assert [True, False, False] == [host.send(turn, rows) is None for turn in ("t1", "t2", "t3")]

    def broken(_request: Any) -> Any:
        raise RuntimeError("no")

    monkeypatch.setattr(skill_audit, "collapsed_request", broken)
    assert host.send("t3", rows) is None
    assert "could not be looked over" in caplog.text
    for turn in ("t1", "t2", "t3"):
        skill_audit.over(turn)
    assert [] == host._middleware["llm_request"]


def test_without_middleware_there_is_no_audit(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeat is a notice then, in the transcript, too."""
    monkeypatch.setattr(skill_audit, "host_context", [object()])
    assert not skill_audit.can_look_over()
    aide = make(audit=True)
    loaded(aide, "k1")
    assert loaded(aide, "k2") is not None


def test_the_book_is_the_process_one(make: Any) -> None:
    """Arguments that JSON has no word for harm nobody."""
    aide = make()
    assert aide.tool_result(Call("skill_view", {"name": "alpha", "odd": {1, 2}}, "k1", ALPHA, "ok")) is None
    ledger = BOOK.ledger(SID)
    assert ledger is not None
    assert ["alpha"] == [skill.entry.name for skill in ledger.skills]
    assert aide.tool_result(Call("terminal", {}, "k9", json.dumps({}), "ok")) is None
    assert work("k1")
