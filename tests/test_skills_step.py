"""The state machine of a conversation's skills: loads, once only, what is in context, losses and what they hold back."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from attrs import evolve

from engines.facts import LoopInvalid, SkillAvailable, SkillLoaded, SkillPruned, SkillRequired, SkillTooLarge
from engines.skills import Book, Ledger, SkillPolicy, revise, rows_of, scan, step, view
from engines.skills import events as e
from engines.skills.ledger import evicted
from engines.skills.reading import hash_of
from engines.skills.wording import reload_first
from tests.skill_rows import body_of, load, marker_row, result_text, turn, user, work

SID = "s"
ALPHA = result_text("alpha", body_of("alpha"))
NEWER = result_text("alpha", body_of("alpha") + "\nMore.\n")
HASH = hash_of(body_of("alpha"))


class Run:
    """One ledger, stepped by hand."""

    def __init__(self, **policy: Any) -> None:
        self.policy = SkillPolicy(**policy)
        self.ledger = Ledger(SID)
        self.said: list[SkillLoaded] = []

    def do(self, event: e.Event) -> str | None:
        """Have it happen; returns the answer."""
        stepped = step(self.ledger, event, self.policy)
        self.ledger = stepped.ledger
        self.said += stepped.said
        return stepped.answer

    def load(
        self, call: str, result: str = ALPHA, name: str = "alpha", source: str = "host", **args: Any
    ) -> str | None:
        return self.do(e.Loaded(call, json.dumps({"name": name, **args}), result, source))

    def sent(self, *rows: Any) -> None:
        self.do(e.Seen(list(rows), sent=True))

    def facts(self, cls: type) -> list[Any]:
        return [fact for fact in view(self.ledger, self.policy) if type(fact) is cls]

    @property
    def states(self) -> dict[str, str]:
        return {skill.entry.label: skill.state for skill in self.ledger.skills}

    @property
    def outcomes(self) -> list[str]:
        return [said.outcome for said in self.said]


def losing(**policy: Any) -> Run:
    """A task in whose middle the skill it loaded was pruned."""
    run = Run(**policy)
    run.do(e.RequestBegan("t1", "go", first=True))
    run.load("k1")
    run.sent(user("go"), *load("k1", "alpha"))
    run.do(e.ToolAsked("terminal"))
    run.do(e.TakenOver())
    run.do(e.Compacted(1, [user("go")], late=True))
    run.sent(user("go"), *marker_row("k1", "alpha"))
    return run


# -- loads ------------------------------------------------------------------------------------------------------------


def test_until_its_row_was_seen_a_skill_is_neither() -> None:
    """The hook saw it whole; only the row in a request says whether the model does."""
    run = Run()
    assert run.load("k1") is None
    assert run.ledger.curious
    assert [] == run.facts(SkillAvailable) + run.facts(SkillPruned)
    run.sent(user("go"), *load("k1", "alpha"))
    assert [SkillAvailable(SID, "alpha", HASH, "misc/alpha/SKILL.md")] == run.facts(SkillAvailable)
    assert not run.ledger.curious


def test_a_load_that_was_cut_off_in_its_row_is_pruned_and_blocks_nothing() -> None:
    """Loaded again it would be cut off again."""
    run = Run()
    run.do(e.RequestBegan("t", "go", first=True))
    run.load("k1")
    run.sent(user("go"), *load("k1", "alpha", ALPHA[:100] + "\n\n[Truncated: tool response was 999 chars.]"))
    assert ["alpha"] == [fact.name for fact in run.facts(SkillPruned)]
    assert run.do(e.ToolAsked("terminal")) is None
    assert [] == run.facts(LoopInvalid)


def test_s02_a_second_load_brings_a_notice() -> None:
    """S02: one body for a name and hash; a changed text is delivered under its new hash; off: nothing is touched."""
    run = Run()
    run.load("k1")
    run.sent(user("go"), *load("k1", "alpha"))
    again = run.load("k2")
    assert again is not None
    told = json.loads(again)
    assert {"success", "name", "hash", "already_active", "message"} == set(told)
    assert (True, "alpha", HASH, True) == (told["success"], told["name"], told["hash"], told["already_active"])
    changed = run.load("k3", NEWER)
    assert changed is not None
    told = json.loads(changed)
    assert {"success", "name", "hash", "updated_active_context", "content"} == set(told)
    assert hash_of(told["content"]) == told["hash"] != HASH
    assert ["loaded", "deduplicated", "updated"] == run.outcomes
    off = Run(once=False)
    assert [None, None, None] == [off.load("k1"), off.load("k2"), off.load("k3", NEWER)]


def test_of_parallel_loads_one_delivers() -> None:
    """Neither row has been seen when the second comes."""
    run = Run()
    assert [None, True] == [run.load("k1"), run.load("k2") is not None]


def test_a_pruned_skill_is_delivered_whole() -> None:
    """It is in context again, in a row of its own."""
    run = losing()
    assert run.load("k9") is None
    assert ["loaded", "reloaded"] == run.outcomes


def test_several_sources_tell_one_load_once() -> None:
    """The host's thread, its message and the transcript: one load, one decision; the same id later is another load."""
    run = Run()
    assert [None, None] == [run.load("k1", source="host"), run.load("k1", source="tool")]
    assert 1 == len(run.said)
    notice = run.load("k1", source="host")
    assert notice is not None
    assert notice == run.load("k1", source="tool")
    assert ["loaded", "deduplicated"] == run.outcomes


