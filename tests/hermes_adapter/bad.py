"""Context engines that misbehave, written for the host.

Whatever hangs here hangs for ever, as far as the host can see: `let_go` ends it, when the test is over.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from agent.context_engine import ContextEngine

__all__ = ["CALLS", "HANGS", "NOWHERE", "let_go"]

Rows = list[dict[str, Any]]
CALLS: Counter[str] = Counter()
"""How often `compress` was called, by the name of the class."""
NOWHERE = threading.Lock()
"""Nobody who holds it lets it go."""
NOWHERE.acquire()
_over = threading.Event()


def let_go() -> None:
    """End what hangs."""
    _over.set()
    NOWHERE.release()


def sleep_on() -> None:
    """Hang in a sleep."""
    while not _over.is_set():
        time.sleep(0.05)


def wait_for_the_lock() -> None:
    """Hang in a lock."""
    with NOWHERE:
        pass


class _Engine(ContextEngine):
    """Asks for a compaction at the threshold, as any engine does; `_give` is what it makes of the messages."""

    protect_last_n = 6

    @property
    def name(self) -> str:
        return "bad"

    def update_from_response(self, usage: dict[str, Any]) -> None:
        self.last_prompt_tokens = usage.get("prompt_tokens", 0)

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        return (self.last_prompt_tokens if prompt_tokens is None else prompt_tokens) >= self.threshold_tokens

    def compress(self, messages: Rows, current_tokens: int | None = None, **_more: Any) -> Any:
        CALLS[type(self).__name__] += 1
        return self._give(messages)

    def _give(self, messages: Rows) -> Any:
        return [messages[0], {"role": "assistant", "content": "Parcels were counted."}, *messages[-3:]]


# -- bad in compress --------------------------------------------------------------------------------------------------


class Raises(_Engine):
    def update_model(self, model: str, context_length: int, api_key: str = "", **_more: Any) -> None:
        super().update_model(model, context_length)
        self.api_key = api_key

    def _give(self, messages: Rows) -> Any:
        raise ValueError(f"no credit left for {self.api_key}, call {CALLS['Raises']}")


class RaisesDifferently(_Engine):
    """Something else goes wrong each time."""

    def _give(self, messages: Rows) -> Any:
        kinds = (ValueError, OSError, KeyError, RecursionError, SystemExit, KeyboardInterrupt, GeneratorExit)
        at = CALLS["RaisesDifferently"]
        raise kinds[at % len(kinds)](f"number {at}")


class Unspeakable(_Engine):
    """What it raises cannot even be shown."""

    def _give(self, messages: Rows) -> Any:
        class Mute(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no words")

        raise Mute


class Sleeps(_Engine):
    def _give(self, messages: Rows) -> Any:
        sleep_on()
        return messages[-1:]


class Locks(_Engine):
    """Hangs with a lock in its hands that its cheap calls need too."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __deepcopy__(self, memo: Any) -> Locks:
        return Locks()

    def _give(self, messages: Rows) -> Any:
        with self.lock:
            wait_for_the_lock()
        return messages[-1:]

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        with self.lock:
            return super().should_compress(prompt_tokens)


class Rubbish(_Engine):
    def _give(self, messages: Rows) -> Any:
        return [{"role": "wizard", "content": object()}, 17]


class Endless(_Engine):
    """A list that has no end to whoever looks at it."""

    def _give(self, messages: Rows) -> Any:
        class Rows(list[Any]):
            def __iter__(self) -> Any:
                while not _over.is_set():
                    time.sleep(0.05)
                return iter(())

        return Rows(messages)


def _gives(name: str, make: Callable[[Rows], Any]) -> None:
    globals()[name] = type(name, (_Engine,), {"_give": lambda _self, rows: make(rows), "__module__": __name__})


_gives("Text", lambda _rows: "in short: parcels")
_gives("Nothing", lambda _rows: None)
_gives("Empty", lambda _rows: [])
_gives("Generates", lambda rows: (row for row in rows[-3:]))
_gives("Misshapen", lambda rows: [rows[0], {"role": "assistant", "content": "Parcels.", "tool_calls": 5}, *rows[-3:]])


class Orphans(_Engine):
    """Results without their calls."""

    def _give(self, messages: Rows) -> Any:
        return [*messages[:1], *[row for row in messages[1:-3] if row["role"] == "tool"][:4], *messages[-3:]]


class Mutates(_Engine):
    def _give(self, messages: Rows) -> Any:
        del messages[2:]
        messages[0]["content"] = "overwritten"
        raise RuntimeError("after the damage")


class Exits(_Engine):
    """Ends the thread it is called on."""

    def _give(self, messages: Rows) -> Any:
        raise SystemExit(3)


