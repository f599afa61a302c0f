"""The host pair: the built-in compressor as the host calls it, and the adapter with the same one hosted.

`recorded`: with `guard: record` the two are equal, step by step.  `refined`: with `guard: repair` they are equal wherever
the left's step is sound, and where it is not the right's is.  `watched`: who observes the right changes nothing.

After a step in which the two may differ the left is made to be as the right, so that every later step is held against
it too.
"""

from __future__ import annotations

import copy
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from attrs import frozen

from bridges.hermes.fields import FIELDS
from bridges.hermes.hooks import register_hooks
from bridges.hermes.hosted import Hosted
from engines.facts import Session, Working
from tests.bisim.hermes_script import Script, Setup
from tests.bisim.hermes_side import Report, Rows, Side
from tests.bisim.hermes_sound import PLATEAU, problems, summed_up, weaknesses
from tests.bisim.hermes_summary import BOUND, Clock, Store, SummaryModel, steady
from tests.hermes_adapter.desk import Engines, facts

__all__ = ["Pair", "built_in", "pairing", "unsound"]

PLAIN = (bool, int, float, str, type(None))
NOT_SEEN = {"_session_db"}
STATUS = ("last_prompt_tokens", "threshold_tokens", "context_length", "usage_percent", "compression_count")
PAUSE = 901.0  # seconds: the longest that the adapter rests after a refusal
WINDOW = 64_000


@frozen
class Pair:
    """Plays scripts; `met` counts what happened."""

    engines: Engines
    model: SummaryModel
    clock: Clock
    met: Counter[str]
    idle: Callable[[], object]

    # -- sides --------------------------------------------------------------------------------------------------------

    def left(self, setup: Setup) -> Side:
        """The built-in, made as the host makes it."""
        from agent.context_compressor import ContextCompressor

        engine = ContextCompressor(
            model="m",
            quiet_mode=True,
            api_key="k",
            provider="custom",
            config_context_length=WINDOW,
            protect_first_n=setup.first,
            protect_last_n=setup.last,
            abort_on_summary_failure=setup.aborts,
        )
        return self._begun(engine, setup)

    def right(self, setup: Setup, guard: str) -> Side:
        """The adapter."""
        self.engines.compression = setup.compression
        engine = self.engines.bare("builtin", guard=guard)
        told = {"base_url": "", "api_key": "k", "provider": "custom", "api_mode": ""}
        engine.update_model(model="m", context_length=WINDOW, **told)
        side = self._begun(engine, setup)
        side.after_compress = self.idle
        register_hooks(_Hooks(side))
        return side

    def _begun(self, engine: Any, setup: Setup) -> Side:
        side = Side(engine, self.model, Store(self.clock) if setup.stored else None, in_place=setup.in_place)
        engine.bind_session_state(session_db=side.store, session_id="s0")
        engine.on_session_start("s0", platform="cli", model="m", context_length=WINDOW)
        return side

    # -- relations ----------------------------------------------------------------------------------------------------

    def recorded(self, script: Script) -> None:
        """Play a script with `guard: record`; an assertion says where the two part."""
        mine, other = self.left(script.setup), self.right(script.setup, "record")
        for at, name, (want, have) in self._steps(script, mine, other):
            where = (script.seed, at, name)
            self.met.update(_happened(mine.report))
            assert not other.report.raised, where
            if mine.report.raised:
                # No method of the adapter raises; instead of a raised compress call the host gets an abort.
                self.met["raised on the left"] += 1
                if any(raised.startswith("compress") for raised in mine.report.raised):
                    assert other.report.aborted, where
                    assert not other.report.taken, where
                    assert other.rows == mine.rows, where
                _follow(mine, other)
                continue
            assert want == have, where
            assert {} == _parted(mine, other), where
            _one_conversation(other, where)
        _as_many_facts(other, script.seed)

    def refined(self, script: Script) -> None:
        """Play a script with `guard: repair`; an assertion says where the right is neither equal nor better."""
        mine, other = self.left(script.setup), self.right(script.setup, "repair")
        for at, name, (want, have) in self._steps(script, mine, other):
            where = (script.seed, at, name)
            self.met.update(_happened(other.report))
            strikes, verifies = mine.engine._ineffective_compression_count, _verifies(mine)
            found = weaknesses(mine.report, strikes, verifies=verifies)
            parted = _parted(mine, other)
            if want != have:
                parted["said"] = (want, have)
            if not parted:
                found.discard(PLATEAU)  # it takes more than three readings
            if not found:
                assert {} == parted, where
                self.met["compactions equal to the left's"] += other.report.taken
                continue
            self.met.update(found)
            self.met["unsound on the left"] += 1
            assert [] == unsound(other), (*where, sorted(found))
            if other.report.aborted:
                self.clock.now += PAUSE  # what the adapter does in it has tests of its own
            if parted:
                self.met["parted"] += 1
                _follow(mine, other)
            _one_conversation(other, where)
        _as_many_facts(other, script.seed)

    def watched(self, script: Script, watching: Callable[[], Any]) -> None:
        """Play a script without and with somebody who looks on; nothing the host can see may differ."""
        began = self.clock.now
        alone = self._alone(script)
        self.clock.now = began
        with watching():
            seen = self._alone(script)
        for at, (want, have) in enumerate(zip(alone, seen, strict=True)):
            assert want == have, (script.seed, at, script.steps[at].name)

    # -- playing ------------------------------------------------------------------------------------------------------

    def _steps(self, script: Script, mine: Side, other: Side) -> Iterator[tuple[int, str, tuple[Any, Any]]]:
        """Each step, done on both sides, with what the two said."""
        self.model.mood = "good"
        for at, step in enumerate(script.steps):
            self.clock.now += step.seconds
            self.model.mood = step.mood or self.model.mood
            said = []
            for side in (mine, other):
                side.report = Report()
                self.model.prompts = []
                said.append((step.do(side), tuple(self.model.prompts)))
            yield at, step.name, (said[0], said[1])

    def _alone(self, script: Script) -> list[Any]:
        side, seen = self.right(script.setup, "repair"), []
        self.model.mood = "good"
        for step in script.steps:
            self.clock.now += step.seconds
            self.model.mood = step.mood or self.model.mood
            side.report = Report()
            self.model.prompts = []
            said = step.do(side)
            self.met.update(_happened(side.report))
            shown = {name: _unnumbered(value) for name, value in _seen(side).items()}
            seen.append(copy.deepcopy((said, self.model.prompts, side.report, side.rows, shown)))
        return seen


