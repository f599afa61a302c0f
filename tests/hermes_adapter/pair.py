"""The host pair: the built-in compressor as the host calls it, and the adapter with the same one hosted.

A script is a list of steps drawn from a seed; `perform` plays it on one side and gives what was seen after each step.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

from bridges.hermes.fields import FIELDS
from engines.transcript import check

__all__ = ["USELESS", "Side", "SummaryModel", "draw", "perform", "set_mood"]

Rows = list[dict[str, Any]]
VISIBLE = (
    *("context_length", "threshold_tokens", "threshold_percent", "protect_first_n", "protect_last_n", "max_tokens"),
    *("last_prompt_tokens", "last_completion_tokens", "last_total_tokens", "last_real_prompt_tokens"),
    *("last_compression_rough_tokens", "last_rough_tokens_when_real_prompt_fit"),
    *("awaiting_real_usage_after_compression", "compression_count", "_ineffective_compression_count"),
    *("_verify_compaction_cleared_threshold", "_last_compress_aborted", "_last_summary_error"),
    *("_last_compression_made_progress", "_last_summary_fallback_used", "_last_summary_dropped_count"),
    *("_session_id", "_context_probed", "_context_probe_persistable", "_previous_summary", "model"),
)


USELESS = ("invisible", "thoughts", "echo")
"""Moods in which a summary says nothing, and the built-in does not notice."""


class SummaryModel:
    """What stands for the host's `call_llm`: deterministic, and as bad as it is told to be."""

    def __init__(self) -> None:
        self.mood = "good"
        self.prompts: list[str] = []

    def __call__(self, **told: Any) -> Any:
        prompt = told["messages"][0]["content"]
        self.prompts.append(prompt)
        if self.mood == "fails":
            raise ValueError("the summary model is out")
        if self.mood == "no network":
            raise ConnectionError("no route")
        text = {
            "good": f"## Goal\nCount.\n## Done\n{len(prompt) // 5000} pages were read and noted.",
            "empty": "",
            "invisible": "\u200b\u200b",
            "thoughts": "<think>what a long text</think>",
            "echo": prompt,
        }[self.mood]
        message = type("Message", (), {"content": text})()
        return type("Response", (), {"choices": [type("Choice", (), {"message": message})()]})()


class Side:
    """One engine, called as the host calls it; the messages are the host's."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.rows: Rows = []
        self.session = "s0"
        self.sessions = 0
        self.calls = 0
        self.unsound: list[str] = []
        self.mood = "good"

    def append(self, rows: Rows) -> None:
        """The conversation goes on."""
        self.rows.extend(copy.deepcopy(rows))

    def usage(self, report: dict[str, Any]) -> None:
        """A response with its usage."""
        self.engine.update_from_response(dict(report))

    def asks(self, tokens: int) -> tuple[bool, bool]:
        """Before a request: deferral, the host's own estimate, cooldown, verdict; compacts if it says so."""
        engine = self.engine
        deferred = engine.should_defer_preflight_to_real_usage(tokens)
        if not deferred and 0 <= engine.last_prompt_tokens < tokens:
            engine.last_prompt_tokens = tokens
        resting = bool(engine.get_active_compression_failure_cooldown())
        says = not deferred and not resting and engine.should_compress(tokens)
        if says:
            self.compact(tokens)
        return deferred, says

    def after_tools(self) -> bool:
        """After a round of tools."""
        last = self.engine.last_prompt_tokens
        says = self.engine.should_compress(max(0, last))
        if says:
            self.compact(last)
        return bool(says)

    def compact(self, tokens: int, *, force: bool = False, rotate: bool = False) -> None:
        """What the host does around a compress call."""
        engine = self.engine
        if not force:
            engine.get_active_compression_failure_cooldown(refresh=True)
            engine._load_fallback_compression_streak()
            if engine._automatic_compression_blocked():
                return
        before = copy.deepcopy(self.rows)
        done = engine.compress(self.rows, current_tokens=tokens, focus_topic=None, force=force)
        made, fallback = engine._last_compression_made_progress, engine._last_summary_fallback_used
        if self.rows != before:
            self.unsound.append("the input was changed")
        if engine._last_compress_aborted or done == before or not done:
            return
        report = check(done, [{k: v for k, v in row.items() if k != "_db_persisted"} for row in before])
        self.unsound.extend(problem.code for problem in (*report.errors, *report.faults))
        # With no tail left the built-in puts no summary in at all; what it gives is sound as a transcript.
        put_in = any("[CONTEXT COMPACTION" in str(row["content"]) and row not in before for row in done)
        if self.mood in USELESS and made and not fallback and put_in:
            self.unsound.append("useless summary")
        old = self.session
        engine.on_session_end(old, self.rows)
        if rotate:
            self.sessions += 1
            self.session = f"s{self.sessions}"
        engine.on_session_start(self.session, boundary_reason="compression", old_session_id=old, platform="cli")
        self.rows = done
        engine.last_compression_rough_tokens = 1000 + 10 * len(done)
        engine.last_prompt_tokens = -1
        engine.last_completion_tokens = 0
        engine.awaiting_real_usage_after_compression = True
        if made:
            engine.record_completed_compaction(used_fallback=bool(fallback))

    def reset(self) -> None:
        """/new."""
        self.engine.on_session_end(self.session, self.rows)
        self.engine.on_session_reset()
        self.sessions += 1
        self.session = f"s{self.sessions}"
        self.engine.bind_session_state(None, self.session)
        self.rows = []

    def switch(self, model: str, window: int) -> None:
        """/model."""
        self.engine.update_model(
            model=model, context_length=window, base_url="", api_key="k", provider="custom", api_mode=""
        )

    def seen(self) -> dict[str, Any]:
        """What the host can see now."""
        return {name: getattr(self.engine, name, FIELDS.get(name)) for name in VISIBLE} | {
            "resting": bool(self.engine.get_active_compression_failure_cooldown()),
            "rows": self.rows,
        }


