"""The same conversation in a host: its hooks step the registry's ledgers on its own threads, and requests come when they come.

An agent's thread does one thing after another: while the host takes a compaction over, nothing else happens on it, and what
the run loop tells of that compaction comes before it, after it or much later.  Beside the parent there may be another agent,
in turns of its own: the review, which bears the same session's id and begins with a copy of the parent's list, or a child that
begins with nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import evolve

from bridges.hermes import hooks
from dataspace.testing import Run
from engines import facts as f
from engines.skills import Ledger, scan, step, view
from engines.skills import events as e
from tests.bisim.skills_agent import LOOK, Agent, is_notice, new_host
from tests.bisim.skills_world import SID, World, is_whole, shown_by_itself
from tests.skill_rows import user, work

__all__ = ["CHANGES", "Hosted"]

STEPS = ("prune", "reload", "act", "answer", "task")
CHANGES: set[Any] = set()
"""Changes of what is shown that have been tried by themselves; each test begins with none."""


class Hosted(World):
    """The parent, whose thread does one thing after another; `beside` it a `review` or a `child`.

    `times` says how many compactions there are, `steps` what happens at all.  `batch`: the model calls something that acts
    beside the load.  The dataspace's thread does whole turns with all that they cause, as it does; `torn`: what one turn tells
    the registry is handled piece by piece, and anything may happen in between.
    """

    opens = False

    def __init__(self, run: Run, times: int = 1, **told: Any) -> None:
        self.host = new_host()
        self.sent: list[Any] = []
        self.required, self.lost = True, False  # this task has loaded the skill; and its text has gone since
        self.open = True  # the agent is in a turn
        self.busy = False  # its thread is at something that it will go on with before anything else
        self.batch: bool = told.get("batch", False)
        self.torn: bool = told.get("torn", False)
        if not self.torn:
            run.ds.onlookers.add("skills")
            run.always(self.every_change_by_itself)
        self.helper: Helper | None = None
        self.drawn: dict[str, Ledger | None] = {}  # what the facts show
        super().__init__(run)
        run.settled(self.what_is_said_is_so)
        run.always(self.nobody_else_is_held_up)
        run.always(self.what_follows_is_no_news)
        self.outside(times, told.get("steps", STEPS))
        if "beside" in told:
            self.helper = Helper(self, told["beside"])

    def outside(self, times: int, steps: tuple[str, ...]) -> None:
        """What may happen, each of it at any time at which the agent's thread can begin with it."""
        outside = self.run.outside
        may: dict[str, tuple[list[Callable[[], None]], Callable[[], bool]]] = {
            "prune": ([self.prune] * times, self.idle),
            "reload": ([partial(self.ask_model, self.reload)], self.at_work),
            "act": ([partial(self.ask_model, self.act)] * times, self.at_work),
            "answer": ([self.answer], self.at_work),
            "task": ([self.task], self.idle),
        }
        for name in steps:
            happens, when = may[name]
            outside(name, *happens, when=when)

    def begin(self) -> None:
        """The skill was loaded in the first turn."""
        self.agent = Agent(self.book, self.host, SID, "host-1")
        super().begin()
        self.agent.turn("task 1", first=True)
        self.rows = [self.rows[0], *self.agent.loads("k1"), *self.rows[3:]]
        self.request()

    def post(self, draw: Callable[[], object]) -> None:
        """The dataspace's thread is asked to come; it comes when it comes."""
        if self.torn:
            draw()
        else:
            self.run.outside("show", draw)

    def idle(self) -> bool:
        """Whether the agent's thread can begin with something."""
        return not self.busy

    def at_work(self) -> bool:
        """Whether the model can be asked."""
        return self.open and not self.busy

    # -- what happens -------------------------------------------------------------------------------------------------

    def prune(self) -> None:
        """The host takes over what it was offered: it says so to the loop, then to those who answer at once."""
        self.pruned()
        self.lost, self.busy = self.lost or (self.required and self.open), True
        self.run.outside("loop", partial(self.tell, self.asks, self.rows))
        self.run.outside("host", self.taken)

    def taken(self) -> None:
        """The compaction was taken over."""
        self.agent.aides.compacted()
        hooks.watch_requests(self.agent.aides.wants_requests())
        self.busy = False

    def request(self) -> None:
        """The host sends what there is."""
        self.sent = list(self.rows)
        self.agent.request(self.sent)

    def ask_model(self, tools: Callable[[], None]) -> None:
        """A request, and then what the model has made of it."""
        self.request()
        self.busy = True
        self.run.outside("host", tools)

    def reload(self) -> None:
        """The model loads the skill: it gets the text, unless that is there."""
        self.loads += 1
        self.required, self.busy = True, False
        rows = self.agent.loads(f"k{self.loads}")
        whole, notice = is_whole(self.rows), is_notice(rows)
        assert notice == whole, f"the load brought {'a notice' if notice else 'the text'}; it is there: {whole}"
        self.rows = [*self.rows, *rows]
        if self.batch:
            self.act()

    def act(self) -> None:
        """The model acts on what it was sent; a tool that has to wait leaves nothing but that."""
        self.works += 1
        self.busy = False
        call = f"w{self.works}"
        held = self.agent.held("terminal", call)
        seen = is_whole(self.sent)
        self.lost = self.lost and not seen
        assert held == self.lost, f"held back: {held}; lost for this task: {self.lost}; seen: {seen}"
        if not held:
            assert self.agent.result("terminal", {}, call, "done") is None, "a word where there is nothing to say"
            self.rows = [*self.rows, *work(call)]

    def answer(self) -> None:
        """The model has finished; until the user speaks, nothing is lost to anybody's work."""
        self.request()
        self.agent.end()
        self.open = False
        self.lost = self.lost and not is_whole(self.sent)

    def task(self) -> None:
        """The user wants something else, perhaps before the model has finished."""
        self.tasks += 1
        if self.open:
            self.agent.end()
        self.required, self.lost, self.open = False, False, True
        self.agent.turn(f"task {self.tasks}")
        self.rows = [*self.rows, user(f"task {self.tasks}")]

    # -- what holds ---------------------------------------------------------------------------------------------------

    def remembered(self) -> Any:
        """The host's part, too."""
        sent = [row.get("content") for row in self.sent]
        flags = (self.open, self.busy, self.required, self.lost, len(self.host._hooks.get(LOOK, ())))
        helper = None if self.helper is None else self.helper.remembered()
        return super().remembered(), sent, flags, helper

    def to_be_shown(self) -> Any:
        """Only what will stand in the end: a turn goes through all of it, and each change in it is tried by itself."""
        return super().to_be_shown() if self.torn else super().to_be_shown()[-1:]

    def every_change_by_itself(self) -> None:
        """What the registry will go through in a turn was gone through, change by change, before."""
        drawn = dict(self.drawn)
        for one in self.book._shown:
            before, drawn[one.sid] = drawn.get(one.sid), one.ledger
            facts = tuple(ledger and view(ledger, self.book.policy) for ledger in (before, one.ledger))
            if facts not in CHANGES:
                shown_by_itself(before, one.ledger)
                CHANGES.add(facts)
        if self.all_is_shown():
            self.drawn = dict(self.book._ledgers)

    def what_follows_is_no_news(self) -> None:
        """The registry hears of its own facts what somebody may declare; at no time does that change anything."""
        for ledger in self.book._ledgers.values():
            again = step(ledger, e.Declared(ledger.declared), self.book.policy).ledger
            assert evolve(again, events=ledger.events) == ledger

    def what_is_said_is_so(self) -> None:
        """Available means whole in the list that was sent last, until it is known that it has changed."""
        whole = {entry.name for entry in scan(self.sent) if entry.state == "available"}
        ledger = self.book.ledger(SID)
        assert ledger is not None
        said = self.says(f.SkillAvailable)
        assert ledger.curious or not self.all_is_shown() or said == whole, (
            f"{said} are said to be available, {whole} are"
        )

    def nothing_is_stuck(self) -> None:
        """Reasoning is said to be invalid only where it is."""
        super().nothing_is_stuck()
        stands = [fact for fact in self.run.ds.facts(f.LoopInvalid) if fact.sid == SID]
        assert self.lost or not stands or not self.all_is_shown(), (
            f"{stands[0]} stands, and nothing is lost for this task"
        )

    def nobody_else_is_held_up(self) -> None:
        """No reasoning but the parent's was ever invalid."""
        for fact in self.run.ds.facts(f.LoopInvalid):
            assert fact.sid == SID, f"{fact} is somebody else's"


