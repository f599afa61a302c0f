"""Pages: a test as one text that says turns in and events out.

    b: observe (ping)
    a: publish (ping 1) as p; send (pong)
        b appeared (ping 1)
    a: retract p
        b vanished (ping 1)

A line names an actor and what it does in one turn; the indented lines under it are what came of it.  `play` carries a
page out and returns it with the events that really came, so a test is `assert PAGE == play(PAGE, ...)`, and a new page is
written by playing one without events.  (The idea of a program that holds its own trace is that of Syndicate's tests.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from .._crash import Crashed
from .._dataspace import Dataspace
from .._facet import Facet
from .._handles import Handle
from .._pattern import Pattern
from .._text import parse_pattern
from .._values import is_fact_class
from ..errors import DataspaceError, PatternError
from ._page_text import fact_of, text_of, value_text

__all__ = ["PageError", "play"]


class PageError(DataspaceError, ValueError):
    """A page cannot be carried out; the message names the line, from 1."""


def play(page: str, vocabulary: Iterable[type] | Mapping[str, type], **named: Any) -> str:
    """Carry out a page and return it with the events that really came of each turn.

    Facts and patterns are written as text, with the labels of `vocabulary`.  Actors are made when they are first named.
    Actions, separated by `;` within a turn:

        publish FACT as P     retract P     replace P FACT     send FACT     observe PATTERN as P
        stop     crash REASON     spawn BOOT as NAME     do FUNCTION

    `named` are Python things that the page may name: facts that have no text, boot functions, functions of `me`.  What
    an actor hears is an event if the page says `observe`; crashes, and errors that an action raises, always are.
    Lines that begin with `#` are comments.
    """
    return "\n".join(_Player(tuple(_classes(vocabulary)), named).lines(page))


def _classes(vocabulary: Iterable[type] | Mapping[str, type]) -> Iterable[type]:
    return vocabulary.values() if isinstance(vocabulary, Mapping) else vocabulary


_actor_line = re.compile(r"([\w#-]+):\s+(\S.*)")
_as = re.compile(r"\s+as\s+([\w#-]+)$")
_pieces = re.compile(r'"(?:[^"\\]|\\.)*"|;|[^";]+', re.DOTALL)


class _Player:
    def __init__(self, vocabulary: tuple[type, ...], named: Mapping[str, Any]) -> None:
        self._vocabulary = vocabulary
        self._named = named
        self._ds = Dataspace(on_crash=self._crashed)
        self._actors: dict[str, Facet] = {}
        self._handles: dict[str, Handle] = {}
        self._events: list[str] = []

    def lines(self, page: str) -> Iterator[str]:
        lines = page.split("\n")
        margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
        for number, line in enumerate(lines, 1):
            text = line[margin:]
            if text.startswith(" ") and text.strip():
                continue  # an event; those that come are put in below
            yield line
            if text.strip() and not text.startswith("#"):
                try:
                    self._turn(text)
                except PageError as error:
                    raise PageError(f"line {number}: {error}") from None
                yield from (f"{' ' * margin}    {event}" for event in self._events)
                self._events.clear()

    # -- turns in -----------------------------------------------------------------------------------------------------

    def _turn(self, text: str) -> None:
        found = _actor_line.fullmatch(text.rstrip())
        if found is None:
            raise PageError(f"a turn is written `actor: action; action`, not {text!r}")
        name, said = found.groups()
        me = self._actors.get(name)
        if me is None:
            me = self._actors[name] = self._ds.actor(name)
        actions = [self._action(me, action) for action in _split(said)]
        try:
            if len(actions) == 1:
                actions[0]()
                return
            with me.turn():
                for action in actions:
                    action()
        except PageError:
            raise
        except (DataspaceError, _NamedError) as error:
            cause = error.__cause__ or error
            self._events.append(f"! {type(cause).__name__}: {cause}")

    def _action(self, me: Facet, text: str) -> Callable[[], object]:
        word, _, rest = text.partition(" ")
        found = _as.search(f" {rest}")
        label = found[1] if found is not None else None
        rest = _as.sub("", f" {rest}").strip()
        action = getattr(self, f"_do_{word}", None)
        if action is None:
            words = sorted(name[4:] for name in dir(self) if name.startswith("_do_"))
            raise PageError(f"there is no action {word!r}; there is: {', '.join(words)}")
        done: Callable[[], object] = action(me, rest, label)
        return done

    def _do_publish(self, me: Facet, rest: str, label: str | None) -> Callable[[], object]:
        fact = self._fact(rest)
        return lambda: self._keep(label, me.publish(fact))

    def _do_send(self, me: Facet, rest: str, _label: str | None) -> Callable[[], object]:
        fact = self._fact(rest)
        return lambda: me.send(fact)

    def _do_retract(self, me: Facet, rest: str, _label: str | None) -> Callable[[], object]:
        return lambda: me.retract(self._handle(rest))

    def _do_replace(self, me: Facet, rest: str, label: str | None) -> Callable[[], object]:
        old, _, text = rest.partition(" ")
        fact = self._fact(text.strip())
        return lambda: self._keep(label or old, me.replace(self._handle(old), fact))

    def _do_observe(self, me: Facet, rest: str, label: str | None) -> Callable[[], object]:
        pattern = self._pattern(rest)

        def told(kind: str) -> Callable[..., None]:
            return lambda *args: self._events.append(f"{me.name} {kind} {' '.join(map(self._text, args))}")

        kinds = ("appeared", "vanished", "heard")
        return lambda: self._keep(label, me.observe(pattern, *map(told, kinds)))

    def _do_stop(self, me: Facet, _rest: str, _label: str | None) -> Callable[[], object]:
        return me.stop

    def _do_crash(self, me: Facet, rest: str, _label: str | None) -> Callable[[], object]:
        def crash() -> None:
            raise RuntimeError(rest)

        return lambda: me.later(crash)

    def _do_spawn(self, me: Facet, rest: str, label: str | None) -> Callable[[], object]:
        boot = self._function(rest)
        return lambda: self._actors.__setitem__(label or rest, me.spawn(boot, name=label or rest))

    def _do_do(self, me: Facet, rest: str, _label: str | None) -> Callable[[], object]:
        function = self._function(rest)

        def do() -> None:
            try:
                function(me)
            except Exception as error:
                raise _NamedError from error

        return do

    # -- what a page names --------------------------------------------------------------------------------------------

    def _keep(self, label: str | None, handle: Handle) -> None:
        if label is not None:
            self._handles[label] = handle

    def _handle(self, label: str) -> Handle:
        if label not in self._handles:
            raise PageError(f"nothing was called {label!r}; there is: {', '.join(self._handles) or 'nothing'}")
        return self._handles[label]

    def _function(self, name: str) -> Callable[..., object]:
        found = self._named.get(name)
        if not callable(found):
            raise PageError(f"there is no function {name!r}: give it to play(...) as {name}=...")
        return found  # type: ignore[no-any-return]

    def _pattern(self, text: str) -> Pattern[Any]:
        try:
            return parse_pattern(text, self._vocabulary)
        except PatternError as error:
            raise PageError(f"{text}: {error}") from None

    def _fact(self, text: str) -> Any:
        if text in self._named:
            return self._named[text]
        pattern = self._pattern(text)
        try:
            return fact_of(pattern)
        except (TypeError, ValueError) as error:
            raise PageError(f"{text} is no fact: {error}") from None

    # -- events out ---------------------------------------------------------------------------------------------------

    def _crashed(self, crash: Crashed, _error: BaseException) -> None:
        self._events.append(f"{crash.actor} crashed {crash.reason}")

    def _text(self, value: Any) -> str:
        for name, fact in self._named.items():
            if value is fact:
                return name
        return text_of(value) if is_fact_class(type(value)) else value_text(value)


class _NamedError(Exception):
    """A function that the page names raised an error, which is the cause of this one."""


def _split(said: str) -> list[str]:
    """The actions of a turn; a semicolon in a string is none."""
    actions = [""]
    for piece in _pieces.findall(said):
        if piece == ";":
            actions.append("")
        else:
            actions[-1] += piece
    return [action.strip() for action in actions if action.strip()]