class _Hooks:
    """What a plugin gets of the host: its hooks are told to one side."""

    def __init__(self, side: Side) -> None:
        self._side = side

    def register_hook(self, name: str, hook: Callable[..., object]) -> None:
        self._side.hooks[name] = hook


@contextmanager
def pairing(engines: Engines) -> Iterator[Pair]:
    """A pair whose time and summaries are in hand, and which knows when a hosted call is really over."""
    model, clock = SummaryModel(), Clock()
    busy, calls = threading.Condition(), [0]
    compress = Hosted.compress

    def counted(self: Hosted, *args: Any, **kwargs: Any) -> Any:
        with busy:
            calls[0] += 1
        try:
            return compress(self, *args, **kwargs)
        finally:
            with busy:
                calls[0] -= 1
                busy.notify_all()

    def idle() -> None:
        with busy:
            assert busy.wait_for(lambda: not calls[0], BOUND)
        until = time.monotonic() + BOUND
        while facts(Working):  # an engine that nobody waits for any more is asked again once it has returned
            assert time.monotonic() < until

    with steady(model, clock), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Hosted, "compress", counted)
        yield Pair(engines, model, clock, Counter(), idle)


# -- what is seen -----------------------------------------------------------------------------------------------------


def built_in(side: Side) -> Any:
    """The compressor of a side."""
    seat = side.engine.__dict__.get("_seat")
    return side.engine if seat is None else seat.in_charge().front


def _seen(side: Side) -> dict[str, Any]:
    """What the host can see of an engine, and all that the compressor keeps in itself."""
    seen = {name: getattr(side.engine, name, default) for name, default in FIELDS.items()}
    kept = {
        f"its {name}": value
        for name, value in vars(built_in(side)).items()
        if isinstance(value, PLAIN) and name not in NOT_SEEN
    }
    stored = {} if side.store is None else {"cooldowns": side.store.cooldowns, "streaks": side.store.streaks}
    # The built-in has no status while its reading is no number.
    status = side.engine.get_status() if type(side.engine.last_prompt_tokens) is int else {}
    told = {f"status {name}": value for name, value in status.items() if name in STATUS}
    resting = side.engine.get_active_compression_failure_cooldown()
    return {**seen, **kept, **copy.deepcopy(stored), **told, "resting": resting, "session": side.session}