class Helper:
    """Another agent: the `review`, under the parent's session id, or a `child`."""

    def __init__(self, world: Hosted, kind: str) -> None:
        self.world, self.kind = world, kind
        self.rows: list[Any] = []
        self.sent = False
        self.agent: Agent | None = None
        world.run.outside(kind, self.begin, self.request, self.act, self.load, self.act, self.end)

    def begin(self) -> None:
        """It comes with the parent's list, or with none; nobody tells it to reload anything."""
        world = self.world
        review = self.kind == "review"
        agent = self.agent = Agent(world.book, world.host, self.kind, "host-1" if review else "host-2")
        copied = list(world.rows) if review else []
        self.rows = [*copied, user(self.kind)]
        said = agent.turn(self.kind, first=not copied)
        assert said is None, f"the {self.kind} is told: {said}"

    def request(self) -> None:
        """Its model is sent its messages."""
        assert self.agent is not None
        self.agent.request(list(self.rows))

    def act(self) -> None:
        """Its tools run, and say what they say."""
        assert self.agent is not None
        assert not self.agent.held("terminal", "c1"), f"the {self.kind} is held up"
        assert self.agent.result("terminal", {}, "c1", "done") is None, f"the {self.kind} is told of a loss"

    def load(self) -> None:
        """It loads for itself."""
        assert self.agent is not None
        rows = self.agent.loads("c2")
        assert is_notice(rows) == is_whole(self.rows), f"the {self.kind} has the text: {is_whole(self.rows)}"
        self.rows = [*self.rows, *rows]

    def end(self) -> None:
        """It is over."""
        assert self.agent is not None
        self.agent.end()
        self.agent.aides.ended("session_end")
        self.agent = None

    def remembered(self) -> Any:
        """What is left to be told of it."""
        return [row.get("content") for row in self.rows]