def test_s04_a_failed_load_registers_nothing() -> None:
    """S04: the retry brings the text."""
    run = Run()
    run.load("k1", '{"success": false, "error": "no"}')
    run.load("k1", "no JSON")
    assert ({}, None) == (run.states, run.load("k2"))


def test_s06_spellings_of_one_path_are_one_skill_and_two_paths_are_two() -> None:
    """S06: as they are loaded, too."""
    run = Run()
    run.load("k1", name="misc/alpha")
    assert run.load("k2", name="alpha") is not None
    elsewhere = result_text("alpha", body_of("alpha"), path="other/alpha/SKILL.md")
    assert run.load("k3", elsewhere, name="other/alpha") is None
    assert 2 == len(run.ledger.skills)


def test_s13_a_file_is_loaded_by_itself() -> None:
    """S13: the file of a skill whose text is pruned does not bring that back, whichever came first."""
    run = Run()
    file = json.dumps({"success": True, "name": "alpha", "file": "a.md", "content": "# A"})
    run.load("k1", file, file_path="a.md")
    run.load("k2")
    assert ["alpha file=a.md", "alpha"] == list(run.states)
    run.sent(*load("k1", "alpha", file, file="a.md"), *marker_row("k2", "alpha"))
    assert {"alpha file=a.md": "available", "alpha": "pruned"} == run.states


def test_what_a_host_answers_itself_counts_as_use() -> None:
    """A newer host says `deduplicated`; the task needs the skill all the same."""
    run = Run()
    run.load("k1")
    run.do(e.RequestBegan("t2", "more"))
    assert [] == run.facts(SkillRequired)
    run.load("k2", '{"success": false, "status": "deduplicated"}')
    assert [SkillRequired(SID, "t2", "alpha")] == run.facts(SkillRequired)


def test_a_users_command_brings_a_skill_with_the_request() -> None:
    """It is required, and a load of the same text brings no second one, though the host trims blanks."""
    run = Run()
    note = '[IMPORTANT: The user has invoked the "alpha" skill, indicating they want it. It is loaded below.]'
    asked = f"{note}\n\n{body_of('alpha').strip()}"
    run.do(e.RequestBegan("t", asked, first=True))
    run.sent(user(asked))
    assert ({"alpha": "available"}, ["loaded"]) == (run.states, run.outcomes)
    assert run.load("k1") is not None
    assert [SkillRequired(SID, "t", "alpha")] == run.facts(SkillRequired)


# -- losses -----------------------------------------------------------------------------------------------------------


def test_s07_a_loss_holds_acting_tools_back_until_the_text_was_seen() -> None:
    """S07: told, reloaded, and only after a request that held the text does the work go on."""
    run = losing()
    assert [LoopInvalid(SID, 1, ("alpha",))] == run.facts(LoopInvalid)
    assert reload_first(("alpha",), "terminal") == run.do(e.ToolAsked("terminal"))
    assert run.do(e.ToolAsked("read_file")) is None
    run.load("k2")
    assert run.do(e.ToolAsked("write_file")) is not None  # in one batch with the reload
    run.sent(user("go"), *marker_row("k1", "alpha"), *load("k2", "alpha"))
    assert [LoopInvalid(SID, 1, ("alpha",))] == run.facts(LoopInvalid)
    assert run.do(e.ToolAsked("terminal")) is None
    assert [] == run.facts(LoopInvalid)


