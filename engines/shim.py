"""The loop without an event loop, for scripts, notebooks and tests.

    ctx = ctx_dataspace()
    observe(ctx, "(should-compress ?sid)", lambda sid: ctx.compressed(sid, shorter(ctx.messages(sid))))
    ctx.session_start("s1", threshold=100_000)
    ctx.response("s1", {"prompt_tokens": 120_000})

It is another face of the state machine behind `engines.loop`, on a dataspace of its own, and bare: nobody is asked,
whoever sees a question may answer it, nothing is held back, and answers are checked only if a check is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dataspace import Crashed, Dataspace, Facet, Observe, Pattern, parse_pattern, where
from engines.engine import is_async
from engines.facts import FACTS
from engines.loop.actor import Loop
from engines.loop.events import (
    AnswerVolunteered,
    Event,
    MessagesAppended,
    SessionEnded,
    SessionStarted,
    UsageRead,
)
from engines.loop.policy import Accept, Policy, Verdict, take_anything
from engines.messages import Messages

__all__ = ["Context", "ctx_dataspace", "observe", "un_observe"]

_VOCABULARY = (*FACTS.values(), Crashed, Observe)
Check = Callable[[Messages, Messages], Any]


class Context:
    """Conversations and their run loop; see `ctx_dataspace`.

    Called by an observer, a method takes effect in a later turn; called by anybody else, all that it causes has
    happened when it returns.  Use it from one thread.
    """

    def __init__(self, accept: Accept) -> None:
        self._ds = Dataspace()
        policy = Policy(owned=True, asks=False, guards=False, accept=accept)
        self._loop = Loop(self._ds.actor("loop"), policy)
        self._acting: Facet | None = None  # the observer whose function runs
        self._observers: dict[Facet, Pattern[Any]] = {}

    # -- what a host tells --------------------------------------------------------------------------------------------

    def session_start(
        self, sid: str, *, threshold: int, context_length: int = 0, messages: Iterable[Any] = (), **told: Any
    ) -> None:
        """A conversation begins, or begins anew.  `told`: profile, model, platform, parent, host_session.

        Raises `ValueError` for a threshold above the context length.
        """
        self._feed(
            SessionStarted(
                sid, threshold=threshold, context_length=context_length, messages=Messages.of(messages), **told
            )
        )

    def append(self, sid: str, *messages: Mapping[str, Any]) -> None:
        """Messages were added."""
        self._feed(MessagesAppended(sid, Messages.of(messages)))

    def response(self, sid: str, usage: Mapping[str, Any]) -> None:
        """A response came, with the usage its provider reported."""
        self._feed(UsageRead(sid, usage))

    def session_end(self, sid: str) -> None:
        """The conversation is over; who observes this one by name still hears of it, then goes."""
        self._feed(SessionEnded(sid))
        self._loop.me.later(lambda: self._part(sid))

    def compressed(self, sid: str, messages: Iterable[Any]) -> None:
        """Answer the question that stands; where none does, the answer is `Refused`."""
        by = "caller" if self._acting is None else self._acting.name
        self._feed(AnswerVolunteered(sid, by, Messages.of(messages)))

    # -- what is there ------------------------------------------------------------------------------------------------

    def messages(self, sid: str) -> list[dict[str, Any]]:
        """The messages of a conversation, as fresh dicts."""
        return self._loop.state(sid).messages.thaw()

    def facts(self, pattern: Pattern[Any] | type | str) -> tuple[Any, ...]:
        """The facts that stand and match, oldest first."""
        return self._ds.facts(_read(pattern))

    # -- inside -------------------------------------------------------------------------------------------------------

    def _feed(self, event: Event) -> None:
        self._loop.feed(event)

    def _observe(self, pattern: Pattern[Any], fn: Callable[..., object]) -> Facet:
        def boot(me: Facet) -> None:
            def call(*seen: Any) -> object:
                with self._turn_of(me):
                    return fn(*seen) if pattern.captures else fn()

            me.observe(pattern, appeared=call, heard=call)

        boot.__name__ = _name(fn)
        spawn = self._ds.spawn if self._acting is None else self._acting.spawn
        me = spawn(boot)
        self._observers[me] = pattern
        return me

    @contextmanager
    def _turn_of(self, me: Facet) -> Iterator[None]:
        before, self._acting = self._acting, me
        try:
            yield
        finally:
            self._acting = before

    def _part(self, sid: str) -> None:
        """Stop the observers whose pattern names `sid`: in turns of their own, after those in which they hear of the end."""
        for me, pattern in list(self._observers.items()):
            if not me.alive:
                del self._observers[me]
            elif getattr(pattern.parts.get("sid"), "value", None) == sid:
                del self._observers[me]
                me.stop()


def ctx_dataspace(*, check: bool | Check = False) -> Context:
    """A loop without an event loop.

    `check` True refuses answers with errors or faults; a function of an answer and its input may judge instead, and
    refuses by returning a report whose `ok` is false, or anything else that is.
    """
    if check is False:
        return Context(take_anything)
    if check is True:
        return Context(Policy().accept)
    return Context(_by(check))


def observe(ctx: Context, pattern: Pattern[Any] | type | str, fn: Callable[..., object]) -> Facet:
    """Call `fn` with the captures, or with nothing where there are none, whenever a matching fact appears.

    A message counts as appearing.  What stands comes first.  The handle returned ends it with `un_observe`; if `fn`
    raises, this observer crashes and no other: the error is shown, and `Crashed` stands.
    """
    if not isinstance(ctx, Context):
        raise TypeError(f"observe takes what ctx_dataspace() gave, a pattern and a function; the first is {ctx!r}")
    if is_async(fn) or not callable(fn):
        raise TypeError(f"observe takes a synchronous function, not {fn!r}; async work needs open_dataspace()")
    return ctx._observe(_read(pattern), fn)


def un_observe(handle: Facet) -> None:
    """End what `observe` began; a second time nothing happens."""
    if not isinstance(handle, Facet):
        raise TypeError(f"un_observe takes what observe gave, not {handle!r}")
    handle.stop()


def _read(pattern: Pattern[Any] | type | str) -> Pattern[Any]:
    if isinstance(pattern, str):
        return parse_pattern(pattern, _VOCABULARY)
    return pattern if isinstance(pattern, Pattern) else where(pattern)


def _name(fn: Callable[..., object]) -> str:
    name = getattr(fn, "__name__", "observer")
    return name if name.isidentifier() else "observer"


def _by(check: Check) -> Accept:
    def accept(answer: Messages, before: Messages) -> Verdict:
        report = check(answer, before)
        if getattr(report, "ok", report):
            return Verdict(answer)
        return Verdict(None, str(report))

    return accept