Step = Callable[[Side], Any]


def draw(seed: int, most: int = 40) -> list[tuple[str, Step]]:
    """A script: named steps, the same for the same seed.  `mood …` steps are for the model, not the side."""
    dice = random.Random(seed)
    return [("append", _append(dice, start=True)), *(_step(dice) for _ in range(dice.randint(8, most)))]


def _step(dice: random.Random) -> tuple[str, Step]:
    kind = dice.choices(
        ["append", "usage", "no usage", "asks", "tools", "manual", "overflow", "rotate", "switch", "reset", "mood"],
        [30, 16, 3, 12, 12, 4, 5, 4, 3, 2, 6],
    )[0]
    tokens = dice.choice([500, 20_000, 50_000, 54_399, 54_400, 60_000, 63_000])
    if kind == "append":
        return kind, _append(dice)
    report = {"prompt_tokens": tokens, "completion_tokens": 50, "total_tokens": tokens + 50}
    model, window = dice.choice([("m", 64_000), ("n", 64_000), ("wide", 200_000)])
    mood = dice.choice(["good"] * 6 + ["fails", "no network", "empty", *USELESS])
    steps: dict[str, Step] = {
        "usage": lambda side: side.usage(report),
        "no usage": lambda side: side.usage({}),
        "asks": lambda side: side.asks(tokens),
        "tools": lambda side: side.after_tools(),
        "manual": lambda side: side.compact(tokens, force=True),
        "overflow": lambda side: side.compact(tokens),
        "rotate": lambda side: side.compact(tokens, rotate=True),
        "switch": lambda side: side.switch(model, window),
        "reset": lambda side: side.reset(),
        "mood": lambda _side: None,
    }
    return f"mood {mood}" if kind == "mood" else kind, steps[kind]


def _append(dice: random.Random, *, start: bool = False) -> Step:
    """Messages of every shape: requests, tool rounds, several calls at once, an open call, parts, odd content."""
    rows: Rows = []
    for _ in range(dice.randint(6, 14) if start else dice.randint(1, 6)):
        number = dice.randrange(10_000)
        size = dice.choice([10, 200, 3000, 9000])
        shape = dice.choice(["user", "round", "round", "round", "rounds", "assistant", "parts", "odd"])
        if shape == "user":
            rows.append({"role": "user", "content": f"Request {number}. " + "please " * (size // 10)})
        elif shape == "assistant":
            rows.append({"role": "assistant", "content": f"Answer {number}. " + "well " * (size // 10)})
        elif shape == "parts":
            rows.append({"role": "user", "content": [{"type": "text", "text": f"Part {number}"}]})
        elif shape == "odd":
            rows.append({"role": "assistant", "content": None, "_db_persisted": True})
        else:
            names = [f"c{number}_{at}" for at in range(3 if shape == "rounds" else 1)]
            calls = [
                {
                    "id": name,
                    "type": "function",
                    "function": {"name": "read_file", "arguments": f'{{"path": "{name}"}}'},
                }
                for name in names
            ]
            rows.append({"role": "assistant", "content": "", "tool_calls": calls, "_db_persisted": True})
            rows.extend(
                {"role": "tool", "tool_call_id": name, "content": f"page {number} " * (size // 8)} for name in names
            )
    return lambda side: side.append(rows)


def set_mood(name: str, model: SummaryModel, *sides: Side) -> None:
    """A step that is the summary model's."""
    if name.startswith("mood "):
        model.mood = name.removeprefix("mood ")
    for side in sides:
        side.mood = model.mood


def perform(side: Side, model: SummaryModel, script: list[tuple[str, Step]]) -> list[tuple[str, Any, dict[str, Any]]]:
    """Play it: after each step its name, what it said, and what can be seen."""
    seen = []
    model.mood = "good"
    for name, step in script:
        set_mood(name, model, side)
        said = step(side)
        seen.append((name, said, copy.deepcopy(side.seen())))
    return seen