def test_a_loss_is_told_once() -> None:
    """With the first thing that is said: a tool held back, or beside a result."""
    run = losing()
    word = run.do(e.ToolDone("read_file", tell=True))
    assert word is not None
    assert "skill_view(name='alpha')" in word
    assert run.do(e.ToolDone("read_file", tell=True)) is None


def test_tools_are_held_back_three_times_for_one_loss() -> None:
    """Then they run, and a warning stands beside the result."""
    run = losing()
    held = []
    for _ in range(5):
        held.append(run.do(e.ToolAsked("terminal")) is not None)
        run.sent(user("go"), *marker_row("k1", "alpha"))
    assert [True, True, True, False, False] == held
    assert run.do(e.ToolDone("terminal", tell=True)) is not None
    assert run.do(e.ToolDone("terminal", tell=True)) is None


def test_the_tools_of_one_answer_are_held_back_together() -> None:
    """A batch counts once; where no request is ever seen, nothing is held back for ever."""
    run = losing()
    assert all(run.do(e.ToolAsked("write_file")) is not None for _ in range(10))
    assert 1 == run.ledger.loss.blocks  # type: ignore[union-attr]
    held = [run.do(e.ToolAsked("write_file")) is not None for _ in range(100)]
    assert (True, False) == (held[0], held[-1])


@pytest.mark.parametrize(("block", "told"), [("warn", True), ("off", False)])
def test_without_blocks(block: str, told: bool) -> None:
    """`warn` says it once, `off` not even that; the fact stands either way."""
    run = losing(block=block)
    assert run.do(e.ToolAsked("terminal")) is None
    assert told == (run.do(e.ToolDone("terminal", tell=True)) is not None)
    assert [LoopInvalid(SID, 1, ("alpha",))] == run.facts(LoopInvalid)


def test_nobody_waits_for_what_cannot_be_loaded() -> None:
    """A reload that fails, or a file that has gone, ends the loss."""
    for event in (e.Loaded("k2", '{"name": "alpha"}', '{"success": false}'), e.CannotLoad(frozenset({"alpha"}))):
        run = losing()
        run.do(event)
        assert [] == run.facts(LoopInvalid)
        assert run.do(e.ToolAsked("terminal")) is None
        run.load("k3")
        assert frozenset() == run.ledger.unloadable


def test_a_new_task_is_not_held_back_for_the_old_one() -> None:
    """Unless somebody says that it needs the skill, too."""
    run = losing()
    run.do(e.RequestBegan("t2", "something else"))
    assert ([], None) == (run.facts(LoopInvalid), run.do(e.ToolAsked("terminal")))
    run = losing()
    run.do(e.Declared(frozenset({"alpha"})))
    run.do(e.RequestBegan("t2", "the same"))
    assert 1 == len(run.facts(LoopInvalid))
    run.do(e.Declared(frozenset()))
    assert [] == run.facts(LoopInvalid)


def test_in_plain_conversation_nothing_is_lost() -> None:
    """A skill of an earlier task goes; nobody works, so nothing is invalid, required or held back."""
    run = losing()
    run.do(e.RequestEnded())
    run.do(e.RequestBegan("t2", "thanks"))
    run.do(e.TakenOver())
    run.sent(user("thanks"))
    assert ([], []) == (run.facts(LoopInvalid), run.facts(SkillRequired))


def test_what_is_declared_is_needed_before_it_is_loaded() -> None:
    """Whoever declares it has its fact stand; the tools wait only for what was there and is gone."""
    run = Run()
    run.do(e.Declared(frozenset({"beta"})))
    assert (("beta",), []) == (run.ledger.needs, run.facts(SkillRequired))
    assert run.do(e.ToolAsked("terminal")) is None
    run.sent(*marker_row("k1", "beta"))
    assert run.do(e.ToolAsked("terminal")) is not None


