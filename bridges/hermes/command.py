"""`/dataspace` in a session of the host: what stands, and changing engines while it goes on.

The host passes no session along.  In its interactive terminal there is one user, so everything can be shown and engines
changed; anywhere else it only shows, and nothing of anybody's.  Where an event loop calls, the answer is a coroutine, so
that the loop is not held up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from threading import Event
from typing import TYPE_CHECKING, Any

from attrs import evolve

from .hooks import host_context, seats
from .observers import observer
from .runtime import Runtime, running

if TYPE_CHECKING:
    from .cell import Cell
    from .desk import Desk
    from .seat import Seat

__all__ = ["answer", "register_command"]

SECONDS = 5.0  # for an answer, and for a newcomer to serve
NOBODY = "No conversation has begun in this process yet."
TERMINAL = (
    "Engines are changed here by whoever runs the host: set context.dataspace.engines or observers in config.yaml."
)
HELP = """\
/dataspace [status]         conversations: engines, prompt size, compactions, what holds them back
/dataspace engines          who serves, as what, and for whom
/dataspace facts [PATTERN]  how many facts stand; those that match, as in: facts (usage hermes-1)
/dataspace skills           the skills of each conversation
/dataspace plug NAME        add a compressor, or an observer
/dataspace unplug NAME      take one out
/dataspace swap OLD NEW     NEW in the place of OLD, as soon as it serves
/dataspace help             this"""

log = logging.getLogger(__name__)


def register_command(ctx: Any) -> None:
    """Have the host know `/dataspace`; a host without commands does without."""
    register = getattr(ctx, "register_command", None)
    if not callable(register):
        return
    try:
        register(
            "dataspace",
            _command,
            description="Context engines: what stands, and changing them",
            args_hint="[status|engines|facts|skills|plug|unplug|swap|help]",
        )
    except Exception as error:  # noqa: BLE001 - a host with another idea of it
        log.debug("the command was not taken: %r", error)


def _command(raw: str = "") -> str | Coroutine[Any, Any, str]:
    import asyncio  # noqa: PLC0415 - the host has it by then

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return answer(raw, acts=_in_the_terminal())
    return asyncio.to_thread(answer, raw, acts=False)


def _in_the_terminal() -> bool:
    """Whether this is the host's interactive terminal: only there it has one at hand for plugins."""
    manager = getattr(host_context[0], "_manager", None)
    return getattr(manager, "_cli_ref", None) is not None


def answer(raw: str, *, acts: bool) -> str:
    """The answer to what stands behind `/dataspace`; `acts`: it may change engines, and show conversations."""
    word, _, rest = (raw or "").strip().partition(" ")
    word, rest = word.lower() or "status", rest.strip()
    try:
        return _without_secrets(_answer(word, rest, acts=acts))
    except TimeoutError:
        return f"The dataspace has not answered within {SECONDS:g} s; it may be at work. Try again."
    except Exception:
        log.exception("/dataspace %s failed", word)
        return f"/dataspace {word} has failed; the log says more."


def _answer(word: str, rest: str, *, acts: bool) -> str:
    from .shown import SHOWN  # noqa: PLC0415 - with all of the loop, which a session has loaded

    if word == "help":
        return HELP
    if word in _ACTS and not acts:
        return TERMINAL
    if word not in SHOWN and word not in _ACTS:
        return f"There is no /dataspace {word}.\n{HELP}"
    runtime = running()
    if runtime is None or not runtime.alive:
        return NOBODY
    if word in SHOWN:
        return runtime.ask(lambda desk: SHOWN[word](desk, rest, shared=not acts), seconds=SECONDS)
    names = rest.split()
    if len(names) != (2 if word == "swap" else 1) or any("#" in name for name in names):
        return f"Write it so:\n{next(line for line in HELP.splitlines() if line.startswith(f'/dataspace {word}'))}"
    return _ACTS[word](runtime, *names)


# -- acts -------------------------------------------------------------------------------------------------------------


