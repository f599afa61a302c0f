"""The host pair: the built-in compressor as the host calls it, and the adapter with the same one hosted.

`recorded`: with `guard: record` the two are equal, step by step.  `refined`: with `guard: repair` they are equal wherever
the left's step is sound, and where it is not the right's is.  `watched`: who observes the right changes nothing.

After a step in which the two may differ the left is made to be as the right, so that every later step is held against
it too.
"""

from __future__ import annotations

import copy
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from attrs import frozen

from bridges.hermes.hooks import register_hooks
from bridges.hermes.hosted import Hosted
from engines.facts import Working
from tests.bisim.hermes_script import Script, Setup
from tests.bisim.hermes_seen import (
    follow,
    happened,
    one_conversation,
    one_session,
    parted_in,
    seen,
    unnumbered,
    unsound,
    verifies,
)
from tests.bisim.hermes_side import Report, Side
from tests.bisim.hermes_sound import PLATEAU, weaknesses
from tests.bisim.hermes_summary import BOUND, Clock, Store, SummaryModel, steady
from tests.hermes_adapter.desk import Engines, facts

__all__ = ["Pair", "pairing"]

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
            self.met.update(happened(mine.report))
            assert not other.report.raised, where
            if mine.report.raised:
                # No method of the adapter raises; instead of a raised compress call the host gets an abort.
                self.met["raised on the left"] += 1
                if any(raised.startswith("compress") for raised in mine.report.raised):
                    assert other.report.aborted, where
                    assert not other.report.taken, where
                    assert other.rows == mine.rows, where
                follow(mine, other)
                continue
            assert want == have, where
            assert {} == parted_in(mine, other), where
            one_conversation(other, where)
        one_session(other, script.seed)

    def refined(self, script: Script) -> None:
        """Play a script with `guard: repair`; an assertion says where the right is neither equal nor better."""
        mine, other = self.left(script.setup), self.right(script.setup, "repair")
        for at, name, (want, have) in self._steps(script, mine, other):
            where = (script.seed, at, name)
            self.met.update(happened(other.report))
            strikes, verifying = mine.engine._ineffective_compression_count, verifies(mine)
            found = weaknesses(mine.report, strikes, verifies=verifying)
            parted = parted_in(mine, other)
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
                follow(mine, other)
            one_conversation(other, where)
        one_session(other, script.seed)

    def watched(self, script: Script, watching: Callable[[], Any]) -> None:
        """Play a script without and with somebody who looks on; nothing the host can see may differ."""
        began = self.clock.now
        alone = self._alone(script)
        self.clock.now = began
        with watching():
            watched = self._alone(script)
        for at, (want, have) in enumerate(zip(alone, watched, strict=True)):
            parted = {name: (want[name], have[name]) for name in want if want[name] != have[name]}
            assert {} == parted, (script.seed, at, script.steps[at].name)

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

    def _alone(self, script: Script) -> list[dict[str, Any]]:
        side = self.right(script.setup, "repair")
        shown: list[dict[str, Any]] = []
        self.model.mood = "good"
        for step in script.steps:
            self.clock.now += step.seconds
            self.model.mood = step.mood or self.model.mood
            side.report = Report()
            self.model.prompts = []
            said = step.do(side)
            self.met.update(happened(side.report))
            visible = {name: unnumbered(value) for name, value in seen(side).items()}
            told = {"said": said, "prompts": self.model.prompts, "report": side.report, "rows": side.rows}
            shown.append(copy.deepcopy({**told, **visible}))
        return shown


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