def _parted(mine: Side, other: Side) -> dict[str, Any]:
    """Where the two are not equal.  What the adapter says of a compress call itself is not the built-in's to say."""
    one, two = _seen(mine), _seen(other)
    parted = {name: (one[name], two[name]) for name in one.keys() & two.keys() if one[name] != two[name]}
    parted |= {name: name for name in one.keys() ^ two.keys() if not name.startswith("status")}
    parted = {name: both for name, both in parted.items() if name not in other.engine.seat.told}
    # A number of the built-in's that is none, after a report that it could not read, is not shown.
    odd = {name for name, was in FIELDS.items() if type(was) is int and type(one[name]) is not int}
    assert all(type(two[name]) is int for name in odd), odd
    parted = {name: both for name, both in parted.items() if name not in odd}
    if mine.rows != other.rows:
        parted["rows"] = (mine.rows, other.rows)
    return parted


def _follow(mine: Side, other: Side) -> None:
    """Make the left be as the right is."""
    kept = {name: value for name, value in vars(built_in(other)).items() if name not in NOT_SEEN}
    own = vars(mine.engine)
    for name in own.keys() - kept.keys() - NOT_SEEN:
        del own[name]
    own.update(copy.deepcopy(kept))
    mine.rows = copy.deepcopy(other.rows)
    mine.session, mine.sessions = other.session, other.sessions
    if mine.store is not None and other.store is not None:
        mine.store.take(other.store)


def _unnumbered(value: Any) -> Any:
    """A text without the number of the conversation that an engine is named after."""
    return re.sub(r"\bbuiltin#\d+", "builtin#n", value) if isinstance(value, str) else value


def _verifies(side: Side) -> bool:
    return bool(side.engine._verify_compaction_cleared_threshold)


def _happened(report: Report) -> Iterator[str]:
    if report.before is not None:
        yield "compress calls"
        if report.taken:
            yield "compactions"
        elif report.aborted:
            yield "aborts"


# -- the right --------------------------------------------------------------------------------------------------------


def unsound(side: Side) -> list[str]:
    """What is wrong with the right after a step in which the left was unsound."""
    return list(_wrong(side, side.report))


def _wrong(side: Side, report: Report) -> Iterator[str]:
    engine = side.engine
    threshold = engine.threshold_tokens
    signs = {
        "a reading that is no number": type(engine.last_prompt_tokens) is not int,
        "misreads a report": report.misread and engine.last_prompt_tokens <= 0,
        "another threshold, still above what is reported": report.plateau
        and threshold != report.threshold
        and threshold > side.readings[-1],
        "another threshold than the host has set": report.forgets
        and threshold != int(engine.context_length * side.share),
    }
    yield from (raised for raised in report.raised if "KeyboardInterrupt" not in raised)
    yield from (name for name, seen in signs.items() if seen)
    if report.before is not None:
        yield from _carried(side) if report.late else _wrongly_compacted(side, report, report.before)


def _wrongly_compacted(side: Side, report: Report, before: Rows) -> Iterator[str]:
    engine = side.engine
    if report.changed:
        yield "the list it was given is changed"
    if report.done is not None and report.done != before:
        yield from problems(report.done, before)
        if report.made and not summed_up(report):
            yield "no summary"
        if report.useless:
            yield "a summary that says nothing"
    elif side.rows != before:
        yield "a list that nobody has given"
    if report.manual and (engine._ineffective_compression_count > report.strikes or (report.taken and _verifies(side))):
        yield "a strike"
    declined = report.made and report.done is None  # it gave back what it got, and counts that
    if not report.taken and not declined and engine.compression_count != report.count:
        yield "a compaction is counted that is none"


def _carried(side: Side) -> Iterator[str]:
    """What of a session that is over has got into the next one."""
    if side.rows or side.report.taken:
        yield "messages of another session"
    if side.engine.compression_count or built_in(side)._previous_summary:
        yield "a compaction of another session"


def _one_conversation(side: Side, where: Any) -> None:
    """A conversation goes on until the host says that another begins, and not longer."""
    cell = side.engine.seat.cell
    if cell is None:
        return
    assert side.known.setdefault(side.conversations, cell.sid) == cell.sid, where


def _as_many_facts(side: Side, seed: int) -> None:
    """One session stands for a side, under the id that the host has given it last."""
    if side.engine.seat.cell is None:
        return
    standing = facts(Session, side.engine)
    assert 1 == len(standing), seed
    assert standing[0].host_session in {side.session, None}, (seed, standing[0].host_session, side.session)
