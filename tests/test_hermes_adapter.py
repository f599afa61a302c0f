"""The adapter's surface: attributes, methods in every form, sessions, without the host."""

from __future__ import annotations

import copy
import gc
import inspect
import json
import logging
import sys
from typing import Any

import pytest

from bridges.hermes.adapter import engine_class
from bridges.hermes.fields import FIELDS
from bridges.hermes.hooks import _finalized, _turn_ended, _turn_opened, register_hooks
from bridges.hermes.runtime import running
from engines import facts as f
from engines.transcript import check
from tests.hermes_adapter.desk import FAKE, PLAIN, Engines, commit, conversation, facts, hosted
from tests.hermes_adapter.fakes import Base, Fake
from tests.hermes_adapter.fixtures import engines

__all__ = ["engines"]


class Unreadable(list[Any]):
    """A list that cannot be walked through."""

    def __iter__(self) -> Any:
        raise RuntimeError("not now")


OTHER: dict[str, Any] = {"api_key": "sk-other-9999", "max_tokens": 4096, "threshold_percent": 0.25}


def another(name: str, default: Any) -> Any:
    """Some other value of the attribute's kind."""
    if name in OTHER:
        return OTHER[name]
    return {bool: True, int: 12_345, float: 0.5, str: "other", type(None): "other"}[type(default)]


# -- attributes (B23) -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["compressor", FAKE])
@pytest.mark.parametrize("name", sorted(FIELDS))
def test_every_attribute_can_be_read_and_set(engines: Engines, name: str, kind: str) -> None:
    """B23: each is there before anything has happened, takes what the host sets, and gives it back."""
    engine = engines.started(kind)
    assert FIELDS[name] == getattr(type(engine), name)
    assert type(getattr(engine, name)) in {type(FIELDS[name]), int, str, float}
    value = another(name, FIELDS[name])
    setattr(engine, name, value)
    assert value == getattr(engine, name)


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_every_attribute_is_there_before_the_first_call(engines: Engines, name: str) -> None:
    """B23: also on an engine the host has only just copied."""
    assert FIELDS[name] == getattr(engines.bare(FAKE), name) or name in {"threshold_percent", "protect_last_n"}


def test_what_is_set_reaches_the_engine_in_charge(engines: Engines) -> None:
    """The host writes to whatever is in charge, as it would without us."""
    engine = engines.started(FAKE)
    engine.last_compression_rough_tokens = 17
    engine._verify_compaction_cleared_threshold = True
    assert (17, True) == (hosted().last_compression_rough_tokens, hosted()._verify_compaction_cleared_threshold)


def test_other_attributes_are_those_of_the_engine_in_charge(engines: Engines) -> None:
    """What the host looks at only where it is there, is there if the engine has it."""
    engine = engines.started(FAKE)
    assert hosted().heard is engine.heard
    assert not hasattr(engine, "tail_token_budget")
    assert not hasattr(engines.bare(FAKE), "heard")


@pytest.mark.parametrize("kind", ["compressor", FAKE])
def test_a_threshold_set_by_the_host_is_a_budget(engines: Engines, kind: str) -> None:
    """B26: it takes effect at once, as a fact, and the next model's threshold follows from the share that was set."""
    engine = engines.started(kind, window=1_000_000)
    engine.threshold_tokens = 272_000
    engine.threshold_percent = 0.272
    assert [(1_000_000, 272_000)] == [(one.context_length, one.threshold) for one in facts(f.Budget, engine)]
    engine.update_from_response({"prompt_tokens": 300_000})
    assert engine.should_compress(300_000)
    engine.update_model(model="same", context_length=1_000_000)
    assert int(1_000_000 * 0.272) == engine.threshold_tokens
    assert [272_000] == [one.threshold for one in facts(f.Budget, engine)]


def test_the_threshold_follows_the_model(engines: Engines) -> None:
    """B24: reckoned anew from the configured share for each model; back again gives the first value exactly."""
    engines.compression = {"threshold": 0.7}
    engine = engines.started("compressor", window=200_000)
    first = engine.threshold_tokens
    engine.update_model(model="b", context_length=1_000_000)
    assert 700_000 == engine.threshold_tokens
    engine.update_model(model="m", context_length=200_000)
    assert first == engine.threshold_tokens == 150_000
    assert [150_000] == [one.threshold for one in facts(f.Budget, engine)]


