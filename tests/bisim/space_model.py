"""The dataspace told naively: everything is in lists, and each question is answered by looking at all of them.

This is the specification in a form one can check by reading.  It has the names of the real thing (`Dataspace`, `me.publish`,
`me.during`, ...), so one script can drive both.  What it leaves out: trio, threads, and the bounds of a runaway chain.

Three habits keep it naive.  Whatever a turn does to the public world waits in `actions` until the turn commits.  Before a
turn or a savepoint all state is written down, and going back means putting it back.  What an observer sees of a fact is
computed anew each time, from the pattern and from everything that stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import attrs

from dataspace import CAPTURE, Crashed, Observe, Stopped
from dataspace.errors import NameTaken, TurnError

# -- values and patterns --------------------------------------------------------------------------------------------------


def same(a: Any, b: Any) -> bool:
    """Are these one value?  Of exactly the same type, and equal in everything but readings."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, frozenset):
        return len(a) == len(b) and all(any(same(x, y) for y in b) for x in a)
    if attrs.has(type(a)):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in attrs.fields(type(a)) if f.eq)
    return bool(a == b)


@attrs.frozen(repr=False)
class Want:
    """A pattern: facts of exactly this class whose fields are as the parts say.

    A part is `CAPTURE`, a `Want` for a fact held in that field, or a literal value.
    """

    cls: type
    parts: tuple[tuple[str, Any], ...] = ()

    def __repr__(self) -> str:
        return f"where({', '.join([self.cls.__qualname__, *(f'{name}={part!r}' for name, part in self.parts)])})"


def fits(want: Want, fact: Any, captured: list[Any]) -> bool:
    """Does `fact` match?  What is captured on the way is added to `captured`."""
    if type(fact) is not want.cls:
        return False
    for name, part in want.parts:
        value = getattr(fact, name)
        if part is CAPTURE:
            captured.append(value)
        elif isinstance(part, Want):
            if not fits(part, value, captured):
                return False
        elif not same(part, value):
            return False
    return True


def captures(want: Want) -> bool:
    """Does it capture anything?"""
    return any(part is CAPTURE or (isinstance(part, Want) and captures(part)) for _, part in want.parts)


def look(want: Want, fact: Any) -> list[Any] | None:
    """What one sees of `fact` through `want`: what it captures, else the fact; None if it does not match."""
    captured: list[Any] = []
    if not fits(want, fact, captured):
        return None
    return captured if captures(want) else [fact]


# -- what there is --------------------------------------------------------------------------------------------------------


def kept(value: Any) -> Any:
    """A value as it is now, whatever is done to it later."""
    return list(value) if type(value) is list else value


class Standing:
    """A fact that stands, and all who stand behind it."""

    def __init__(self, fact: Any) -> None:
        self.first = fact  # patterns look at the readings it appeared with
        self.fact = fact  # shown is the newest publication
        self.owners: list[object] = []


class Actor:
    may_change = ("crash_hooks",)

    def __init__(self, model: Dataspace, name: str, keep: bool) -> None:
        self.name = name
        self.keep = keep  # lives although it holds nothing
        self.crash_hooks: list[Callable[[BaseException], object]] = []
        model.everything.append(self)
        self.root = Facet(model, self, None)

    def tree(self) -> list[Facet]:
        found = [self.root]
        for facet in found:
            found += facet.children
        return found


class Handle:
    """A publication or an observation: 'alive', 'going' (its end is part of the open turn), or 'gone'."""

    may_change: tuple[str, ...] = ("state",)

    def __init__(self, facet: Facet) -> None:
        self.facet = facet
        self.state = "alive"
        self.age = len(facet.model.ages)
        facet.model.ages.append(self)
        facet.model.everything.append(self)


class Publication(Handle):
    def __init__(self, facet: Facet, fact: Any) -> None:
        super().__init__(facet)
        self.fact = fact


class Observer(Handle):
    may_change = ("state", "lifetimes")

    def __init__(self, facet: Facet, want: Want) -> None:
        super().__init__(facet)
        self.want = want
        self.callbacks: dict[str, Callable[..., object] | None] = {}
        self.lifetimes: list[tuple[list[Any], Facet]] = []  # of a `during`: what appeared, and its lifetime


