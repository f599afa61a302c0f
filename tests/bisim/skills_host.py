"""The same conversation in a host: its hooks step the registry's ledgers on its own threads, and requests come when they come.

The hooks, the attribution of turns and the skills observer are the real ones; the agents are not.  An agent's thread does one
thing after another: while the host takes a compaction over, nothing else happens on it, and what the run loop tells of that
compaction comes before it, after it or much later.  Beside the parent there may be another agent, in turns of its own: the
review, which bears the same session's id and begins with a copy of the parent's list, or a child that begins with nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from weakref import WeakSet

from attrs import evolve

from bridges.hermes import hooks, turns
from bridges.hermes.adapter import EngineMethods
from bridges.hermes.aides import Aides, Standing, TurnBegun
from bridges.hermes.settings import read_settings
from bridges.hermes.skill_observer import SkillAide
from dataspace.testing import Run
from engines import facts as f
from engines.skills import Ledger, scan, step, view
from engines.skills import events as e
from tests.bisim.skills_world import SID, World, is_whole, shown_by_itself
from tests.skill_rows import load, user, work

__all__ = ["Agent", "Host", "Hosted", "apart"]

SETTINGS = read_settings({"context": {"dataspace": {"observers": ["skills"]}}})
LOOK = "pre_api_request"
STEPS = ("prune", "reload", "act", "answer", "task")
CHANGES: set[Any] = set()
"""Changes of what is shown that have been tried by themselves; `apart` forgets them."""


class Host:
    """Calls hooks, as a plugin context of the host has them registered."""

    def __init__(self) -> None:
        self._hooks: dict[str, list[Callable[..., Any]]] = {}
        self._manager = self

    def register_hook(self, name: str, hook: Callable[..., Any]) -> None:
        """Take a hook."""
        self._hooks.setdefault(name, []).append(hook)

    def fire(self, name: str, **told: Any) -> Any:
        """What the hook of this name says; None where there is none."""
        said = None
        for hook in self._hooks.get(name, ()):
            said = hook(**told)
        return said


class _Seat:
    """What the adapter keeps for an agent, as far as hooks come to it."""

    def __init__(self, sid: str, host_id: str, aides: Aides) -> None:
        self.host_id = host_id
        self.cell = sid
        self.aides = aides

    def turn_started(self, turn: Any) -> str | None:
        """A turn of this agent begins."""
        turn.cell = self.cell
        context = self.aides.context(TurnBegun(turn.turn, turn.text, turn.first))
        hooks.watch_requests(self.aides.wants_requests())
        return context

    def turn_ended(self, turn: str, **_told: Any) -> None:
        """It is over."""
        self.aides.turn_ended(turn)


class Agent:
    """One agent of the host: its turns, its tools, its requests."""

    def __init__(self, world: World, host: Host, sid: str, session: str) -> None:
        standing = Standing(sid, session, "", "default", "m", "cli", SETTINGS, lambda _m: None, lambda _f, *_a: None)
        self.aides = Aides({"skills": SkillAide(standing, world.book)})
        self.context_compressor = EngineMethods()
        self.seat = _Seat(sid, session, self.aides)
        self.context_compressor.__dict__["_seat"] = self.seat
        self.host, self.session = host, session
        self._current_turn_id = ""
        hooks.known(self.seat)
        hooks.need_hooks(self.aides.hooks)

    def turn(self, name: str, *, first: bool = False) -> str | None:
        """A turn begins; what is to go with the user's message."""
        self._current_turn_id = name
        return _conversation(self, name, first)

    def end(self) -> None:
        """The turn is over."""
        self.host.fire("on_session_end", turn_id=self._current_turn_id, session_id=self.session)

    def request(self, rows: list[Any]) -> None:
        """The model is sent these messages."""
        self.fire(LOOK, request_messages=rows, conversation_history=rows, api_mode="chat_completions")

    def held(self, tool: str, call: str) -> bool:
        """Whether a tool has to wait."""
        return self.fire("pre_tool_call", tool_name=tool, args={}, tool_call_id=call) is not None

    def result(self, tool: str, args: dict[str, str], call: str, result: str) -> str | None:
        """What takes the place of a tool's result."""
        told = {"tool_name": tool, "args": args, "tool_call_id": call, "result": result, "status": "ok"}
        said = self.fire("transform_tool_result", **told)
        return None if said is None else str(said)

    def loads(self, call: str) -> list[Any]:
        """The rows of a load; its text, or a notice in its place."""
        rows = load(call, "alpha")
        rows[1]["content"] = self.result("skill_view", {"name": "alpha"}, call, rows[1]["content"]) or rows[1]["content"]
        return rows

    def fire(self, name: str, **told: Any) -> Any:
        """Call a hook in the turn of this agent."""
        said = self.host.fire(name, turn_id=self._current_turn_id, session_id=self.session, **told)
        assert not self.aides._failed, "the aide has failed"
        return said


def _conversation(agent: Agent, text: str, first: bool) -> str | None:  # the hook looks for an agent in its callers
    told = agent.host.fire(
        "pre_llm_call", turn_id=text, session_id=agent.session, user_message=text, is_first_turn=first
    )
    return None if told is None else str(told["context"])


def _noticed(rows: list[Any]) -> bool:
    return "already_active" in json.loads(rows[1]["content"])


class Hosted(World):
    """The parent, whose thread does one thing after another; `beside` it a `review` or a `child`.

    `times` says how many compactions there are, `steps` what happens at all.  `batch`: the model calls something that acts
    beside the load.  The dataspace's thread does whole turns with all that they cause, as it does; `torn`: what one turn tells
    the registry is handled piece by piece, and anything may happen in between.
    """

    opens = False

    def __init__(self, run: Run, times: int = 1, **told: Any) -> None:
        self.host = Host()
        hooks._live = WeakSet()  # agents of other runs are gone, though some are still in memory
        hooks.register_hooks(self.host)
        turns._turns.clear()
        turns._open.clear()
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
        self.agent = Agent(self, self.host, SID, "host-1")
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
        whole, notice = is_whole(self.rows), _noticed(rows)
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
                CHANGES.add(facts)
                shown_by_itself(before, one.ledger)
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
        assert ledger.curious or not self.all_is_shown() or said == whole, f"{said} are said to be available, {whole} are"

    def nothing_is_stuck(self) -> None:
        """Reasoning is said to be invalid only where it is."""
        super().nothing_is_stuck()
        stands = [fact for fact in self.run.ds.facts(f.LoopInvalid) if fact.sid == SID]
        assert self.lost or not stands or not self.all_is_shown(), f"{stands[0]} stands, and nothing is lost for this task"

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
        agent = self.agent = Agent(world, world.host, self.kind, "host-1" if review else "host-2")
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
        assert _noticed(rows) == is_whole(self.rows), f"the {self.kind} has the text: {is_whole(self.rows)}"
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


@contextmanager
def apart() -> Iterator[None]:
    """The hooks of this process as they were, afterwards."""
    before = (hooks._live, hooks.host_context[0], set(hooks._registered), set(hooks._needed))
    try:
        yield
    finally:
        CHANGES.clear()
        hooks._live, hooks.host_context[0] = before[:2]
        for kept, now in zip(before[2:], (hooks._registered, hooks._needed), strict=True):
            now.clear()
            now.update(kept)
        turns._turns.clear()
        turns._open.clear()
