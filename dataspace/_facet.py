"""Facets: the lifetimes in which an actor acts.

A facet is what code calls `me`.  The outermost one is the actor itself; the body of a `during` gets one that ends with
its fact.  Whatever is published or observed through a facet is gone when it stops.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from contextvars import Context
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar

from ._actions import LATER, PUBLISH, RETRACT, SEND, Call
from ._bodies import entering
from ._handles import Callbacks, During, FactHandle, Handle, Observer
from ._leaves import record_of
from ._lifetime import Lifetime
from ._pattern import Pattern, pattern_of
from ._state import State
from ._tasks import Changes, Task, check_async, done, is_async
from ._turn import Turn
from .errors import Stopped

if TYPE_CHECKING:
    from ._dataspace import Dataspace

__all__ = ["Actor", "Facet"]

T = TypeVar("T")
ALIVE, STOPPED = State.ALIVE, State.STOPPED


class Actor:
    """What all facets of one actor share."""

    __slots__ = ("alive", "crash_hooks", "ds", "error", "keep", "name", "root")

    def __init__(self, ds: Dataspace, name: str, keep: bool) -> None:
        self.ds = ds
        self.name = name
        self.keep = keep  # driven from outside: lives although it holds nothing
        self.alive = True
        self.error: BaseException | None = None
        self.crash_hooks: list[Callable[[BaseException], object]] = []
        self.root = Facet(self, None)

    def is_idle(self) -> bool:
        root = self.root
        return not (root.handles or root.children or root.tasks or root.pending)


class Facet(Lifetime):
    """A lifetime of an actor, and the means to act in it.  Use it from the dataspace's thread only.

    Within a turn its actions are released together when the turn ends; outside, each is a turn of its own, and all that
    it causes has happened when it returns.  Acting through a facet that has stopped raises `Stopped`.
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        """The actor's name."""
        return self.actor.name

    @property
    def alive(self) -> bool:
        """Does it still act and hear?"""
        return self.state is ALIVE

    # -- facts and messages -------------------------------------------------------------------------------------------

    def publish(self, fact: Any) -> Handle:
        """Make `fact` true until the handle is let go of or this lifetime ends.

        Raises `NotAFact`, naming the field, for what could change later.
        """
        ds, actor = self.ds, self.actor
        if ds._thread != get_ident() or self.state is not ALIVE or (ds._actor is not None and ds._actor is not actor):  # noqa: SIM102
            if not self._may_act():
                return self._unseen()
        index = ds._indexes.get(type(fact)) or ds._index(fact)
        handle = FactHandle()  # filled in here, as records are: this is the busiest line of all
        handle.facet, handle.age, handle.state = self, next(ds._ages), ALIVE
        handle.index, handle.record = index, record_of(fact, index.key(fact))
        self.handles[handle] = None
        if ds._actor is not None:
            ds._actions.append((PUBLISH, handle))
        elif ds._wrapped:
            ds._commit_alone(PUBLISH, handle, actor)
        else:  # `_commit_alone`, unrolled
            handle.record = index.publish(handle.record, None)
            if ds._queue and not ds._draining:
                ds._drain()
        return handle

    def retract(self, handle: Handle | None) -> None:
        """Let go of a publication or an observation; of one that is gone, or not this actor's, nothing happens."""
        ds, actor = self.ds, self.actor
        if ds._thread != get_ident():
            ds._check_thread()
        if type(handle) is not FactHandle and not isinstance(handle, Handle):
            if handle is None:
                return
            raise TypeError(f"retract takes the handle that publish or observe gave, not {handle!r}")
        if handle.state is not ALIVE or handle.facet.actor is not actor:
            return
        if ds._actor is not None and ds._actor is not actor:
            self._let_go_late(handle)
        elif type(handle) is not FactHandle:
            with Turn(actor.root):  # letting go works although this lifetime, or that of the handle, has stopped
                ds._let_go(handle)
        elif ds._actor is not None:
            handle.state = State.STOPPING
            ds._actions.append((RETRACT, handle))
        elif ds._wrapped or not actor.keep:
            ds._commit_alone(RETRACT, handle, actor)
        else:  # the same, unrolled
            handle.state = STOPPED
            del handle.facet.handles[handle]
            handle.index.retract(handle.record, None)
            if ds._queue and not ds._draining:
                ds._drain()

    def replace(self, handle: Handle | None, fact: Any) -> Handle:
        """Publish `fact`, then let go of `handle`, in one turn: there is no instant without the fact.

        Nobody hears anything if the two are equal.  With None it only publishes.
        """
        with Turn(self):
            new = self.publish(fact)
            self.retract(handle)
        return new

    def send(self, message: Any) -> None:
        """Tell those who observe now; nothing is kept.  Raises `NotAFact` like `publish`."""
        self._may_act()
        index = self.ds._indexes.get(type(message)) or self.ds._index(message)
        self.ds._act(SEND, record_of(message, index.key(message)), self.actor)

    # -- observing ----------------------------------------------------------------------------------------------------

    def observe(
        self,
        pattern: Pattern[Any] | type,
        appeared: Callable[..., object] | None = None,
        vanished: Callable[..., object] | None = None,
        heard: Callable[..., object] | None = None,
        *,
        once: bool = False,
    ) -> Handle:
        """Call `appeared` and `vanished` as matching facts come and go, `heard` for messages; what stands comes first.

        Callbacks are synchronous and get the fact, or the captures one by one; each call is a turn of this actor.  With
        `once` the observation ends with its first call.
        """
        self._may_act()
        observer = Callbacks(self, next(self.ds._ages), pattern_of(pattern))
        for kind, callback in (("appeared", appeared), ("vanished", vanished), ("heard", heard)):
            if callback is None:
                continue
            if not callable(callback) or is_async(callback):
                raise TypeError(
                    f"{kind} takes a synchronous function, not {callback!r}; async work goes into me.during"
                )
            setattr(observer, kind, self._only_once(observer, callback) if once else callback)
        return self._begin(observer)

    def during(self, pattern: Pattern[Any] | type, body: Callable[..., object]) -> Handle:
        """Run `body(me, fact)`, or `body(me, *captures)`, for each appearance, in a lifetime that ends with it.

        What the body publishes or observes through its `me` goes with the fact.  An async body is a linked task, which
        is cancelled when the fact goes; that it returns ends nothing.
        """
        enter = entering(self, body, "an async body")
        self._may_act()
        return self._begin(During(self, next(self.ds._ages), pattern_of(pattern), body, enter))

    def changes(self, pattern: Pattern[Any] | type) -> Changes:
        """The same as an asynchronous iterator: `with me.changes(P) as changes: async for change in changes: ...`.

        It yields `Appeared`, `Vanished` and `Heard`; a fact that came and went unread is left out.  It ends when this
        lifetime does, and raises `ActorCrashed` if that was a crash.  Needs a dataspace from `open_dataspace`.
        """
        self._check_runtime("changes")
        assert self.ds._runtime is not None
        return self.ds._runtime.changes(self, pattern_of(pattern))

    def facts(self, pattern: Pattern[T] | type[T]) -> tuple[T, ...]:
        """What stands now and matches, oldest first; what the open turn does is not part of it yet."""
        return self.ds.facts(pattern)

    # -- work ---------------------------------------------------------------------------------------------------------

    def task(self, fn: Callable[..., Awaitable[object]], *args: Any, context: Context | None = None) -> None:
        """Run `fn(*args)` as a task of this lifetime: started at commit, cancelled when it stops.

        An exception crashes the actor.  `context` gives the context variables to run it in.
        """
        check_async(fn)
        if not self._may_act():
            return
        self._check_runtime("a task")
        task = Task(self, fn, args)
        task.context = context
        self._link(task)

    async def blocking(self, fn: Callable[..., T], *args: Any, context: Context | None = None) -> T:
        """Run `fn(*args)` in a worker thread and return what it returns.

        `fn` must not touch the dataspace.  When the caller is cancelled the thread is abandoned; an error it meets
        afterwards is logged.
        """
        self._check_runtime("blocking")
        assert self.ds._runtime is not None
        return await self.ds._runtime.blocking(fn, args, context)

    def grace(self) -> AbstractContextManager[object]:
        """For the `finally` of a linked task: a block that may wait although the task is cancelled.

        All such blocks of a task together have one second from when it was stopped.  By then the task cannot act on the
        dataspace any more, only retract and stop what it holds elsewhere.
        """
        self._check_runtime("grace")
        assert self.ds._runtime is not None
        return self.ds._runtime.grace()

    def later(self, fn: Callable[[], object]) -> None:
        """Ask for a turn of this actor in which `fn()` runs; may be called in a turn of any actor, and is dropped with it."""
        self.ds._check_thread()
        self.ds._check_bar()
        if self.state is State.STOPPED:
            raise Stopped(f"{self!r} runs nothing any more")

        def call() -> object:
            self.pending -= 1
            return fn()

        call.__qualname__ = getattr(fn, "__qualname__", "a function")
        self.pending += 1
        self.ds._act(LATER, Call(self, call), self.actor)

    def spawn(self, boot: Callable[..., object], *args: Any, name: str | None = None) -> Facet:
        """Start another actor when the turn commits; its `me` is returned.  Raises `NameTaken`."""
        self._may_act()
        op, call = self.ds._spawning(boot, args, name)
        self.ds._act(op, call, self.actor)
        return call.facet

    def turn(self) -> Turn:
        """`with me.turn():` all that happens in the block is released together, or not at all if it raises.

        Within a turn of this actor it is a savepoint.  The block must not await.
        """
        return Turn(self)

    # -- the end ------------------------------------------------------------------------------------------------------

    def stop(self) -> Awaitable[None]:
        """End this lifetime (of the actor, if it is the outermost) at once; awaiting the result waits for its tasks.

        Called in another actor's turn, it is done after that turn.
        """
        self.ds._check_thread()
        if self.state is ALIVE:
            if self.ds._actor is self.actor:
                with Turn(self):  # a stop action may raise, and be forgiven: then nothing has stopped
                    self.ds._stop(self)
            else:
                with self.ds._cleaning_up():
                    self.later(lambda: self.ds._stop(self))
        return done if self.ds._runtime is None else self.ds._runtime.ended(self)

    def on_stop(self, action: Callable[[Facet], object]) -> None:
        """Run `action(parent)` when this lifetime stops in order, not when it crashes; before what it holds is retracted.

        `parent` is the lifetime around it.  For an actor it is the actor itself, which may still send, while what it
        publishes there is never seen.
        """
        if self.stop_actions is None:
            self.stop_actions = []
        self._register(self.stop_actions, action)

    def on_crash(self, hook: Callable[[BaseException], object]) -> None:
        """Call `hook(error)` after this actor has crashed; outside of turns, and it cannot act any more."""
        self._register(self.actor.crash_hooks, hook)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _let_go_late(self, handle: Handle) -> None:
        """Not in a turn of this actor: refused, but to a task that cleans up after its lifetime."""
        with self.ds._cleaning_up():
            self._may_act()
            self.retract(handle)

    def _only_once(self, observer: Observer, callback: Callable[..., object]) -> Callable[..., object]:
        def first(*args: Any) -> object:
            self.retract(observer)
            return callback(*args)

        return first
