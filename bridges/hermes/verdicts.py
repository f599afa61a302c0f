"""The cheap calls of the host: usage, verdicts, deferral, cooldown.

They are answered on the calling thread.  A hosted engine that is in charge says them itself, and what it says is
published; otherwise the loop's state machine does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from engines.compressor import Limits, plan_compaction
from engines.loop import due
from engines.loop.events import PressureGiven, UsageRead
from engines.loop.pressure import sizes
from engines.messages import Messages

from .feed import Feed
from .hosted import Hosted
from .own import NEARLY_ALL
from .plateau import Plateau

__all__ = ["Verdicts"]

log = logging.getLogger(__name__)


class Verdicts(Feed):
    """What the host asks between two compactions."""

    pause_until = 0.0
    """No automatic try before then (monotonic seconds): the latest one failed, and not because there was nothing to do."""
    manual = False  # the compaction that the host has just taken over was asked for by hand
    wanted = False  # the latest verdict was yes
    plateau = Plateau()
    estimate = 0  # what somebody reckoned the next prompt to hold, latest

    def update_model(self, told: dict[str, Any]) -> None:
        """Another model, or the first one; what was read of the one before says nothing about it."""
        super().update_model(told)
        self.plateau = Plateau()

    def usage(self, usage: Any) -> None:
        """A response came, with the provider's usage report; perhaps an empty one."""
        report: Mapping[str, Any] = usage if isinstance(usage, Mapping) else {}
        self.drop_offer()
        self.wanted = False
        cell = self.begun()
        prompt, completion, total = sizes(report)
        told = dict(report) if self.alone or self.settings.guard == "record" else _cleaned(report, prompt)
        for hosted in self.hosted.values():
            hosted.tell("update_from_response", told)
        self.own.read_usage(prompt, completion, total)
        if cell is not None:
            self._watch(prompt)
            cell.guarded = self.in_charge() is None
            if cell.guarded:
                cell.happen(UsageRead(cell.sid, report, at=time.monotonic()))
            else:
                cell.read(prompt, report)

    def should_compress(self, tokens: Any) -> bool:
        """Whether to compact now."""
        cell = self.begun()
        hosted = self.in_charge()
        if cell is None:
            return bool(hosted is not None and hosted.cheap("should_compress", tokens, default=False, shape=bool))
        self.drop_offer()
        number = tokens if type(tokens) is int else _number(tokens, self.read("last_prompt_tokens"))
        if number != self.own.values["last_prompt_tokens"]:
            self.estimate = number
        cell.guarded = hosted is None
        if hosted is not None:
            self.wanted = self._hosted_says(hosted, tokens, number)
        else:
            self.wanted = self._loop_says(number)
        return self.wanted

    def defers(self, tokens: Any) -> bool:
        """Whether a rough estimate is to wait for a real reading."""
        self.refresh()
        self.begun()
        self.drop_offer()
        self.estimate = _number(tokens, 0)
        hosted = self.in_charge()
        if hosted is not None:
            says = hosted.cheap("should_defer_preflight_to_real_usage", tokens, default=False, shape=bool)
            if not hosted.stuck:
                return bool(says)
        return self.own.defers(_number(tokens, 0))

    def cooldown(self, *, refresh: bool) -> dict[str, Any] | None:
        """How long the engine in charge rests after a failure, if nobody else can stand in."""
        self.take_turn()
        hosted = self.in_charge()
        if hosted is None:
            return None
        refreshed = {"refresh": True} if refresh else {}
        rest = hosted.cheap("get_active_compression_failure_cooldown", shape=_rest, **refreshed)
        return rest if rest and not self._others() else None

    def blocked(self) -> bool:
        """Whether the engine in charge holds automatic compaction back, and nobody else can stand in."""
        hosted = self.in_charge()
        if hosted is None:
            return False
        return hosted.cheap("_automatic_compression_blocked", default=False, shape=bool) and not self._others()

    def load_streak(self) -> None:
        """Have the engine in charge read its durable state again."""
        hosted = self.in_charge()
        if hosted is not None:
            hosted.cheap("_load_fallback_compression_streak")

    def completed(self, *, used_fallback: bool) -> None:
        """The host has completed a compaction; whoever made it is told."""
        mark = "_verify_compaction_cleared_threshold"
        self.own.values[mark] = True
        hosted = self.in_charge()
        if hosted is None or "_last_compression_made_progress" in self.told:
            return  # it was somebody else's
        if hosted.has("record_completed_compaction"):
            hosted.cheap("record_completed_compaction", used_fallback=used_fallback)
        else:
            self.write(mark, True)
        if self.manual and self.settings.guard == "repair" and not self.alone:
            self.write(mark, False)  # what the user asked for by hand is no strike against automatic compaction

    def has_content(self, messages: Any) -> bool:
        """Whether a compaction by hand would find something to do."""
        hosted = self.in_charge()
        if hosted is not None:
            return bool(hosted.cheap("has_content_to_compress", messages, default=True, shape=bool))
        return plan_compaction(Messages.of(messages), Limits(threshold=self.budget()[1])) is not None

    def preflight(self, messages: Any) -> bool:
        """What the engine in charge says of a list before anybody has asked the provider."""
        hosted = self.in_charge()
        return hosted is not None and hosted.cheap("should_compress_preflight", messages, default=False, shape=bool)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _watch(self, prompt: int | None) -> None:
        """Say it, once a conversation, if the provider cuts off what it is sent; what it takes is the budget then."""
        before = self.plateau
        if not prompt:
            return  # it says nothing of a size; the earlier reading is none of this response
        self.plateau = before.read(prompt, self.estimate)
        if not self.plateau.noticed or before.noticed:
            return
        level = self.plateau.level
        length, threshold = self.budget()
        if level >= threshold:
            return
        log.warning(
            "The provider reports about %d prompt tokens however long the conversation grows (now some %d); it may cut"
            " off what it is sent. Set model.context_length in config.yaml to the window it really has; it is taken to"
            " have %d.",
            *(level, self.estimate, length),
        )
        if self.settings.guard == "repair" and self.plateau.cut_off:
            self.write("threshold_tokens", max(1, int(level * NEARLY_ALL)))

    def _others(self) -> bool:
        """Whether another compressor serves beside the one in charge."""
        return self.cell is not None and len(self.cell.engines.compressors) > 1

    def _hosted_says(self, hosted: Hosted, tokens: Any, number: int) -> bool:
        cell = self.cell
        assert cell is not None
        says = hosted.cheap("should_compress", tokens, default=None, shape=bool)
        if says is None:  # it has failed, or does not come back: its word is missing, not no
            cell.guarded = True
            return self._loop_says(number)
        _length, threshold = self.publish_budget()  # an engine may have set another threshold meanwhile
        awaited = bool(self.read("awaiting_real_usage_after_compression"))
        over = number >= threshold
        if number > 0 and not awaited and over != (cell.settled.question is not None):
            cell.happen(PressureGiven(cell.sid, number))
        held = over and not says
        cell.resting = frozenset({cell.first}) if held and self._others() else frozenset()
        if cell.resting:
            cell.guarded = True
            return not awaited and due(cell.state, time.monotonic())
        if says and self.settings.guard == "repair" and time.monotonic() < self.pause_until:
            cell.hold(f"{hosted.kind} failed a moment ago; automatic compaction pauses.")
            return False
        cell.hold(f"{hosted.kind} holds automatic compaction back." if held and not awaited else None)
        return bool(says)

    def _loop_says(self, number: int) -> bool:
        cell = self.cell
        assert cell is not None
        if number <= 0 or self.own.values["awaiting_real_usage_after_compression"]:
            return False
        state = cell.state
        if number < state.budget.threshold and state.question is None:
            return False
        if number != state.pressure:
            state = cell.happen(PressureGiven(cell.sid, number))
        return bool(cell.engines.compressors) and due(state, time.monotonic())


def _number(value: Any, otherwise: Any) -> int:
    for one in (value, otherwise):
        if isinstance(one, (int, float)) and not isinstance(one, bool):
            return int(one)
    return 0


def _rest(said: Any) -> dict[str, Any] | None:
    """A pause as the host reads it: it asks for the seconds that remain."""
    if not isinstance(said, dict) or not said:
        return None
    seconds = said.get("remaining_seconds", 0.0)
    return {**said, "remaining_seconds": float(seconds) if isinstance(seconds, (int, float)) else 0.0}


def _cleaned(report: Mapping[str, Any], prompt: int | None) -> dict[str, Any]:
    """A report that an engine can read: what is absent is left out, and cached input is part of the prompt."""
    told = {name: value for name, value in report.items() if value is not None}
    if "prompt_tokens" not in told and prompt is not None:
        told["prompt_tokens"] = prompt
    return told
