"""What has nothing to do with skills is kept, not stepped, and in the end all is as if it had been stepped."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from engines.messages import Messages
from engines.skills import Book, Ledger, SkillPolicy, step, view
from engines.skills import events as e
from engines.skills.scan import may_load
from tests.skill_rows import body_of, load, marker_row, result_text, user

SID = "s"
POLICY = SkillPolicy()
ALPHA = result_text("alpha", body_of("alpha"))
INVOKED = '[IMPORTANT: The user has invoked the "beta" skill, so follow it.]\n\nThe text of beta.'

EVENTS: st.SearchStrategy[Any] = st.one_of(
    st.builds(e.RequestBegan, st.sampled_from(["t1", "t2"]), st.sampled_from(["go", "on", INVOKED]), st.booleans()),
    st.sampled_from([e.ToolAsked("terminal"), e.ToolAsked("read_file"), e.ToolDone("terminal", tell=True)]),
    st.just(e.RequestEnded()),
    st.builds(e.Loaded, st.sampled_from(["k1", "k2"]), st.just('{"name": "alpha"}'), st.just(ALPHA)),
    st.sampled_from(
        [
            e.Seen([user("go")], sent=True),
            e.Seen([user("go"), *load("k1", "alpha")], sent=True),
            e.Seen([user("go"), *marker_row("k1", "alpha")], sent=True),
        ]
    ),
    st.just(e.TakenOver()),
    st.builds(e.Declared, st.sampled_from([frozenset[str](), frozenset({"alpha"})])),
)


def told(book: Book, event: Any) -> str | None:
    """Tell a book as whoever answers a host does: what passes is not stepped."""
    if isinstance(event, e.RequestBegan) and book.passes(SID, event.task, event.text):
        return None
    if isinstance(event, e.ToolAsked | e.ToolDone) and book.at_rest(SID, working=True):
        return None
    if isinstance(event, e.RequestEnded) and book.at_rest(SID, working=False):
        return None
    return book.step(SID, event).answer


def without_numbers(ledger: Ledger | None) -> Ledger:
    """How many events there were is the one thing that may differ; who was used last may not."""
    assert ledger is not None
    order = sorted({skill.used for skill in ledger.skills})
    return evolve(
        ledger, events=0, skills=tuple(evolve(skill, used=order.index(skill.used)) for skill in ledger.skills)
    )


@given(st.lists(EVENTS, max_size=25))
def test_what_passes_counts_as_if_it_had_been_stepped(events: list[Any]) -> None:
    """Same answers, same facts after each event, same curiosity, and the same ledger once it matters."""
    book, ledger = Book(POLICY), Ledger(SID, turns=True)
    book.open(SID, hosted=True)
    for event in events:
        answer = told(book, event)
        stepped = step(ledger, event, POLICY)
        ledger = stepped.ledger
        known = book.ledger(SID)
        assert known is not None
        assert (stepped.answer, view(ledger, POLICY)) == (answer, view(known, POLICY))
        assert ledger.curious == book.curious(SID)
    book.step(SID, e.TakenOver())
    assert without_numbers(step(ledger, e.TakenOver(), POLICY).ledger) == without_numbers(book.ledger(SID))


def test_a_conversation_without_skills_is_never_stepped() -> None:
    """Turn after turn the ledger is the very same value, and nobody is called to show it."""
    book = Book(POLICY)
    book.open(SID, hosted=True)
    told(book, e.RequestBegan("t1", "go", first=True))
    before, calls = book.ledger(SID), list[int]()
    book.take()
    book.post = lambda: calls.append(1)
    for at in range(50):
        for event in (e.RequestBegan(f"t{at}", "on"), e.ToolAsked("terminal"), e.ToolDone("x"), e.RequestEnded()):
            told(book, event)
    assert book.ledger(SID) is before
    assert (calls, book.take()) == ([], ())


def test_a_conversation_that_is_over_or_unknown_is_not_at_rest() -> None:
    """So it is stepped, which says nothing and keeps nothing."""
    book = Book(POLICY)
    assert not book.at_rest(SID, working=True)
    book.open(SID, hosted=True)
    told(book, e.RequestBegan("t1", "go", first=True))
    assert book.at_rest(SID, working=True)
    book.close(SID)
    assert (False, False, False) == (book.at_rest(SID, working=True), book.passes(SID, "t", "on"), book.curious(SID))


def test_a_list_says_soon_that_it_loads_nothing() -> None:
    """Only a call of the tool that loads skills, or one whose name cannot be read, makes a list worth a look."""
    other = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "terminal", "arguments": "{}"}}]}
    nameless = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": 7}}]}
    flat = {"role": "assistant", "tool_calls": ["rubbish", {"id": "c", "name": "skill_view"}]}
    none: dict[str, Any] = {"role": "assistant", "content": "skill_view", "tool_calls": None}
    assert [False, True, True, False] == [may_load([user("go"), row]) for row in (other, nameless, flat, none)]
    assert may_load(Messages.of([user("go"), *load("k1", "alpha")]))