def test_a_threshold_that_is_none_is_the_default(engines: Engines) -> None:
    """YAML has a word for what is no number; the host would not have started."""
    engines.compression = {"threshold": float("nan")}
    assert 150_000 == engines.started("compressor").threshold_tokens


@pytest.mark.parametrize("window", [64_000, 65_536, 100_000, 1_000_000])
def test_a_threshold_lies_within_its_window(engines: Engines, window: int) -> None:
    """B29: whatever the floor, a prompt that fits can cross it."""
    assert 0 < engines.started("compressor", window=window).threshold_tokens < window


# -- methods ----------------------------------------------------------------------------------------------------------

CALLS: list[tuple[str, tuple[Any, ...]]] = [
    ("update_from_response", (None,)),
    ("update_from_response", ({"prompt_tokens": "many"},)),
    ("update_from_response", ({},)),
    ("should_compress", ()),
    ("should_compress", ("many",)),
    ("should_compress", (-1,)),
    ("should_compress_preflight", ([],)),
    ("should_defer_preflight_to_real_usage", (None,)),
    ("has_content_to_compress", ([],)),
    ("has_content_to_compress", (None,)),
    ("get_active_compression_failure_cooldown", ()),
    ("_automatic_compression_blocked", ()),
    ("_load_fallback_compression_streak", ()),
    ("record_completed_compaction", ()),
    ("on_session_start", ("",)),
    ("on_session_end", ("", [])),
    ("on_session_end", ("s9", None)),
    ("on_session_reset", ()),
    ("bind_session_state", ()),
    ("bind_session_state", (None, "s2")),
    ("carry_over_new_session_context", ("a", "b")),
    ("update_model", ("m", None)),
    ("get_tool_schemas", ()),
    ("handle_tool_call", ("look", None)),
    ("get_status", ()),
    ("compress", ([],)),
    ("compress", ([{"role": "user", "content": object()}],)),
    ("compress", ([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],)),
]


@pytest.mark.parametrize("kind", ["compressor", FAKE, PLAIN, None])
@pytest.mark.parametrize(("name", "args"), CALLS)
def test_no_method_raises(engines: Engines, name: str, args: tuple[Any, ...], kind: str | None) -> None:
    """Whatever comes in, before a session and within one: the host would take an error for its own."""
    kinds = () if kind is None else (kind,)
    for engine in (engines.bare(*kinds), engines.started(*kinds)):
        getattr(engine, name)(*args)


