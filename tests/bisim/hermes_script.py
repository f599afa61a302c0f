"""Scripts for the host pair: how the host is set up, and up to 40 steps, the same for the same seed.

`record` scripts leave out the two things in which the adapter differs whatever the guard is told: an interrupt, which
it cannot hand on to the thread that works for it, and a compaction that is still written when its session is over.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from attrs import frozen

from tests.bisim.hermes_side import Rows, Side
from tests.bisim.hermes_summary import FAILING, USELESS

__all__ = ["Script", "Setup", "Step", "draw"]

TOKENS = (500, 20_000, 50_000, 54_399, 54_400, 60_000, 63_000)
SIZES = (10, 200, 3000, 9000)
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0KGgo" * 40}}


@frozen
class Setup:
    """How the host is configured; `stored`: it has a store for sessions; `in_place`: a compaction keeps the id."""

    stored: bool = False
    in_place: bool = True
    aborts: bool = False
    first: int = 3
    last: int = 20
    system: bool = False

    @property
    def compression(self) -> dict[str, Any]:
        """The block of the host's configuration."""
        return {
            "abort_on_summary_failure": self.aborts,
            "protect_first_n": self.first,
            "protect_last_n": self.last,
        }


@frozen
class Step:
    """One step: a name to be read, and what it does to a side; `mood` is the summary model's from here on."""

    name: str
    do: Callable[[Side], Any] = lambda _side: None
    mood: str = ""
    seconds: float = 0.0


@frozen
class Script:
    """A script, with the seed it was drawn from."""

    seed: int
    setup: Setup
    steps: tuple[Step, ...]


def draw(seed: int, *, record: bool = False, most: int = 40) -> Script:
    """Draw a script."""
    dice = random.Random(seed)
    setup = Setup(
        stored=dice.random() < 0.6,
        in_place=dice.random() < 0.6,
        aborts=dice.random() < 0.15,
        first=dice.choice([3, 3, 3, 0, 1]),
        last=dice.choice([20, 20, 20, 6]),
        system=dice.random() < 0.2,
    )
    rows: Rows = [{"role": "system", "content": "You help with parcels."}] if setup.system else []
    begin = Step("append", _append([*rows, *_beginning(dice, setup.first)]))
    return Script(seed, setup, (begin, *(_step(dice, record=record) for _ in range(dice.randint(8, most - 1)))))


_KINDS = {
    "append": 30, "burst": 3, "usage": 15, "odd usage": 4, "asks": 12, "tools": 11, "manual": 4, "overflow": 5,
    "drop": 3, "slow": 5, "switch": 3, "lower": 1, "probe": 1, "reset": 2, "end": 2, "start": 1, "turn": 5,
    "content": 2, "looks": 1, "wait": 5, "mood": 9,
}  # fmt: skip


def _step(dice: random.Random, *, record: bool) -> Step:
    kind = dice.choices(list(_KINDS), list(_KINDS.values()))[0]
    if kind == "mood":
        moods = ["good"] * 9 + [*FAILING, *USELESS, "long"] + ([] if record else ["interrupted"])
        mood = dice.choice(moods)
        return Step(f"mood {mood}", mood=mood)
    if kind == "wait":
        return Step(kind, seconds=dice.choice([1.0, 29.0, 31.0, 61.0, 301.0, 901.0]))
    if kind == "append":
        return Step(kind, _append([row for _ in range(dice.randint(1, 6)) for row in _some(dice)]))
    if kind == "burst":
        return Step(kind, _append(_burst(dice)))
    if kind in {"manual", "overflow", "drop", "slow"}:
        return _compaction(kind, dice, record=record)
    return _other(kind, dice)


def _compaction(kind: str, dice: random.Random, *, record: bool) -> Step:
    tokens = dice.choice([*TOKENS, None])
    told: dict[str, Any] = {"force": kind == "manual" or dice.random() < 0.2}
    if told["force"]:
        told["focus"] = dice.choice([None, None, "the letters"])
    told["memory"] = dice.choice(["", "", "", "Robin counts in dozens."])
    told["drop"] = kind == "drop"
    if kind == "slow":
        told["meanwhile"] = _meanwhile(dice, record=record)
    return Step(kind, lambda side: side.compact(tokens, **told))


def _meanwhile(dice: random.Random, *, record: bool) -> Callable[[Side], object]:
    """What another thread of the host does while a summary is written."""
    model, window = dice.choice([("m", 64_000), ("wide", 200_000)])
    return dice.choice(
        [
            Side.looks,
            lambda side: side.switch(model, window),
            Side.looks if record else Side.reset,
        ]
    )


def _other(kind: str, dice: random.Random) -> Step:
    tokens = dice.choice(TOKENS)
    model, window = dice.choice([("m", 64_000), ("n", 64_000), ("wide", 200_000)])
    report = dice.choice(_odd(tokens))
    binds, other, whose = dice.random() < 0.7, dice.random() < 0.5, dice.choice(["own", "own", "nobody", "other"])
    lowered = dice.choice([30_000, 54_400])
    usage = {"prompt_tokens": tokens, "completion_tokens": 50, "total_tokens": tokens + 50}
    steps: dict[str, Callable[[Side], Any]] = {
        "usage": lambda side: side.usage(usage),
        "odd usage": lambda side: side.usage(report),
        "asks": lambda side: side.asks(tokens),
        "tools": Side.after_tools,
        "switch": lambda side: side.switch(model, window),
        "lower": lambda side: side.lower(lowered),
        "probe": Side.probe,
        "reset": lambda side: side.reset(binds=binds),
        "end": lambda side: side.end(whose),
        "start": lambda side: side.start(other=other),
        "turn": Side.next_turn,
        "content": Side.has_content,
        "looks": Side.looks,
    }
    return Step(kind, steps[kind])