def _plug(runtime: Runtime, name: str) -> str:
    if observer(name) is not None:
        return _watched(runtime, name, wanted=True)
    found = _live()
    if not found:
        return NOBODY
    if all(name in seat.kinds for seat in found):
        return f"{name} is plugged in already."
    return _engaged(
        runtime, found, f"{name} serves now", lambda kinds: (*kinds, *(() if name in kinds else (name,))), name
    )


def _unplug(runtime: Runtime, name: str) -> str:
    if observer(name) is not None:
        return _watched(runtime, name, wanted=False)
    found = [seat for seat in _live() if name in seat.kinds]
    if not found:
        return _not_there(name)
    return _engaged(runtime, found, f"{name} is unplugged", lambda kinds: tuple(kind for kind in kinds if kind != name))


def _swap(runtime: Runtime, old: str, new: str) -> str:
    if observer(old) is not None or observer(new) is not None:
        return "An observer has no place that another could take; plug the one and unplug the other."
    found = [seat for seat in _live() if old in seat.kinds]
    if not found:
        return _not_there(old)
    if old == new:
        return f"{old} is plugged in already."

    def swapped(kinds: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(new if kind == old else kind for kind in kinds))

    return _engaged(runtime, found, f"{new} serves now, {old} is unplugged", swapped, new)


_ACTS: dict[str, Callable[..., str]] = {"plug": _plug, "unplug": _unplug, "swap": _swap}


def _engaged(
    runtime: Runtime,
    found: list[Seat],
    done: str,
    change: Callable[[tuple[str, ...]], tuple[str, ...]],
    new: str | None = None,
) -> str:
    """Change the compressors of these agents, and wait a while until it is so."""
    events = []
    for seat in found:
        events.append(event := Event())
        if not seat.engage(change(seat.kinds), event.set, whole=True):
            return f"There is no engine {new!r} to be had; the log says why. It is as it was."
    if not all(event.wait(SECONDS) for event in events):
        return f"{new or 'It'} does not serve yet; until it does, those that were there go on."
    order = ", ".join(runtime.ask(_asked, found[0].cell, seconds=SECONDS)) or "nobody: nothing is compacted"
    return f"{done}. Asked in this order: {order}."


def _asked(_desk: Desk, cell: Cell) -> list[str]:
    """Who is asked from now on, the engines of observers among them."""
    from .shown import asked  # noqa: PLC0415 - as in _answer

    return asked(cell)


def _watched(runtime: Runtime, name: str, *, wanted: bool) -> str:
    """Plug an observer in or out, with what answers at once for it."""
    if wanted and name in runtime.ask(lambda desk: desk.crew.names, seconds=SECONDS):
        return f"{name} is plugged in already."
    found = _live()
    new = {seat: evolve(seat.settings, observers=_with(seat.settings.observers, name, wanted)) for seat in found}
    if wanted:
        those = {seat.cell.sid: settings for seat, settings in new.items() if seat.cell is not None}
        changed = runtime.ask(lambda desk: desk.crew.plug(name, those), seconds=SECONDS)
    else:
        changed = runtime.ask(lambda desk: desk.crew.unplug(name), seconds=SECONDS)
    if not changed:
        return f"{name} cannot be had; the log says why." if wanted else _not_there(name)
    for seat, settings in new.items():
        before, seat.settings = seat.settings, settings
        seat.observe_anew(before)
    return f"{name} observes now." if wanted else f"{name} is unplugged."


def _with(observers: tuple[str, ...], name: str, wanted: bool) -> tuple[str, ...]:
    others = tuple(one for one in observers if one != name)
    return (*others, name) if wanted else others


def _live() -> list[Seat]:
    return [seat for seat in seats() if not seat.alone and seat.cell is not None]


def _not_there(name: str) -> str:
    return f"{name} is not plugged in; /dataspace engines shows what is."


def _without_secrets(text: str) -> str:
    from .hidden import without_secrets  # noqa: PLC0415 - with what a session has loaded

    for seat in seats():
        text = without_secrets(text, seat.own.values["api_key"])
    return without_secrets(text, None)
