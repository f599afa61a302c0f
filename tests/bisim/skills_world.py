"""One conversation's skills as a scenario for the explorer: the real registry, told by the list of messages alone.

The list is a request, a load of a skill and some work; then compactions leave markers, the model loads again and works on,
and the user asks for something else.  What the registry says is compared with what is in the list, after every step and,
where it is about two facts at once, at every instant in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import evolve

from dataspace import Appeared, Dataspace, Facet, Handle, Vanished
from dataspace.testing import Run
from engines import facts as f
from engines.messages import Messages
from engines.skills import Book, Ledger, SkillPolicy, scan, view
from engines.skills.actor import _as_it_is, _Registry
from engines.transcript import current_user, role_of
from tests.skill_rows import load, marker_row, user, work

__all__ = ["SID", "Told", "World", "is_whole", "shown_by_itself"]

SID = "s"
STATES = (f.SkillAvailable, f.SkillPruned)


def is_whole(rows: Sequence[Any]) -> bool:
    """Whether a skill stands whole in a list."""
    return any(entry.state == "available" for entry in scan(rows))


class Instants:
    """Which states of skills stand at an instant: never two of the same skill."""

    def __init__(self) -> None:
        self.there: dict[Any, list[type]] = {}

    def note(self, change: Any) -> None:
        """There is no instant in which a skill is both, nor one in which it is the same twice."""
        fact = change.fact
        there = self.there.setdefault((fact.sid, fact.name, fact.path, fact.file), [])
        if isinstance(change, Appeared):
            there.append(type(fact))
            assert len(there) == 1, f"at the same time: {[cls.__name__ for cls in there]} of {fact.name} in {fact.sid}"
        else:
            there.remove(type(fact))


def shown_by_itself(before: Ledger | None, after: Ledger | None) -> None:
    """Have a registry of its own go from what one ledger shows to what another does."""
    crashes: list[BaseException] = []
    ds = Dataspace(on_crash=lambda _crash, error: crashes.append(error))
    instants, onlooker, me = Instants(), ds.actor("onlooker"), ds.actor("skills")
    for cls in STATES:
        onlooker.observe(cls, lambda fact: instants.note(Appeared(fact)), lambda fact: instants.note(Vanished(fact)))
    registry = _Registry(me, Book(SkillPolicy()), _as_it_is)
    for ledger in (before, after):
        with me.turn():
            if ledger is None:
                registry._retract(SID)
            else:
                registry._show(ledger)
    assert not crashes, crashes[0]


class World:
    """A conversation and the registry that shows its skills; how the registry comes to know is for others to say."""

    opens = True

    def __init__(self, run: Run) -> None:
        self.run = run
        self.book = Book(SkillPolicy())
        self.me = run.ds.actor("owner")
        self.rows: list[Any] = [user("task 1"), *load("k1", "alpha"), *work("w1")]
        self.loads, self.tasks, self.works, self.asks = 1, 1, 1, 0
        self.transcript: Handle | None = None
        self.compressed: Handle | None = None
        instants = Instants()
        for cls in STATES:
            run.watch(cls, instants.note)
        run.ds.spawn(self.boot, name="skills")
        self.begin()
        run.remembers(self.remembered)
        run.settled(self.nothing_is_stuck)

    def boot(self, me: Facet) -> None:
        """The engine; we keep what it remembers in sight."""
        self.registry = _Registry(me, self.book, _as_it_is)
        self.registry.begin(self.post, self.opens)

    def post(self, draw: Callable[[], object]) -> None:
        """There is something to show."""
        draw()

    def begin(self) -> None:
        """What has happened before any choice."""
        self.me.publish(f.Session(SID))

    # -- what happens to the list -------------------------------------------------------------------------------------

    def pruned(self) -> None:
        """A compaction leaves markers where texts were, and the request."""
        at = current_user(self.rows) or 0
        kept = [marker_row(f"k{number}", "alpha") for number in range(1, self.loads + 1)]
        self.rows = [self.rows[at], *(row for group in kept for row in group)]
        self.asks += 1

    def show(self) -> None:
        """The list as it is now."""
        fact = f.Transcript(SID, len(self.rows) + 100 * self.asks, messages=Messages.of(self.rows))
        old = self.transcript
        self.transcript = self.me.publish(fact) if old is None else self.me.replace(old, fact)

    def tell(self, ask: int, rows: list[Any]) -> None:
        """The loop has replaced the context."""
        messages = Messages.of(rows)
        transcript = f.Transcript(SID, 100 * ask, messages=messages)
        compressed = f.Compressed(SID, ask, "compressor", messages=messages)
        with self.me.turn():
            old, before = self.transcript, self.compressed
            self.transcript = self.me.publish(transcript) if old is None else self.me.replace(old, transcript)
            self.compressed = self.me.publish(compressed) if before is None else self.me.replace(before, compressed)

    # -- what tells states apart --------------------------------------------------------------------------------------

    def remembered(self) -> Any:
        """All that decides what comes next; numbers that only say in which order skills were used decide nothing here."""
        return (
            _short(self.rows),
            (self.loads, self.tasks, self.works, self.asks),
            [_timeless(ledger) for ledger in self.book._ledgers.values()],
            [(sid, passed.request, passed.working) for sid, passed in self.book._passed.items()],
            self.to_be_shown(),
            self.book._posted,
            [(sid, _short(seen)) for sid, seen in self.registry._seen.items()],
        )

    def to_be_shown(self) -> Any:
        """The facts that are to stand one after another, as soon as the registry comes to it."""
        shown: list[Any] = []
        for one in self.book._shown:
            facts = None if one.ledger is None else view(one.ledger, self.book.policy)
            if (one.sid, facts) not in shown[-1:]:
                shown.append((one.sid, facts))
        return shown

    # -- what holds ---------------------------------------------------------------------------------------------------

    def says(self, cls: type[Any], sid: str = SID) -> set[str]:
        """The names of the skills that are said to be so."""
        return {fact.name for fact in self.run.ds.facts(cls) if fact.sid == sid}

    def all_is_shown(self) -> bool:
        """Whether the facts are those of the ledgers as they are now."""
        return not self.book._shown

    def nothing_is_stuck(self) -> None:
        """Reasoning is invalid only while the task needs what is gone."""
        for fact in self.run.ds.facts(f.LoopInvalid):
            required = self.says(f.SkillRequired, fact.sid)
            assert set(fact.skills) <= required, f"{fact} stands, and the task needs {required}"


class Told(World):
    """Everything is told by transcripts, as in a replay."""

    def __init__(self, run: Run, times: int = 1) -> None:
        super().__init__(run)
        run.settled(self.what_is_said_is_so)
        run.outside("prune", *[self.prune] * times)
        run.outside("reload", self.reload)
        run.outside("task", self.task)
        run.outside("act", *[self.act] * times)

    def begin(self) -> None:
        """The conversation stands with its first messages."""
        super().begin()
        self.show()

    def prune(self) -> None:
        """A compaction."""
        self.pruned()
        self.tell(self.asks, self.rows)

    def reload(self) -> None:
        """The model loads the skill."""
        self.loads += 1
        self.add(*load(f"k{self.loads}", "alpha"))

    def task(self) -> None:
        """The user wants something else."""
        self.tasks += 1
        self.add(user(f"task {self.tasks}"))

    def act(self) -> None:
        """The model works on."""
        self.works += 1
        self.add(*work(f"w{self.works}"))

    def add(self, *rows: Any) -> None:
        """Messages come."""
        self.rows = [*self.rows, *rows]
        self.show()

    def what_is_said_is_so(self) -> None:
        """Available means whole in the list."""
        whole = {entry.name for entry in scan(self.rows) if entry.state == "available"}
        said = self.says(f.SkillAvailable)
        assert said == whole, f"{said} are said to be available, {whole} are"

    def nothing_is_stuck(self) -> None:
        """And not any more when the model has answered behind the text."""
        super().nothing_is_stuck()
        for fact in self.run.ds.facts(f.LoopInvalid):
            newest = max(entry.at for entry in scan(self.rows))
            answered = any(role_of(row) == "assistant" for row in self.rows[newest + 1 :])
            assert not (is_whole(self.rows) and answered), f"{fact} stands although the model has seen the text"


def _short(rows: Sequence[Any]) -> tuple[Any, ...]:
    """What a list says, in little room."""
    return tuple((row["role"], row["content"], row.get("tool_call_id")) for row in rows)


def _timeless(ledger: Ledger) -> Ledger:
    return evolve(ledger, events=0, skills=tuple(evolve(skill, used=0) for skill in ledger.skills))