class DeadThread(_Engine):
    """Leaves the work to a thread of its own, which has died, and waits for it."""

    def _give(self, messages: Rows) -> Any:
        done = threading.Event()
        helper = threading.Thread(target=lambda: None)
        helper.start()
        helper.join()
        while not _over.is_set():
            done.wait(0.05)


class Huge(_Engine):
    def _give(self, messages: Rows) -> Any:
        return [*messages, *({"role": "assistant", "content": "x" * 1000} for _ in range(2000))]


class Liar(_Engine):
    """Says of itself what the host cannot reckon with."""

    def update_model(self, model: str, context_length: int, **_more: Any) -> None:
        self.context_length = -1
        self.threshold_tokens = "plenty"  # type: ignore[assignment]
        self.last_prompt_tokens = None  # type: ignore[assignment]
        self.protect_first_n = float("nan")  # type: ignore[assignment]
        self.compression_count = "many"  # type: ignore[assignment]

    def update_from_response(self, usage: dict[str, Any]) -> None:
        self.last_prompt_tokens = None  # type: ignore[assignment]

    def should_compress(self, prompt_tokens: int | None = None) -> Any:
        class Perhaps:
            def __bool__(self) -> bool:
                raise RuntimeError("perhaps")

        return Perhaps()

    def get_active_compression_failure_cooldown(self) -> Any:
        return {"remaining_seconds": "a while"} if CALLS["Liar"] < 0 else ["later"]

    def get_tool_schemas(self) -> Any:
        return iter([17, {"name": ["a"]}, None])

    def _give(self, messages: Rows) -> Any:
        return {"messages": messages}


class RaisesEverywhere(_Engine):
    """Every method raises, and so does every attribute that the host may look at."""

    @property
    def context_length(self) -> int:  # type: ignore[override]
        raise RuntimeError("no window")

    @property
    def threshold_tokens(self) -> int:  # type: ignore[override]
        raise RuntimeError("no threshold")

    @property
    def last_prompt_tokens(self) -> int:  # type: ignore[override]
        raise RuntimeError("no reading")

    def _give(self, messages: Rows) -> Any:
        raise RuntimeError("no compaction")


def _broken(name: str) -> Any:
    def method(self: Any, *_args: Any, **_kwargs: Any) -> Any:
        raise OSError(f"no {name}")

    return method


CHEAP = (
    *("update_from_response", "should_compress", "should_defer_preflight_to_real_usage", "has_content_to_compress"),
    *("get_active_compression_failure_cooldown", "_automatic_compression_blocked", "record_completed_compaction"),
    *("on_session_start", "on_session_end", "on_session_reset", "bind_session_state", "update_model"),
    *("get_tool_schemas", "get_status", "carry_over_new_session_context"),
)
for _name in CHEAP:
    setattr(RaisesEverywhere, _name, _broken(_name))


# -- hanging where the host expects an answer at once -----------------------------------------------------------------


def _hanging(name: str) -> Any:
    def method(self: Any, *_args: Any, **_kwargs: Any) -> Any:
        if not _over.is_set():
            wait_for_the_lock()

    return method


def _hangs_in(name: str) -> type[_Engine]:
    made = type(f"Hangs_{name}", (_Engine,), {name: _hanging(name), "__module__": __name__})
    globals()[made.__name__] = made
    return made


class Hangs_attribute(_Engine):  # noqa: N801 - named as its kin are
    """An attribute that waits for a lock."""

    @property
    def last_prompt_tokens(self) -> int:  # type: ignore[override]
        wait_for_the_lock()
        return 0

    @last_prompt_tokens.setter
    def last_prompt_tokens(self, value: int) -> None:
        wait_for_the_lock()

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        return (prompt_tokens or 0) >= self.threshold_tokens


class Hangs_handle_tool_call(_Engine):  # noqa: N801
    """A tool that does not answer."""

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return [{"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}}]

    def handle_tool_call(self, name: str, args: dict[str, Any], **kwargs: Any) -> str:
        kwargs["messages"].clear()  # whatever it does to the host's list
        sleep_on()
        return "{}"


class Hangs_making(_Engine):  # noqa: N801
    """It is not even made."""

    def __deepcopy__(self, memo: Any) -> Any:
        wait_for_the_lock()
        return self


class Exits_making(_Engine):  # noqa: N801
    def __deepcopy__(self, memo: Any) -> Any:
        raise SystemExit(3)


HANGS = [
    *(_hangs_in(name).__name__ for name in CHEAP if name not in {"get_status", "carry_over_new_session_context"}),
    *("Hangs_attribute", "Hangs_handle_tool_call", "Hangs_making"),
]
"""The engines that hang in a cheap call: everything that the host calls between two compactions."""