def test_what_is_declared_is_all_that_is_needed() -> None:
    """Else what was loaded or used counts: a loss of that ends where only something else is declared, and stands again after."""
    run = losing()
    lost = run.facts(LoopInvalid)
    run.do(e.Declared(frozenset({"beta"})))
    assert ([], ("beta",)) == (run.facts(LoopInvalid), run.ledger.needs)
    assert run.do(e.ToolAsked("terminal")) is None
    run.do(e.Declared(frozenset({"misc/alpha/SKILL.md"})))
    assert [SkillRequired(SID, "t1", "alpha")] == run.facts(SkillRequired)
    assert ["alpha"] == [label for fact in run.facts(LoopInvalid) for label in fact.skills]
    run.do(e.Declared(frozenset()))
    assert [fact.skills for fact in lost] == [fact.skills for fact in run.facts(LoopInvalid)]


def test_an_answer_that_saw_the_text_ends_a_loss() -> None:
    """Also where it needs no tool: the model has finished, and has seen it; not where it finished without."""
    run = losing()
    run.do(e.RequestEnded())
    assert 1 == len(run.facts(LoopInvalid))
    run = losing()
    run.load("k2")
    run.sent(user("go"), *load("k2", "alpha"))
    assert 1 == len(run.facts(LoopInvalid))
    run.do(e.RequestEnded())
    assert [] == run.facts(LoopInvalid)


def test_a_second_compaction_is_another_loss() -> None:
    """The reloaded text goes before the model answered: still invalid, never both states, and told again."""
    run = losing()
    run.load("k2")
    run.sent(user("go"), *load("k2", "alpha"))
    run.do(e.TakenOver())
    run.sent(user("go"), *marker_row("k2", "alpha"))
    assert ({"alpha": "pruned"}, 1) == (run.states, len(run.facts(LoopInvalid)))
    assert run.do(e.ToolAsked("terminal")) is not None


def test_a_loss_learns_its_question_late() -> None:
    """The host's thread notices before the dataspace says which compaction it was; what it made is old by then."""
    run = losing()
    run.do(e.TakenOver())
    run.do(e.RequestBegan("t2", "go on"))
    run.load("k2")
    run.sent(user("go"), *marker_row("k2", "alpha"))
    assert [0] == [fact.ask for fact in run.facts(LoopInvalid)]
    run.do(e.Compacted(2, load("k2", "alpha"), late=True))
    assert [2] == [fact.ask for fact in run.facts(LoopInvalid)]
    assert {"alpha": "pruned"} == run.states


def test_a_skill_that_came_with_the_compaction_is_no_hopeless_case() -> None:
    """It was never seen whole, because a compaction came between; it can be loaded again."""
    run = Run()
    run.do(e.RequestBegan("t", "go", first=True))
    run.load("k1")
    run.do(e.TakenOver())
    run.sent(user("go"), *marker_row("k1", "alpha"))
    assert 1 == len(run.facts(LoopInvalid))


# -- from transcripts alone -------------------------------------------------------------------------------------------


def test_s14_a_registry_is_rebuilt_from_messages() -> None:
    """S14: a new process knows what was loaded and what is whole, and what the request at hand needs."""
    before = [user("one"), *load("k1", "alpha"), *turn(1), user("two"), *load("k2", "beta")]
    after = revise([*before[:1], *before[4:]], scan(before))
    run = Run()
    run.do(e.Seen(after))
    assert {"alpha": "pruned", "beta": "available"} == run.states
    assert ["beta"] == [fact.name for fact in run.facts(SkillRequired)]
    assert not run.said


def test_a_transcript_alone_ends_a_loss() -> None:
    """An answer after the reloaded text is one that has seen it."""
    run = Run()
    rows = [user("one"), *load("k1", "alpha")]
    run.do(e.Seen(rows))
    run.do(e.Compacted(1, [user("one"), *marker_row("k1", "alpha")]))
    assert [1] == [fact.ask for fact in run.facts(LoopInvalid)]
    rows = [user("one"), *marker_row("k1", "alpha"), *load("k2", "alpha")]
    run.do(e.Seen(rows))
    assert 1 == len(run.facts(LoopInvalid))
    run.do(e.Seen([*rows, *work("k3")]))
    assert [] == run.facts(LoopInvalid)


