"""The context engine that the host holds: its methods and attributes, and nothing behind them but a seat.

No method raises, and none but `compress` waits.  A copy is another agent's engine: it takes the budget along and
nothing of the conversation, and shares the one dataspace of the process.
"""

from __future__ import annotations

import json
import logging
import weakref
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .fields import FIELDS, Field
from .host import base_class

if TYPE_CHECKING:
    from .seat import Seat

__all__ = ["EngineMethods", "engine_class"]

F = TypeVar("F", bound=Callable[..., Any])

log = logging.getLogger(__name__)
_MISSING = object()


def _safe(otherwise: Callable[[], Any] = lambda: None) -> Callable[[F], F]:
    """Log what a method raises, and return what does least harm: the host takes an error for its own."""

    def decorate(method: F) -> F:
        @wraps(method)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                return method(*args, **kwargs)
            except Exception:
                log.exception("the context engine failed in %s", method.__name__)
                return otherwise()

        return cast("F", guarded)

    return decorate


class EngineMethods:
    """All that Hermes 0.19 calls on a context engine, in every form in which it does."""

    _seat: Seat | None = None

    @property
    def name(self) -> str:
        """What the host's configuration calls this engine."""
        return "dataspace"

    @property
    def seat(self) -> Seat:
        """What is behind it; made when it is first needed, for the host makes one engine that is never used."""
        found = self._seat
        if found is None:
            from .seat import Seat  # noqa: PLC0415 - a process that never chats does without

            found = self._hold(Seat())
        return found

    def _hold(self, seat: Seat) -> Seat:
        self.__dict__["_seat"] = seat
        end = weakref.finalize(self, _gone, seat)
        end.atexit = False  # at the end of the process there is nobody left to be told
        return seat

    def __deepcopy__(self, memo: dict[int, Any]) -> EngineMethods:
        made = type(self)()
        if self._seat is not None:
            from .seat import Seat  # noqa: PLC0415

            made._hold(Seat(self._seat))
        return made

    def __copy__(self) -> EngineMethods:
        return self.__deepcopy__({})

    def __getattr__(self, name: str) -> Any:
        """What else the engine in charge has: the host looks at some of it where it is there."""
        seat = self.__dict__.get("_seat")
        hosted = None if seat is None or name.startswith("__") else seat.in_charge()
        found = _MISSING if hosted is None else hosted.get(name, _MISSING)
        if found is _MISSING or callable(found):  # a method would be called past the dataspace
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return found

    def __repr__(self) -> str:
        seat = self._seat
        engines = "" if seat is None else f": {', '.join(seat.kinds) or 'no engine'}"
        return f"<{type(self).__name__}{engines}>"

    # -- readings and verdicts ----------------------------------------------------------------------------------------

    @_safe()
    def update_from_response(self, usage: dict[str, Any]) -> None:
        """A response came."""
        self.seat.usage(usage)

    @_safe(lambda: False)
    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Whether to compact now."""
        return self.seat.should_compress(prompt_tokens)

    @_safe(lambda: False)
    def should_compress_preflight(self, messages: list[dict[str, Any]]) -> bool:
        """Whether to compact before anybody has asked the provider."""
        return self.seat.preflight(messages)

    @_safe(lambda: False)
    def should_defer_preflight_to_real_usage(self, rough_tokens: int) -> bool:
        """Whether a rough estimate is to wait for a real reading."""
        return self.seat.defers(rough_tokens)

    @_safe(lambda: True)
    def has_content_to_compress(self, messages: list[dict[str, Any]]) -> bool:
        """Whether a compaction by hand would find something to do."""
        return self.seat.has_content(messages)

    @_safe()
    def get_active_compression_failure_cooldown(self, *, refresh: bool = False) -> dict[str, Any] | None:
        """How long automatic compaction rests after a failure."""
        return self.seat.cooldown(refresh=refresh)

    @_safe(lambda: False)
    def _automatic_compression_blocked(self) -> bool:
        return self.seat.blocked()

    @_safe()
    def _load_fallback_compression_streak(self) -> None:
        self.seat.load_streak()

    @_safe()
    def record_completed_compaction(self, *, used_fallback: bool = False) -> None:
        """The host has completed a compaction."""
        self.seat.completed(used_fallback=used_fallback)

    # -- compaction ---------------------------------------------------------------------------------------------------

    def compress(
        self,
        messages: list[dict[str, Any]],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,
        memory_context: str = "",
        **more: Any,
    ) -> list[dict[str, Any]]:
        """The compacted list, or the very list given; waits, and an interrupt of the waiting thread gets through."""
        told: dict[str, Any] = {
            **more,
            "current_tokens": current_tokens,
            "focus_topic": focus_topic,
            "force": force,
        }
        if memory_context:
            told["memory_context"] = memory_context
        seat = self.seat
        if seat.alone:
            return seat.compress(messages, told)  # switched off: as if it were the built-in itself
        try:
            return seat.compress(messages, told)
        except Exception as error:
            log.exception("the context engine failed in compress")
            seat.told = {
                "_last_compress_aborted": True,
                "_last_summary_error": f"an error in the dataspace adapter: {type(error).__name__}",
            }
            return messages

    # -- sessions and models ------------------------------------------------------------------------------------------

    @_safe()
    def on_session_start(self, session_id: str, **kwargs: Any) -> None:
        """A session begins, or goes on after a compaction."""
        self.seat.started(session_id, kwargs)

    @_safe()
    def on_session_end(self, session_id: str, messages: list[dict[str, Any]]) -> None:
        """The host says that a session ends."""
        self.seat.ended(session_id, messages)

    @_safe()
    def on_session_reset(self) -> None:
        """The user begins anew."""
        self.seat.reset()

    @_safe()
    def bind_session_state(self, session_db: Any = None, session_id: str = "") -> None:
        """The host binds this engine to a session."""
        self.seat.bind(session_db, session_id or "")

    @_safe()
    def carry_over_new_session_context(self, old_session_id: str, new_session_id: str) -> None:
        """The user takes something along into a new session."""
        self.seat.carried_over(old_session_id, new_session_id)

    @_safe()
    def update_model(
        self,
        model: str = "",
        context_length: int = 0,
        base_url: str = "",
        api_key: Any = "",
        provider: str = "",
        api_mode: str = "",
        **more: Any,
    ) -> None:
        """Another model, or the first one."""
        self.seat.update_model(
            {
                **more,
                "model": model,
                "context_length": context_length,
                "base_url": base_url,
                "api_key": api_key,
                "provider": provider,
                "api_mode": api_mode,
            }
        )

    # -- tools and status ---------------------------------------------------------------------------------------------

    @_safe(list)
    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """The tools that the model gets from the engines."""
        return self.seat.tool_schemas()

    @_safe(lambda: json.dumps({"error": "the context engine failed"}))
    def handle_tool_call(self, name: str, args: dict[str, Any] | None = None, **kwargs: Any) -> str:
        """Answer a call of one of them, in JSON."""
        return self.seat.handle_tool_call(name, args, kwargs)

    @_safe(dict)
    def get_status(self) -> dict[str, Any]:
        """What a user may want to see."""
        return self.seat.status()


def engine_class(base: type | None = None) -> type[Any]:
    """The class for the host that is here: `base` is its `ContextEngine`, imported now unless it is given."""
    fields = {name: Field(name, default) for name, default in FIELDS.items()}
    return type("DataspaceContextEngine", (EngineMethods, base or base_class()), {"__module__": __name__, **fields})


def _gone(seat: Seat) -> None:
    try:
        seat.gone()
    except Exception:
        log.exception("the end of an agent could not be told")