def test_an_engine_that_raises_everywhere_is_not_heard(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a hosted engine raises is logged once for each method and answered with what does least harm.

    A verdict that is missing is not a no: the loop gives one instead.
    """
    engine = engines.started(FAKE)

    def broken(*_args: Any, **_kwargs: Any) -> Any:
        raise RuntimeError("broken")

    for name in ("update_from_response", "should_compress", "on_session_start", "on_session_end", "get_tool_schemas"):
        monkeypatch.setattr(hosted(), name, broken, raising=False)
    engine.update_from_response({"prompt_tokens": 150_000})
    assert engine.should_compress(150_000) is True
    assert engine.should_compress(50_000) is False
    assert [] == engine.get_tool_schemas()
    engine.on_session_end("s1", [])
    engine.on_session_start("s1", boundary_reason="compression", old_session_id="s1")


def test_the_signature_of_compress_shows_what_it_takes() -> None:
    """B21: the host filters by it; what comes later is taken too."""
    parameters = inspect.signature(engine_class(Base)().compress).parameters
    assert ["messages", "current_tokens", "focus_topic", "force", "memory_context", "more"] == list(parameters)
    assert parameters["more"].kind is inspect.Parameter.VAR_KEYWORD


def test_unknown_arguments_are_kept_from_an_engine_that_does_not_take_them(engines: Engines) -> None:
    """B21: `memory_context` and whatever the host will think of reach only who asks for them."""
    engine = engines.started(FAKE)
    rows = conversation()
    done = engine.compress(
        rows, current_tokens=1, focus_topic="stamps", force=True, memory_context="x", bypass_cooldown=1
    )
    assert ("compress", len(rows), {"current_tokens": 1, "focus_topic": "stamps", "force": True}) in hosted().heard
    assert len(done) < len(rows)


def test_tools_of_hosted_engines(engines: Engines) -> None:
    """B22: flat schemas, each name once, one type each; every call is answered in JSON."""
    engine = engines.started(FAKE)
    schemas = engine.get_tool_schemas()
    assert [("look", "Look."), ("find", "Find.")] == [(schema["name"], schema["description"]) for schema in schemas]
    assert all({"name", "description", "parameters"} == set(schema) for schema in schemas)
    assert ["string"] * 2 == [schema["parameters"]["properties"]["at"]["type"] for schema in schemas]
    assert {"seen": {"at": "x"}, "messages": 2} == json.loads(
        engine.handle_tool_call("look", {"at": "x"}, messages=[{}, {}], later=1)
    )
    assert {"seen": {}, "messages": 0} == json.loads(engine.handle_tool_call("look", None))
    for name in ("unknown", "find"):
        assert ["error"] == list(json.loads(engine.handle_tool_call(name, {})))


def test_the_status_shows_no_secret_and_no_minus(engines: Engines) -> None:
    """B01: right after a compaction the last prompt reads 0, not -1."""
    engine = engines.started(FAKE)
    engine.last_prompt_tokens = -1
    status = engine.get_status()
    assert (0, 0.0, [FAKE], "repair") == (
        status["last_prompt_tokens"],
        status["usage_percent"],
        status["engines"],
        status["guard"],
    )
    assert "sk-secret" not in f"{status} {engine!r} {engine.seat!r}"


# -- readings ---------------------------------------------------------------------------------------------------------


def test_only_the_prompt_is_pressure(engines: Engines) -> None:
    """B02: what the model wrote and thought does not count."""
    engine = engines.started("compressor", window=135_000)
    usage = {"prompt_tokens": 85_000, "completion_tokens": 20_000, "total_tokens": 105_000, "reasoning_tokens": 20_000}
    engine.update_from_response(usage)
    assert not engine.should_compress()
    (reading,) = facts(f.Usage, engine)
    assert (85_000, 105_000, 20_000) == (reading.prompt, reading.total, reading.reasoning)


@pytest.mark.parametrize("kind", ["compressor", FAKE])
def test_missing_usage(engines: Engines, kind: str) -> None:
    """B03: nothing and None are absent, not zero; what waits for a real reading waits no longer; an argument counts."""
    engine = engines.started(kind, window=107_000)
    engine.update_from_response({"prompt_tokens": 60_000})
    engine.awaiting_real_usage_after_compression = True
    engine.update_from_response({})
    assert engine.awaiting_real_usage_after_compression is False
    engine.update_from_response({"prompt_tokens": None, "completion_tokens": None, "total_tokens": None})
    assert [60_000] == [reading.prompt for reading in facts(f.Usage, engine)]
    assert engine.should_compress(None) is False
    assert engine.should_compress(90_000) is True


@pytest.mark.parametrize("kind", ["compressor", FAKE])
def test_cached_input_counts(engines: Engines, kind: str) -> None:
    """B04: a provider that reports the fresh tail only has still sent the rest."""
    engine = engines.started(kind)
    engine.update_from_response(
        {"input_tokens": 3, "cache_read_tokens": 17_700, "cache_write_tokens": 0, "output_tokens": 50}
    )
    assert 17_703 == engine.last_prompt_tokens
    assert [17_703] == [reading.prompt for reading in facts(f.Usage, engine)]


def test_no_second_compaction_before_a_real_reading(engines: Engines) -> None:
    """B01: estimates after a compaction wait; then an estimate is believed only if it has grown much."""
    engine = engines.started("compressor", window=133_400)
    assert 100_050 == engine.threshold_tokens
    engine.update_from_response({"prompt_tokens": 120_000})
    assert engine.should_compress(120_000)
    rows = engine.compress(conversation(60, 9000), current_tokens=120_000)
    assert len(rows) > 0
    commit(engine, rough=113_000)
    assert engine.should_defer_preflight_to_real_usage(113_000)
    assert not engine.should_compress(113_000)
    assert [1] == [fact.ask for fact in facts(f.Compressed, engine)]
    engine.update_from_response({"prompt_tokens": 58_000})
    assert engine.should_defer_preflight_to_real_usage(115_000)
    assert not engine.should_defer_preflight_to_real_usage(160_000)
    assert [1] == [fact.ask for fact in facts(f.Compressed, engine)]


def test_an_estimate_of_the_host_is_a_reading(engines: Engines) -> None:
    """What the host writes before it asks is published, marked as an estimate."""
    engine = engines.started("compressor")
    engine.last_prompt_tokens = 44_000
    assert [(44_000, True)] == [(reading.prompt, reading.estimated) for reading in facts(f.Usage, engine)]
    engine.last_prompt_tokens = -1
    assert [44_000] == [reading.prompt for reading in facts(f.Usage, engine)]


@pytest.mark.parametrize("kind", ["compressor", FAKE])
def test_a_provider_that_cuts_off_is_named(engines: Engines, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """B29: readings that stay where they are while the estimates grow are said, once; growing ones are not."""
    engine = engines.started(kind, window=130_000)
    for at in range(5):
        engine.should_compress(40_000 + at * 10_000)
        engine.update_from_response({"prompt_tokens": 30_000 + at * 8_000})
    assert "" == caplog.text
    readings = [40_900, 40_950, 40_960, 40_960, 40_960]
    for rough, prompt in zip([45_000, 50_000, 55_000, 60_000, 62_000], readings, strict=True):
        engine.should_defer_preflight_to_real_usage(rough)
        engine.update_from_response({"prompt_tokens": prompt})
    assert 1 == len(caplog.messages)
    assert "reports about 40960 prompt tokens" in caplog.text
    assert "130000" in caplog.text
    assert [(130_000, 34_816)] == [(one.context_length, one.threshold) for one in facts(f.Budget, engine)]
    assert engine.should_compress(40_960)  # what it takes is the budget from now on
    engine.update_model(model="another", context_length=130_000)
    assert engine.threshold_tokens > 60_000


def test_readings_far_from_any_estimate_are_no_window(engines: Engines, caplog: pytest.LogCaptureFixture) -> None:
    """B29: who reports a fixed number, or only what is new in a prompt, is named, and nothing is compacted for it."""
    engine = engines.started("compressor", window=130_000)
    before = engine.threshold_tokens
    for rough in (45_000, 55_000, 65_000, 75_000):
        engine.should_defer_preflight_to_real_usage(rough)
        engine.update_from_response({"prompt_tokens": 300})
    assert 1 == len(caplog.messages)
    assert before == engine.threshold_tokens
    assert not engine.should_compress(300)


def test_a_provider_that_cuts_off_is_only_named_where_nothing_is_mended(
    engines: Engines, caplog: pytest.LogCaptureFixture
) -> None:
    """B29: with `guard: record` a hosted engine's threshold stays what it says."""
    engine = engines.started(FAKE, window=130_000, guard="record")
    for rough in (45_000, 55_000, 65_000, 75_000):
        engine.should_defer_preflight_to_real_usage(rough)
        engine.update_from_response({"prompt_tokens": 40_960})
    assert 1 == len(caplog.messages)
    assert 65_000 == engine.threshold_tokens


def test_few_messages_may_be_much_to_compact(engines: Engines) -> None:
    """B28: eight messages, one of them huge: there is something to do, it is done, and pairs stay whole."""
    engine = engines.started("compressor")
    rows = [*conversation(2, 200)[:-2], *conversation(3, 200)[1:3]]
    rows[2]["content"] = "parcel and letter " * 72_000
    rows = [*rows, {"role": "assistant", "content": "Done."}, {"role": "user", "content": "And now?"}]
    assert engine.has_content_to_compress(rows)
    assert not engine.has_content_to_compress(rows[-2:])
    engine.update_from_response({"prompt_tokens": 190_000})
    assert engine.should_compress(190_000)
    done = engine.compress(rows, current_tokens=190_000)
    assert len(str(done)) < 500_000
    assert check(done, [{k: v for k, v in row.items() if k != "_db_persisted"} for row in rows]).ok


def test_the_same_messages_again_are_the_same(engines: Engines) -> None:
    """C25: handed over once more they are no new revision, and what is said twice stays said twice."""
    engine = engines.started(FAKE)
    rows = [*conversation(3)[:-1], *[{"role": "user", "content": "ok"}, {"role": "assistant", "content": "ok"}] * 2]
    rows.append({"role": "user", "content": "Go on."})
    revisions = []
    Fake.plan = lambda _self, messages, _told: messages
    for _ in range(3):
        engine.compress(rows)
        (transcript,) = facts(f.Transcript, engine)
        revisions.append((transcript.rev, len(transcript.messages)))
    assert [revisions[0]] * 3 == revisions
    assert 4 == sum(row["content"] == "ok" for row in transcript.messages)


def test_a_restart_hands_over_the_whole_history(engines: Engines) -> None:
    """C25: 1,662 messages of a session that is resumed by another process are those 1,662, once, however often they come."""
    from bridges.hermes.runtime import shut_down

    rows = [*conversation(827, 20)[:-1], *[{"role": role, "content": "ok"} for role in ("user", "assistant")] * 3]
    assert 1662 == len(rows)
    Fake.plan = lambda _self, messages, _told: messages
    seen = []
    for _process in range(2):
        engine = engines.started(FAKE)
        for _ in range(2):
            engine.compress([dict(row) for row in rows])
            (transcript,) = facts(f.Transcript, engine)
            seen.append(
                (transcript.rev, len(transcript.messages), sum(row["content"] == "ok" for row in transcript.messages))
            )
        assert 1 == len(facts(f.Transcript))
        shut_down()
    assert (1662, 6) == seen[0][1:]
    assert [seen[0]] * 4 == seen  # no new revision either


# -- copies -----------------------------------------------------------------------------------------------------------


def test_a_copy_is_another_agent(engines: Engines) -> None:
    """B06: it takes the budget along and nothing of the session, and what befalls it does not befall its parent."""
    parent = engines.started("compressor", window=1_000_000)
    parent.threshold_tokens = 200_000
    parent.update_from_response({"prompt_tokens": 50_000})
    before = facts(f.Session) + facts(f.Budget) + facts(f.Usage)
    child = copy.deepcopy(parent)
    assert (1_000_000, 200_000, 0) == (child.context_length, child.threshold_tokens, child.last_prompt_tokens)
    child.update_model("m", 204_800)
    child.on_session_start("child")
    child.update_from_response({"prompt_tokens": 180_000})
    assert (1_000_000, 200_000, 50_000) == (parent.context_length, parent.threshold_tokens, parent.last_prompt_tokens)
    mine = parent.seat.cell.sid
    assert before == [fact for cls in (f.Session, f.Budget, f.Usage) for fact in facts(cls) if fact.sid == mine]
    assert [180_000] == [reading.prompt for reading in facts(f.Usage, child)]


def test_a_copy_of_nothing_is_nothing(engines: Engines) -> None:
    """The engine that is registered is only copied: it has no seat, and neither has its copy."""
    assert copy.copy(engines.prototype)._seat is None


def test_a_helper_agent_under_the_same_id(engines: Engines) -> None:
    """C26: what compacts for another agent, under its session's id, changes nothing of that agent's session."""
    engine = engines.bare("compressor")
    engine.update_model(model="m", context_length=200_000)
    engine.on_session_start("s1", platform="telegram", model="m")
    engine.update_from_response({"prompt_tokens": 50_000})
    before = facts(f.Session, engine) + facts(f.Usage, engine) + facts(f.Budget, engine)
    helper = copy.deepcopy(engine)
    helper.on_session_start("s1", platform="cli")
    helper.compress(conversation(60, 9000), force=True)
    commit(helper)
    helper.on_session_end("s1", [])
    assert before == facts(f.Session, engine) + facts(f.Usage, engine) + facts(f.Budget, engine)
    assert ["telegram"] == [fact.platform for fact in facts(f.Session, engine)]
    assert [] == facts(f.Compressed, engine)
    assert 1 == len(facts(f.Compressed, helper))


def test_an_agent_that_is_gone_has_ended(engines: Engines) -> None:
    """Delegated children get no end: their conversation ends with them."""
    engine = engines.started("compressor")
    sid = engine.seat.cell.sid
    assert ["active"] == [fact.state for fact in facts(f.Session, sid=sid)]
    del engine
    gc.collect()
    assert ["ended"] == [fact.state for fact in facts(f.Session, sid=sid)]
    assert [] == facts(f.Serving, sid=sid) + facts(f.Budget, sid=sid)


# -- sessions ---------------------------------------------------------------------------------------------------------


def sessions(engine: Any) -> list[tuple[Any, str]]:
    """Host's id and state of the engine's conversation."""
    return [(fact.host_session, fact.state) for fact in facts(f.Session, engine)]


def test_a_session_is_known(engines: Engines) -> None:
    """Where it is, what for, and with which engines."""
    engine = engines.started("compressor", FAKE)
    (session,) = facts(f.Session, engine)
    assert ("fin", "m", "cli", "s1") == (session.profile, session.model, session.platform, session.host_session)
    assert ["compressor", FAKE] == [one.engine.partition("#")[0] for one in facts(f.Serving, engine)]


def test_a_boundary_goes_on(engines: Engines) -> None:
    """B09: another id after a compaction is the same conversation; what was published of it stands."""
    engine = engines.started("compressor")
    sid = engine.seat.cell.sid
    engine.update_from_response({"prompt_tokens": 10})
    engine.on_session_end("s1", [])
    engine.on_session_start("s2", boundary_reason="compression", old_session_id="s1", conversation_id="c")
    assert sid == engine.seat.cell.sid
    assert [("s2", "active")] == sessions(engine)
    assert 1 == len(facts(f.Usage, engine))
    assert 1 == len(facts(f.Session))


@pytest.mark.parametrize("rows", [[{"role": "user", "content": {1}}], Unreadable([1])])
def test_an_end_with_messages_that_nobody_can_read_is_an_end(engines: Engines, rows: Any) -> None:
    """What the host hands over at the end may be anything; the session has ended all the same."""
    engine = engines.started("compressor")
    sid = engine.seat.cell.sid
    engine.seat.finalized("s1")
    engine.on_session_end("s1", rows)
    assert engine.seat.cell is None
    assert ["ended"] == [fact.state for fact in facts(f.Session, sid=sid)]


def test_an_end_is_an_end_once(engines: Engines) -> None:
    """B12: said twice, and once with no id, it ends one session, when it is final."""
    engine = engines.started("compressor")
    other = engines.started("compressor", session="s2")
    sid = engine.seat.cell.sid
    for session in ("s1", "s1", ""):
        engine.on_session_end(session, [])
    assert [("s1", "active")] == sessions(engine)
    _finalized("s1")
    _finalized("s1")
    assert ["ended"] == [fact.state for fact in facts(f.Session, sid=sid)]
    assert [("s2", "active")] == sessions(other)


@pytest.mark.parametrize("named", [True, False])
def test_new_without_a_start(engines: Engines, named: bool) -> None:
    """B13: the id comes by `bind_session_state` or not at all; the old session has ended, the new one gets what comes."""
    engine = engines.started("compressor")
    old = engine.seat.cell.sid
    engine.update_from_response({"prompt_tokens": 90_000})
    engine.on_session_end("s1", [])
    engine.on_session_reset()
    if named:
        engine.bind_session_state(None, "s2")
        assert "s2" == engine._session_id
    engine.update_from_response({"prompt_tokens": 10_000})
    assert [("s2" if named else None, "active")] == sessions(engine)
    assert [10_000] == [reading.prompt for reading in facts(f.Usage, engine)]
    assert ["ended"] == [fact.state for fact in facts(f.Session, sid=old)]
    assert [] == facts(f.Usage, sid=old)
    new = engine.seat.cell.sid
    engine.on_session_start("s2")
    assert (new, [("s2", "active")]) == (engine.seat.cell.sid, sessions(engine))


def test_another_start_without_a_reset(engines: Engines) -> None:
    """B16: a start under another id is another session, also where nobody has reset anything."""
    engine = engines.started("compressor")
    old = engine.seat.cell.sid
    engine.on_session_end("s1", [])
    engine.on_session_start("live")
    assert old != engine.seat.cell.sid
    assert ["ended"] == [fact.state for fact in facts(f.Session, sid=old)]


def test_a_fork_that_ends_its_parents_id(engines: Engines) -> None:
    """The review fork ends under an id that is not its own; only its own conversation is touched."""
    parent, fork = engines.started(FAKE), engines.started(FAKE, session="fork")
    fork.on_session_end("s1", [])
    _finalized("s1")
    assert [("s1", "active")] == sessions(parent)
    assert ("end", "s1", 0) in Fake.made[-1].heard
    assert ("end", "s1", 0) not in Fake.made[-2].heard


def test_a_hosted_engine_hears_what_it_would_have(engines: Engines) -> None:
    """Starts, ends, bindings and models reach it as the host says them."""
    engine = engines.started(PLAIN)
    engine.on_session_end("s1", [{}, {}])
    engine.on_session_start("s2", boundary_reason="compression", old_session_id="s1")
    engine.on_session_reset()
    engine.bind_session_state(None, "s3")
    engine.update_model(model="n", context_length=90_000)
    assert [
        ("update_model", "m", 200_000),
        ("bind", "s1"),
        ("start", "s1", None),
        ("end", "s1", 2),
        ("start", "s2", "compression"),
        ("reset",),
        ("bind", "s3"),
        ("update_model", "n", 90_000),
    ] == hosted().heard


def test_turns_are_told(engines: Engines) -> None:
    """A turn opened on this thread belongs to whoever the host calls next on it; its end is told to that one."""
    engine, other = engines.started("compressor"), engines.started("compressor", session="s2")
    heard: list[Any] = []
    facts(f.Session)
    runtime = running()
    assert runtime is not None

    def listen(desk: Any) -> None:
        for cls in (f.TurnStarted, f.TurnEnded):
            desk.me.observe(cls, heard=heard.append)

    runtime.ask(listen)
    _turn_opened(turn_id="t1", session_id="s1")
    engine.get_active_compression_failure_cooldown()
    other.get_active_compression_failure_cooldown()
    _turn_ended(turn_id="t1", completed=False, interrupted=True)
    _turn_ended(turn_id="t2")
    facts(f.Session)
    sid = engine.seat.cell.sid
    assert [f.TurnStarted(sid, "t1"), f.TurnEnded(sid, "t1", completed=False, interrupted=True)] == heard
    assert (False, True) == (heard[1].completed, heard[1].interrupted)


def test_a_host_without_hooks(engines: Engines) -> None:
    """Where hooks cannot be registered the engine does without."""

    class Refuses:
        def register_hook(self, name: str, hook: Any) -> None:
            raise ValueError(name)

    register_hooks(object())
    register_hooks(Refuses())


# -- settings ---------------------------------------------------------------------------------------------------------


def test_switched_off_by_the_environment(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES_DATASPACE=off: the hosted built-in alone, whatever engines are configured; nothing is started."""
    pytest.importorskip("agent.context_compressor")
    monkeypatch.setenv("HERMES_DATASPACE", "off")
    engine = engines.started(FAKE, window=64_000)
    assert (54_400, True, None) == (engine.threshold_tokens, engine.seat.alone, running())
    engine.update_from_response({"prompt_tokens": 60_000})
    assert engine.should_compress(60_000)
    assert "off" == engine.get_status()["guard"]


def test_wrong_settings_are_said_once(engines: Engines, caplog: pytest.LogCaptureFixture) -> None:
    """One warning each that says what to write, and the default stands in."""
    caplog.set_level(logging.WARNING)
    for _ in range(2):
        engine = engines.started("compressor", gard="repair", guard="strict", deadline=-1, enabled="perhaps")
    assert 4 == len(caplog.messages)
    assert "unknown setting gard" in caplog.text
    assert "write repair or record" in caplog.text
    assert ("repair", 300.0, True) == (
        engine.seat.settings.guard,
        engine.seat.settings.deadline,
        engine.seat.settings.enabled,
    )


def test_an_engine_that_cannot_be_had(engines: Engines, caplog: pytest.LogCaptureFixture) -> None:
    """It is named with what was looked for, and the next one stands in."""
    engine = engines.started("no-such-engine", "compressor")
    assert "there is no context engine 'no-such-engine'" in caplog.text
    assert ("compressor",) == engine.seat.kinds


def test_importing_and_registering_loads_no_event_loop() -> None:
    """`register` makes the engine and nothing else: no trio, no loop, no engines."""
    import subprocess

    code = (
        "import sys; from bridges.hermes.adapter import engine_class; import bridges.hermes.hooks\n"
        "engine_class(object)(); print([name for name in ('trio', 'engines', 'dataspace') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[]" == done.stdout.strip()