def test_a_turn_looks_where_a_host_may_have_changed_the_list() -> None:
    """After an undo the text is gone, whatever was known; a new session has nothing to look at."""
    run = Run()
    run.do(e.RequestBegan("t", "go", first=True))
    assert not run.ledger.curious
    run.load("k1")
    run.sent(user("go"), *load("k1", "alpha"))
    run.do(e.RequestBegan("t2", "again"))
    assert run.ledger.curious
    run.sent(user("again"))
    assert {"alpha": "pruned"} == run.states
    resumed = Run()
    resumed.do(e.RequestBegan("t", "go on"))
    assert resumed.ledger.curious


# -- budgets ----------------------------------------------------------------------------------------------------------


def test_the_budget_lets_go_of_what_was_used_longest_ago() -> None:
    """Never of what is pinned or required; one too large is warned about, and no more."""
    names = ("one", "two", "three")
    run = Run(total=1, each=10, pinned=["one"])
    for name in names:
        run.load(name, result_text(name, body_of(name)), name)
    run.do(e.RequestBegan("t2", "go"))
    run.load("again", result_text("two", body_of("two")), "two")
    assert {("misc/three/SKILL.md", None)} == evicted(run.ledger, run.policy)
    assert frozenset() == evicted(run.ledger, evolve(run.policy, total=None))
    assert frozenset() == evicted(run.ledger, evolve(run.policy, total=10_000))
    assert names == tuple(fact.name for fact in run.facts(SkillTooLarge))
    assert [10] * 3 == [fact.limit for fact in run.facts(SkillTooLarge)]


def test_rows_for_people() -> None:
    """Name, short hash, state, tokens, required, pinned."""
    run = Run(pinned=["alpha"])
    run.load("k1")
    assert (
        {"name": "alpha", "hash": HASH[:12], "state": "unseen", "tokens": 141, "required": True, "pinned": True},
    ) == rows_of(run.ledger, run.policy)


@pytest.mark.parametrize("wrong", [{"block": "maybe"}, {"total": 0}, {"each": -1}, {"keep": 2.0}, {"blocks": -1}])
def test_a_policy_says_what_it_takes(wrong: dict[str, Any]) -> None:
    """Wrong values are refused where they are given."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SkillPolicy(**wrong)


# -- the book ---------------------------------------------------------------------------------------------------------


def test_s05_sessions_do_not_share_their_skills() -> None:
    """S05: what one has loaded is delivered to the other."""
    book = Book()
    for sid in ("s1", "s2"):
        book.open(sid)
    told = e.Loaded("k1", '{"name": "alpha"}', ALPHA)
    assert [None, None] == [book.step(sid, told).answer for sid in ("s1", "s2")]
    assert book.step("s1", e.Loaded("k2", '{"name": "alpha"}', ALPHA)).answer is not None


def test_of_loads_on_several_threads_one_delivers() -> None:
    """Tool threads of a host step the ledger at the same moment."""
    book = Book()
    book.open("s", hosted=True)
    together = threading.Barrier(8)
    answers: list[str | None] = []

    def load_it(number: int) -> None:
        together.wait(10)
        answers.append(book.step("s", e.Loaded(f"k{number}", '{"name": "alpha"}', ALPHA)).answer)

    threads = [threading.Thread(target=load_it, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert 8 == len(answers)
    assert 1 == answers.count(None)


def test_a_book_asks_once_to_be_read() -> None:
    """Until somebody has come; a session that is over or was never opened says nothing."""
    asked: list[int] = []
    book = Book()
    book.step("s", e.RequestEnded())
    book.open("s", hosted=True)
    book.step("s", e.Declared(frozenset({"alpha"})))
    book.post = lambda: asked.append(1)
    book.step("s", e.Declared(frozenset({"beta"})))
    book.step("s", e.Declared(frozenset({"gamma"})))
    assert [1] == asked
    assert 3 == len(book.take())
    book.step("s", e.Declared(frozenset({"gamma"})))  # nothing new
    assert ([1], ()) == (asked, book.take())
    book.rule("s", SkillPolicy(once=False))
    book.rule("nobody", SkillPolicy())
    assert (False, True) == (book.policy_of("s").once, book.policy_of("nobody").once)
    book.close("s")
    book.close("s")
    assert ([1, 1], [None]) == (asked, [shown.ledger for shown in book.take()])
    assert book.ledger("s") is None
