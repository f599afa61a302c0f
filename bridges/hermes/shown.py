"""What `/dataspace` shows, as text, from the facts that stand.

All of this runs on the dataspace's thread.  `shared` says that whoever reads it may be somebody else than whose
conversations these are, as in a gateway: then there are numbers and names of engines, and nothing of anybody's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dataspace import Crashed, DataspaceError, Observe, parse_pattern
from engines import facts as f
from engines.loop import Conversation
from engines.loop.policy import kind_of

from .cell import Cell
from .observers import observer

if TYPE_CHECKING:
    from .desk import Desk

__all__ = ["SHOWN", "asked", "engines", "facts", "skills", "status", "table"]

WIDTH, MOST = 240, 40  # characters of a line, lines of facts
CLASSES = {
    **{name: cls for name, cls in f.FACTS.items() if cls not in f.MESSAGES},
    "Crashed": Crashed,
    "Observe": Observe,
}
ELSEWHERE = "Facts of conversations are shown in the terminal only: here they could be somebody else's."


def status(desk: Desk, _text: str = "", *, shared: bool = False) -> str:
    """How each conversation stands, and what observes it."""
    cells = desk.cells
    names = desk.crew.names
    lines = [f"{_many(len(cells), 'conversation')}; observers: {', '.join(names) or 'none'}"]
    if shared:
        return "\n".join([*lines, ELSEWHERE])
    for cell in cells:
        lines += ["", *_conversation(cell)]
    for name in names:
        one = observer(name)
        more = [] if one is None else one.status(desk.me)
        lines += ["", *more] if more else []
    return "\n".join(lines)


def engines(desk: Desk, _text: str = "", *, shared: bool = False) -> str:
    """Who serves, as what, for whom; who is at work; who has crashed."""
    me = desk.me
    first = {cell.first for cell in desk.cells}
    busy = {(one.engine, one.sid) for one in me.facts(f.Working)}
    crashes = Counter(crash.actor for crash in me.facts(Crashed))
    gone = {one.engine: one for one in me.facts(f.GaveUp)}
    serving: dict[tuple[str, ...], int] = Counter()
    for one in me.facts(f.Serving):
        notes = [
            *(["in charge"] if one.engine in first else []),
            *(["at work"] if any(engine == one.engine for engine, _sid in busy) else []),
            *([_many(crashes[one.engine], "crash", "crashes")] if crashes[one.engine] else []),
        ]
        sid = desk.plugs.sid_of(one)
        name, whom = (kind_of(one.engine), "one each") if shared and sid else (one.engine, sid or "all")
        serving[(name, one.role, whom, ", ".join(notes))] += 1
    rows = [(*row[:3], row[3] if count == 1 else f"{count} of them") for row, count in serving.items()]
    rows += [(name, "", "", f"gave up after {_many(one.crashes, 'crash', 'crashes')}") for name, one in gone.items()]
    announced = {kind_of(row[0]) for row in rows}
    rows += [(name, "observer", "all", "") for name in desk.crew.names if name not in announced]
    return table(("engine", "role", "for", "notes"), rows) if rows else "No engine is plugged in."


def facts(desk: Desk, text: str = "", *, shared: bool = False) -> str:
    """How many facts of each class stand, or those that match a pattern."""
    me = desk.me
    if not text:
        counts = [(name, str(len(me.facts(cls)))) for name, cls in CLASSES.items()]
        return table(("fact", "stand"), [row for row in counts if row[1] != "0"])
    if shared:
        return ELSEWHERE
    try:
        found = me.facts(parse_pattern(text if text.startswith("(") else f"({text})", CLASSES))
    except DataspaceError as error:
        # Columns are told of what was typed: where the parentheses are ours they would be off by one.
        wrong = (
            str(error)
            if text.startswith("(")
            else str(error).removesuffix(f" (column {getattr(error, 'column', None)})")
        )
        return f"{wrong}. A pattern is written (usage hermes-1), or just usage for all of a class."
    lines = [_short(repr(fact)) for fact in found[:MOST]]
    more = [f"... and {len(found) - MOST} more"] if len(found) > MOST else []
    return "\n".join([*lines, *more]) or "Nothing like that stands."


def skills(desk: Desk, text: str = "", *, shared: bool = False) -> str:
    """The skills of each conversation; in the words of their engine, where it has any."""
    if shared:
        return ELSEWHERE
    one = observer("skills")
    said = None if one is None or "skills" not in desk.crew.names else one.show(desk.me, text)
    if said is not None:
        return said
    me = desk.me
    needed = {(fact.sid, fact.name) for fact in me.facts(f.SkillRequired)}
    available: list[Any] = list(me.facts(f.SkillAvailable))
    known = [(fact, "available") for fact in available] + [(fact, "pruned") for fact in me.facts(f.SkillPruned)]
    rows = [
        (fact.sid, fact.name, fact.sha256[:8], state, "yes" if (fact.sid, fact.name) in needed else "")
        for fact, state in known
    ]
    return (
        table(("conversation", "skill", "hash", "state", "required"), sorted(rows)) if rows else "No skill was loaded."
    )


SHOWN: dict[str, Callable[..., str]] = {"status": status, "engines": engines, "facts": facts, "skills": skills}
"""Each by the word for it."""


def asked(cell: Cell, *, charge: bool = False) -> list[str]:
    """Who is asked for a compaction, in this order: the kinds that are configured, and whoever else serves.

    An observer whose engine serves as a compressor is asked too, after those; `charge`: who is in charge is marked.
    """
    ours = {cell.names[kind]: kind for kind in cell.kinds}
    others = [name for name in cell.engines.compressors if name not in ours]
    told = []
    for name in (*ours, *others):
        marks = ["in charge"] if charge and name == cell.first else []
        marks += [] if name in ours else ["not in the list of engines"]
        told.append(f"{kind_of(name)} ({', '.join(marks)})" if marks else kind_of(name))
    return told


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns, as wide as they have to be."""
    lines = [tuple(head), *map(tuple, rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


# -- one conversation -------------------------------------------------------------------------------------------------


def _conversation(cell: Cell) -> list[str]:
    state = cell.state
    session = state.session
    about = [
        ("host session", session.host_session),
        ("profile", session.profile),
        ("model", session.model),
        ("provider", session.provider),
        ("parent", session.parent),
    ]
    head = f"{cell.sid} ({session.state}): {', '.join(f'{name} {value}' for name, value in about if value)}"
    lines = [head, f"  compressors: {', '.join(asked(cell, charge=True)) or 'none'}", f"  {_pressure(state)}"]
    if state.compressed is not None:
        done = state.compressed
        lines.append(f"  latest compaction: {done.tokens_before:,} to {done.tokens_after:,} tokens, by {done.by}")
    if cell.mended:
        lines.append(f"  mended: {cell.mended}")
    if state.question is not None:
        lines.append(f"  a compaction is wanted: {state.question.fact.reason}")
    held = [what.reason for what in (state.blocked, state.failed) if what is not None]
    return [*lines, *(f"  held back: {reason}" for reason in held)]


def _pressure(state: Conversation) -> str:
    budget, prompt = state.budget, state.pressure
    window = f" of a window of {budget.context_length:,}" if budget.context_length else ""
    if not prompt:
        return f"prompt not known yet; compaction from {budget.threshold:,} tokens{window}"
    return f"prompt {prompt:,} tokens, {prompt / budget.threshold:.0%} of the threshold of {budget.threshold:,}{window}"


def _many(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def _short(line: Any) -> str:
    text = " ".join(str(line).split())
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."