class Facet:
    """A lifetime: 'alive', 'stopping' (its stop actions run), or 'stopped'."""

    may_change = ("state", "children", "handles", "stop_actions", "pending")

    def __init__(self, model: Dataspace, actor: Actor, parent: Facet | None) -> None:
        self.model = model
        self.actor = actor
        self.parent = parent
        self.state = "alive"
        self.children: list[Facet] = []
        self.handles: list[Handle] = []
        self.stop_actions: list[Callable[[Facet], object]] = []
        self.pending = 0  # turns asked for that have not run
        model.everything.append(self)

    @property
    def name(self) -> str:
        return self.actor.name

    def may_act(self) -> bool:
        if self.model.acting not in (None, self.actor):
            raise TurnError
        if self.state == "stopped":
            raise Stopped
        return self.state == "alive"

    @contextmanager
    def turn(self) -> Iterator[Facet]:
        """All or nothing.  Within a turn of this actor it is a savepoint."""
        self.may_act()
        with self.model.turn_of(self.actor):
            yield self

    @contextmanager
    def action(self) -> Iterator[None]:
        """Part of the open turn, or else a turn of its own."""
        self.may_act()
        with self.model.action_of(self.actor):
            yield

    def publish(self, fact: Any) -> Handle:
        with self.action():
            handle = Publication(self, fact)
            return self.begin(handle, lambda: self.model.appear(fact, handle))

    def retract(self, handle: Handle | None) -> None:
        if handle is None or handle.state != "alive" or handle.facet.actor is not self.actor:
            return
        if self.model.acting not in (None, self.actor):
            raise TurnError
        with self.model.action_of(self.actor):
            self.model.let_go(handle)

    def replace(self, handle: Handle | None, fact: Any) -> Handle:
        with self.action():
            new = self.publish(fact)
            self.retract(handle)
            return new

    def send(self, message: Any) -> None:
        with self.action():
            self.model.actions.append(lambda: self.model.fan_out(message))

    def observe(
        self,
        want: Want,
        appeared: Callable[..., object] | None = None,
        vanished: Callable[..., object] | None = None,
        heard: Callable[..., object] | None = None,
        once: bool = False,
    ) -> Handle:
        with self.action():
            observer = Observer(self, want)

            def only_once(callback: Callable[..., object]) -> Callable[..., object]:
                def first(*args: Any) -> object:
                    self.retract(observer)
                    return callback(*args)

                return first

            for kind, callback in (("appeared", appeared), ("vanished", vanished), ("heard", heard)):
                observer.callbacks[kind] = only_once(callback) if once and callback is not None else callback
            return self.begin(observer, lambda: self.model.admit(observer))

    def during(self, want: Want, body: Callable[..., object]) -> Handle:
        with self.action():
            observer = Observer(self, want)

            def appeared(*args: Any) -> None:
                facet = Facet(self.model, self.actor, self)
                self.children.append(facet)
                observer.lifetimes.append((list(args), facet))
                body(facet, *args)

            def vanished(*args: Any) -> None:
                (entry,) = [entry for entry in observer.lifetimes if same(entry[0], list(args))]
                observer.lifetimes.remove(entry)
                self.model.stop(entry[1])

            observer.callbacks = {"appeared": appeared, "vanished": vanished, "heard": None}
            return self.begin(observer, lambda: self.model.admit(observer))

    def begin(self, handle: Handle, action: Callable[[], object]) -> Handle:
        if self.state == "alive":
            self.handles.append(handle)
            self.model.actions.append(action)
        else:
            handle.state = "gone"  # while it stops, what it begins is never seen
        return handle

    def later(self, fn: Callable[[], object]) -> None:
        """May be called in a turn of any actor."""
        if self.state == "stopped":
            raise Stopped

        def call() -> None:
            self.pending -= 1
            fn()

        with self.model.action_of(self.model.acting or self.actor):
            self.pending += 1
            self.model.actions.append(lambda: self.model.waiting.append((self, "call", call, [])))

    def spawn(self, boot: Callable[[Facet], object], name: str) -> Facet:
        with self.action():
            return self.model.begin_actor(boot, name)

    def stop(self) -> None:
        if self.state != "alive":
            return
        if self.model.acting is self.actor:
            with self.turn():  # a stop action may raise, and be forgiven: then nothing has stopped
                self.model.stop(self)
        else:
            self.later(lambda: self.model.stop(self))

    def on_stop(self, action: Callable[[Facet], object]) -> None:
        with self.action():
            if self.state == "alive":
                self.stop_actions.append(action)

    def on_crash(self, hook: Callable[[BaseException], object]) -> None:
        with self.action():
            if self.state == "alive":
                self.actor.crash_hooks.append(hook)