def _odd(tokens: int) -> list[dict[str, Any]]:
    """Usage reports that say little, nothing, or it in another way."""
    nothing: dict[str, Any] = dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"))
    return [
        {},
        {},
        nothing,
        {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
        {"prompt_tokens": tokens},
        {"completion_tokens": 7},
        {"prompt_tokens": tokens, "completion_tokens": None},
        {"input_tokens": 3, "cache_read_tokens": tokens, "cache_write_tokens": 0, "output_tokens": 50},
        {"prompt_tokens": tokens, "completion_tokens": 9, "total_tokens": tokens + 9, "reasoning_tokens": 400},
    ]


# -- messages ---------------------------------------------------------------------------------------------------------


def _append(rows: Rows) -> Callable[[Side], None]:
    return lambda side: side.append(rows)


def _beginning(dice: random.Random, first: int) -> Rows:
    if dice.random() < 0.15:  # nothing follows what is protected but one request and what comes of it
        return [*[_user(dice, 10), _assistant(dice, 10), _assistant(dice, 200)][:first], *_burst(dice)]
    return [row for _ in range(dice.randint(6, 14)) for row in _some(dice)]


def _burst(dice: random.Random) -> Rows:
    """A request, answered by one message with many calls, and all their results: there is nothing after it."""
    return [_user(dice, dice.choice([10, 200])), *_round(dice, dice.randint(4, 9))]


def _some(dice: random.Random) -> Rows:
    """A few rows of one shape; what comes next to what is left to chance."""
    size = dice.choice(SIZES)
    shape = dice.choices(
        ["user", "round", "rounds", "assistant", "parts", "picture", "odd", "open", "sidecar", "stray", "hostile"],
        [16, 30, 10, 12, 5, 3, 6, 3, 4, 2, 1],
    )[0]
    if shape == "user":
        return [_user(dice, size)]
    if shape == "assistant":
        return [_assistant(dice, size)]
    if shape == "round":
        return _round(dice, 1)
    if shape == "rounds":
        return _round(dice, 3)
    if shape == "open":
        return _round(dice, 3)[: -dice.randint(1, 3)]
    if shape == "sidecar":
        said = _user(dice, size)
        return [{**said, "api_content": f"{said['content']}\n\n[it rains]", "_db_persisted": True}]
    return [dice.choice(_shapes(dice)[shape])]


def _shapes(dice: random.Random) -> dict[str, Rows]:
    number = dice.randrange(10_000)
    call = {"id": f"x{number}", "type": "function", "function": {"name": "read_file", "arguments": "no JSON"}}
    seen = [{"type": "text", "text": f"Look at {number}"}, PICTURE]
    return {
        "parts": [
            {"role": "user", "content": [{"type": "text", "text": f"Part {number}"}]},
            {"role": "user", "content": [{"type": "text", "text": "Part"}, f"bare {number}"]},
            {"role": "assistant", "content": [{"type": "text", "text": f"In parts {number}"}]},
        ],
        "picture": [
            {"role": "user", "content": seen, "api_content": f"Look at {number}, it rains"},
            {"role": "user", "content": seen},
        ],
        "odd": [
            {"role": "assistant", "content": None, "_db_persisted": True},
            {"role": "assistant"},
            {"role": "assistant", "content": "", "tool_calls": None, "reasoning_content": "hm"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "user", "content": ""},
        ],
        "stray": [
            {"role": "tool", "tool_call_id": f"gone{number}", "content": f"page {number} " * 50},
            {"role": "wizard", "content": f"Abracadabra {number}"},
            {"role": "user", "content": {"text": f"no list {number}"}},
        ],
        "hostile": [
            {"role": "assistant", "content": "", "tool_calls": [{"id": f"n{number}", "function": None}]},
            {"role": "tool", "tool_call_id": None, "content": number},
            {"content": f"nobody says {number}"},
        ],
    }


def _user(dice: random.Random, size: int) -> dict[str, Any]:
    return {"role": "user", "content": f"Request {dice.randrange(10_000)}. " + "please " * (size // 10)}


def _assistant(dice: random.Random, size: int) -> dict[str, Any]:
    return {"role": "assistant", "content": f"Answer {dice.randrange(10_000)}. " + "well " * (size // 10)}


def _round(dice: random.Random, calls: int) -> Rows:
    """Calls of one message and what comes of them."""
    number, size = dice.randrange(10_000), dice.choice(SIZES)
    names = [f"c{number}_{at}" for at in range(calls)]
    told = [
        {"id": name, "type": "function", "function": {"name": "read_file", "arguments": f'{{"path": "{name}"}}'}}
        for name in names
    ]
    return [
        {"role": "assistant", "content": "", "tool_calls": told, "_db_persisted": True},
        *({"role": "tool", "tool_call_id": name, "content": f"page {number} " * (size // 8)} for name in names),
    ]
