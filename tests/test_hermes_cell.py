"""One conversation's state: readings from which nothing follows are stepped when somebody looks, and come out the same."""

from __future__ import annotations

from functools import partial
from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from bridges.hermes.cell import Cell
from engines import facts as f
from engines.loop.events import BudgetChanged, CompactionRequested, UsageRead
from engines.loop.policy import strict

THRESHOLD = 1_000
KINDS = ("builtin",)

STEPS: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([None, 0, 10, 700, 900, 999, 1_000, 2_000]),  # readings
    st.sampled_from(["say", "look", "ask", "hold", "release", "budget"]),
)


def cell() -> Cell:
    """A conversation whose engine in charge has guards of its own."""
    made = Cell({"threshold": THRESHOLD, "context_length": 4_000}, KINDS, 10.0, strict)
    made.guarded = False
    return made


def happens(cell: Cell, what: Any, *, late: bool) -> None:
    """One step of a script; a reading as the host's thread takes it in, or at once."""
    if what == "say":
        cell.say(partial(f.TurnStarted, cell.sid, "t"))
    elif what == "look":
        assert cell.state.sid == cell.sid
    elif what == "ask":
        cell.happen(CompactionRequested(cell.sid))
    elif what in {"hold", "release"}:
        cell.hold("it rests" if what == "hold" else None)
    elif what == "budget":
        cell.happen(BudgetChanged(cell.sid, context_length=4_000, threshold=THRESHOLD + 1))
    else:
        report = {} if what is None else {"prompt_tokens": what, "completion_tokens": 5}
        if late:
            cell.read(what, report)
        else:
            cell.happen(UsageRead(cell.sid, report))


def told(state: Any) -> Any:
    """A state without what names the conversation or the time."""
    usage, question = state.usage, state.question
    return (
        None if usage is None else (usage.seq, usage.prompt, usage.completion),
        (state.pressure, state.seqs, state.asks, state.budget.threshold),
        None if question is None else question.fact.ask,
        (state.failed is None, None if state.blocked is None else state.blocked.reason, evolve(state.guard, recent=())),
    )


def shown(cell: Cell) -> list[Any]:
    """All that is to be shown, in order; what changes nothing is not told twice."""
    cell.catch_up()
    found: list[Any] = []
    for one in cell.shown:
        if not found or found[-1] != told(one.state):
            found.append(told(one.state))
        found += ["said"] * len(one.said)
    return found


@given(st.lists(STEPS, max_size=20))
def test_a_late_reading_is_as_good_as_one_at_once(script: list[Any]) -> None:
    """Same state in the end, and the same states and messages to be shown, in the same order."""
    late, at_once = cell(), cell()
    for what in script:
        happens(late, what, late=True)
        happens(at_once, what, late=False)
    assert (told(at_once.state), shown(at_once)) == (told(late.state), shown(late))


def test_the_host_s_report_may_change_afterwards() -> None:
    """What was read is what the report said then."""
    one, report = cell(), {"prompt_tokens": 500}
    one.read(500, report)
    report["prompt_tokens"] = 7
    assert 0 == one.settled.seqs, "it is not late"
    assert (500, 1) == (one.state.pressure, one.settled.seqs)


def test_the_dataspace_s_thread_is_asked_once() -> None:
    """However much is said and read before it comes."""
    one, asked = cell(), list[int]()
    one.post = lambda: asked.append(1)
    for at in range(3):
        one.say(partial(f.TurnStarted, one.sid, f"t{at}"))
        one.read(100 + at, {"prompt_tokens": 100 + at})
    assert [1] == asked
    one.posted = False
    one.read(200, {"prompt_tokens": 200})
    assert [1, 1] == asked