# -- how it goes ----------------------------------------------------------------------------------------------------------


class Dataspace:
    """All lists, and the rules by which they change."""

    def __init__(self, on_crash: Callable[[Crashed, BaseException], object]) -> None:
        self.on_crash = on_crash
        self.standing: list[Standing] = []  # in the order in which they appeared
        self.observers: list[Observer] = []  # by age
        self.actors: dict[str, Actor] = {}  # the live ones
        self.waiting: list[tuple[Handle | Facet, str, Callable[..., object] | None, list[Any]]] = []
        self.delivering = False
        self.acting: Actor | None = None  # whose turn it is
        self.actions: list[Callable[[], object]] = []  # of that turn, to be done when it commits
        self.crashes: list[Crashed] = []
        self.ages: list[Handle] = []
        self.everything: list[Any] = []  # whatever has state that a failed turn must give back

    # What users call

    def actor(self, name: str) -> Facet:
        self.free(name)
        self.actors[name] = Actor(self, name, keep=True)
        return self.actors[name].root

    def spawn(self, boot: Callable[[Facet], object], name: str) -> Facet:
        if self.acting is not None:
            raise TurnError
        self.free(name)
        with self.turn_of(None):
            return self.begin_actor(boot, name)

    def facts(self, want: Want) -> list[Any]:
        return [standing.fact for standing in self.standing if look(want, standing.first) is not None]

    # Turns

    @contextmanager
    def turn_of(self, actor: Actor | None) -> Iterator[None]:
        outermost, before = self.acting is None, self.remember()
        if outermost:
            self.acting, self.actions = actor, []
        try:
            yield
        except BaseException:
            if outermost:
                self.acting = None
            self.go_back(before)
            raise
        if outermost:
            self.acting = None
            self.commit(actor)
            self.deliver()

    def action_of(self, actor: Actor) -> AbstractContextManager[None]:
        return self.turn_of(actor) if self.acting is None else nullcontext()

    def run(self, actor: Actor, call: Callable[[], object]) -> None:
        """A turn that the dataspace begins: an exception discards it and is the actor's crash."""
        before = self.remember()
        self.acting, self.actions = actor, []
        try:
            call()
        except Exception as error:  # noqa: BLE001 - it is the actor's crash
            self.acting = None
            self.go_back(before)
            self.crash(actor, error)
        else:
            self.acting = None
            self.commit(actor)

    def commit(self, actor: Actor | None) -> None:
        for action in self.actions:
            action()
        if actor is None or actor.keep or self.actors.get(actor.name) is not actor:
            return
        if not (actor.root.handles or actor.root.children or actor.root.pending):
            self.run(actor, lambda: self.stop(actor.root))  # who holds nothing any more ends

    def remember(self) -> Any:
        state = [(thing, [kept(getattr(thing, name)) for name in thing.may_change]) for thing in self.everything]
        return state, dict(self.actors), list(self.actions)

    def go_back(self, before: Any) -> None:
        state, self.actors, self.actions = before
        for made_since in self.everything[len(state) :]:
            made_since.state = "gone" if isinstance(made_since, Handle) else "stopped"
        del self.everything[len(state) :]
        for thing, then in state:
            for name, value in zip(thing.may_change, then, strict=True):
                setattr(thing, name, value)

    def deliver(self) -> None:
        """Everything that waits, in order; each callback is a turn of its own."""
        if self.delivering:
            return
        self.delivering = True
        while self.waiting:
            who, _, callback, args = self.waiting.pop(0)
            if callback is not None and who.state == "alive":
                actor = who.actor if isinstance(who, Facet) else who.facet.actor
                self.run(actor, lambda call=callback, args=args: call(*args))
        self.delivering = False

    # Facts, messages, observers

    def appear(self, fact: Any, owner: object) -> None:
        for standing in self.standing:
            if same(standing.first, fact):
                standing.fact = fact
                standing.owners.append(owner)
                return
        standing = Standing(fact)
        standing.owners.append(owner)
        self.standing.append(standing)
        self.news("appeared", standing)

    def vanish(self, owner: object) -> None:
        (standing,) = [standing for standing in self.standing if owner in standing.owners]
        standing.owners.remove(owner)
        if not standing.owners:
            self.standing.remove(standing)
            self.news("vanished", standing)

    def news(self, kind: str, standing: Standing) -> None:
        """Tell each observer that sees a difference, the oldest first."""
        for observer in self.observers:
            seen = look(observer.want, standing.first)
            others = [s for s in self.standing if s is not standing]
            if seen is not None and not any(same(look(observer.want, other.first), seen) for other in others):
                self.tell(observer, kind, standing.fact, seen)

    def tell(self, observer: Observer, kind: str, fact: Any, seen: list[Any]) -> None:
        args = seen if captures(observer.want) else [fact]
        self.waiting.append((observer, kind, observer.callbacks.get(kind), args))

    def fan_out(self, message: Any) -> None:
        for observer in self.observers:
            seen = look(observer.want, message)
            if seen is not None:
                self.tell(observer, "heard", message, seen)

    def admit(self, observer: Observer) -> None:
        """A new observer: its interest is a fact, then it hears what stands, each appearance once, the oldest first."""
        self.appear(Observe(observer.want, observer.facet.name), observer)  # type: ignore[arg-type]
        self.observers.append(observer)
        told: list[list[Any]] = []
        for standing in self.standing:
            seen = look(observer.want, standing.first)
            if seen is not None and not any(same(seen, before) for before in told):
                told.append(seen)
                self.tell(observer, "appeared", standing.fact, seen)

    def let_go(self, handle: Handle) -> None:
        """Within a turn."""
        if handle.state != "alive":
            return
        handle.state = "going"
        self.actions.append(lambda: self.release(handle))
        if isinstance(handle, Observer):
            for _, facet in reversed(list(handle.lifetimes)):
                self.stop(facet)

    def release(self, handle: Handle) -> None:
        handle.state = "gone"
        handle.facet.handles.remove(handle)
        if isinstance(handle, Observer):
            self.observers.remove(handle)
        self.vanish(handle)
        self.everything.remove(handle)

    # Actors and their ends

    def free(self, name: str) -> None:
        if name in self.actors:
            raise NameTaken

    def begin_actor(self, boot: Callable[[Facet], object], name: str) -> Facet:
        self.free(name)
        actor = self.actors[name] = Actor(self, name, keep=False)
        root = actor.root
        root.pending = 1

        def first_turn() -> None:
            root.pending -= 1
            boot(root)

        self.actions.append(lambda: self.waiting.append((root, "call", first_turn, [])))
        return root

    def stop(self, facet: Facet) -> None:
        """Within a turn: children first, then stop actions, then what it holds, newest first."""
        if facet.state != "alive":
            return
        self.actions.append(lambda: self.bury(facet))
        facet.state = "stopping"
        for child in reversed(list(facet.children)):
            self.stop(child)
        if facet.parent is not None:
            facet.state = "stopped"  # its stop actions act through the parent
        for action in list(facet.stop_actions):
            action(facet.parent or facet)
        facet.state = "stopped"
        for handle in reversed(list(facet.handles)):
            self.let_go(handle)

    def bury(self, facet: Facet) -> None:
        self.everything.remove(facet)
        if facet.parent is not None:
            facet.parent.children.remove(facet)
        else:
            self.everything.remove(facet.actor)
            del self.actors[facet.name]

    def crash(self, actor: Actor, error: BaseException) -> None:
        """Outside of turns: what it holds goes, newest first; stop actions do not run, crash hooks do."""
        facets = actor.tree()
        handles = [handle for facet in facets for handle in facet.handles]
        for facet in facets:
            facet.state = "stopped"
            self.everything.remove(facet)
        self.everything.remove(actor)
        for handle in sorted(handles, key=lambda handle: handle.age, reverse=True):
            self.release(handle)
        del self.actors[actor.name]
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        crash = Crashed(actor.name, reason, len(self.crashes) + 1)
        self.crashes.append(crash)
        self.appear(crash, crash)
        if len(self.crashes) > 100:
            self.vanish(self.crashes[-101])
        for hook in actor.crash_hooks:
            hook(error)
        self.on_crash(crash, error)
        self.deliver()
