"""A trace, told: which turns there were, of whom, about which session, and why."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from dataspace.trace import Opaque, Turn, load_turns, standing, why
from dataspace.wire import WireError
from engines.wire import vocabulary_wire

from .errors import BadInput
from .session import shown

__all__ = ["brief", "chain", "chosen", "facts_at_end", "read_trace", "told", "why_none"]

_LONGEST = 100  # characters of one value in a line


def read_trace(path: Path) -> tuple[Turn, ...]:
    """The turns of a trace file; raises `BadInput`, naming file and line."""
    file = shown(path)
    try:
        with path.open(encoding="utf-8") as lines:
            return tuple(load_turns(lines, vocabulary_wire()))
    except WireError as error:
        raise BadInput(
            f"{str(error).removeprefix('$')}; give a file that replay --trace has written", file=file
        ) from None
    except OSError as error:
        raise BadInput(f"cannot be read ({error.strerror or error}); give the path of a trace", file=file) from None
    except ValueError as error:
        raise BadInput(f"is no text in UTF-8 ({error}); give the path of a trace", file=file) from None


def chosen(turns: Iterable[Turn], actor: str | None, sid: str | None) -> tuple[Turn, ...]:
    """The turns of one actor, about one session, or both."""
    return tuple(turn for turn in turns if actor in (None, turn.actor) and (sid is None or sid in _sids(turn)))


def why_none(turns: Sequence[Turn], actor: str | None, sid: str | None) -> str:
    """What to say where none of the turns was chosen: what was looked for, and what there is."""
    if not turns:
        return "the trace holds no turns; the run that wrote it ended before the first"
    actors = sorted({turn.actor for turn in turns if turn.actor})
    sids = sorted({name for turn in turns for name in _sids(turn)})
    if actor is not None and actor not in actors:
        return f"no turn is one of actor {actor!r}; there are: {', '.join(actors) or 'none'}"
    if sid is not None and sid not in sids:
        return f"no turn is about session {sid!r}; there are: {', '.join(sids) or 'none'}"
    return f"no turn of actor {actor!r} is about session {sid!r}; leave one of the two out"


def chain(turns: Sequence[Turn], n: int) -> tuple[Turn, ...]:
    """The turns that led to turn `n`, from outside in; raises `BadInput` if there is no such turn."""
    try:
        return why(turns, n)
    except KeyError:
        has = f"they go from {turns[0].n} to {turns[-1].n}" if turns else "there is none"
        raise BadInput(f"--why {n}: the trace has no such turn; {has}") from None


def told(turns: Iterable[Turn]) -> Iterator[str]:
    """A line a turn, and an indented one for all it did and whom it told."""
    for turn in turns:
        cause = "from outside" if turn.cause is None else f"because of {turn.cause}"
        at = "" if turn.at is None else f" at {turn.at:.3f}"
        yield f"turn {turn.n} {turn.actor or '(what stood before)'} {cause}{at}"
        for action in turn.actions:
            yield f"  {action.name} {brief(action.what)}".rstrip()
        for news in turn.told:
            what = " ".join(map(brief, news.args))
            yield f"  -> {', '.join(dict.fromkeys(news.to))}: {news.kind} {what}".rstrip()


def facts_at_end(turns: Iterable[Turn]) -> Iterator[str]:
    """A line for each fact that stands after all turns."""
    return map(brief, standing(turns))


def brief(value: Any) -> str:
    """A value in one short line: of a fact its class and what makes it this fact."""
    if value is None:
        return ""
    if isinstance(value, Opaque):
        text = value.text
    elif attrs.has(type(value)):
        identity = [a.name for a in attrs.fields(type(value)) if a.eq]
        parts = [f"{name}={_plain(getattr(value, name))}" for name in identity]
        text = f"{type(value).__name__}({', '.join(parts)})"
    else:
        text = _plain(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _plain(value: Any) -> str:
    """As JSON where it is that, which also shows control characters as what they are."""
    return json.dumps(value) if isinstance(value, str) else ascii(value)


def _sids(turn: Turn) -> Iterator[str]:
    """The sessions that a turn is about, as often as it says so."""
    for value in (*(action.what for action in turn.actions), *(arg for news in turn.told for arg in news.args)):
        sid = getattr(value, "sid", None)
        if isinstance(sid, str):
            yield sid
