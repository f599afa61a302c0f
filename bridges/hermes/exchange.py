"""What passes between a hosted engine's own lists and the frozen ones of the dataspace, each row looked at once.

A row that the engine has kept becomes the very row it was made from, so whoever judges the answer afterwards tells by
identity what is new in it.  The host gets the dicts that the engine itself has made, where they are nobody else's.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from engines.loop.policy import Accept, Verdict
from engines.messages import Messages, thaw
from engines.sameness import recognised
from engines.transcript import Changed

from .guard import unmarked

__all__ = ["Exchange"]

Rows = list[dict[str, Any]]


class Exchange:
    """The latest call of one engine.

    `lends`: the engine copies each row before it changes anything in it, and keeps none, as the host relies on when it
    calls that engine itself.  So the host's own rows are lent to it, and what it makes may be handed on.  Any other
    engine has dicts and lists of its own, and so has the host after it.

    The host's thread prepares and takes, the engine's works, the loop's judges; each value is set as a whole.
    """

    def __init__(self, *, lends: bool) -> None:
        self._lends = lends
        self._ready: tuple[Messages, Rows] | None = None  # a list, and dicts for the engine to work on
        self._lent: tuple[Messages, Rows] | None = None  # a list, and the host's own rows that it was frozen from
        self._bare: tuple[Messages, Messages] | None = None  # a list, and the same without marks
        self._changed: tuple[Messages, Messages, Changed] | None = None
        self._given: tuple[Messages, Rows] | None = None  # an answer, and the engine's own list
        self._judged: tuple[Messages, Messages, Verdict] | None = None  # an answer, to what, and what it is worth
        self._accept: Accept | None = None

    def prepare(self, messages: Messages, rows: Rows | None = None) -> None:
        """Have something for the engine to work on when it is asked about `messages`, frozen from `rows` of the host.

        Whoever has just frozen it is quickest to thaw it, and has to wait anyway.
        """
        if self._lends and rows is not None and set(map(type, rows)) <= {dict}:
            self._lent = (messages, [*rows])
            self._ready = (messages, [*rows])
        else:
            self._lent = None
            self._ready = (messages, messages.thaw())

    def rows(self, messages: Messages) -> Rows:
        """What the engine may work on."""
        ready, self._ready = self._ready, None
        return ready[1] if ready is not None and ready[0] is messages else messages.thaw()

    def bare(self, messages: Messages) -> Messages:
        """The same without the host's marks; of one list the same rows every time."""
        known = self._bare
        if known is None or known[0] is not messages:
            known = self._bare = (messages, unmarked(messages))
        return known[1]

    def freeze(self, done: Rows, before: Messages) -> Messages:
        """The engine's answer to `before`; raises `NotJSONError`."""
        lent = self._lent
        rows = lent[1] if lent is not None and lent[0] is before else None
        bare = self.bare(before)
        known = list(recognised(done, tuple(bare), rows))
        answer = Messages.of(known)
        kept = set(map(id, known))
        put = [row for row, was in zip(answer, known, strict=True) if row is not was]
        gone = [row for row in bare if id(row) not in kept]
        self._changed = (answer, bare, Changed(tuple(put), tuple(gone)))
        self._given = (answer, done) if self._lends and type(done) is list else None
        return answer

    def changed(self, answer: Messages, before: Messages) -> Changed:
        """What has changed between an answer and the bare list it was made from; known of the latest one."""
        known = self._changed
        if known is not None and known[0] is answer and known[1] is before:
            return known[2]
        return Changed.between(answer, before)

    def judging(self, accept: Accept) -> Accept:
        """`accept`, for the loop; what has been judged already is not judged again."""
        self._accept, self._judged = accept, None

        def judge(answer: Messages, before: Messages) -> Verdict:
            known = self._judged
            if known is not None and known[0] is answer and known[1] is before:
                return known[2]
            return accept(answer, before)

        return judge

    def foresee(self, answer: Messages, before: Messages) -> None:
        """Judge it where it was made: on the dataspace's thread other conversations would have to wait for that."""
        if self._accept is not None:
            with suppress(Exception):  # it is raised again where it is dealt with
                self._judged = (answer, before, self._accept(answer, before))

    def thaw(self, messages: Messages) -> Rows:
        """Fresh dicts and lists for the host; what the engine has made itself is given away once."""
        given, lent = self._given, self._lent
        self.forget()
        if given is None:
            return messages.thaw()
        answer, done = given
        made = set(map(id, done))
        if len(made) < len(done) or set(map(type, done)) - {dict}:
            return messages.thaw()  # something is in it twice and would be the same to the host, or is no plain dict
        if lent is not None and not made.isdisjoint(map(id, lent[1])):
            return messages.thaw()  # a row of the host's own
        if messages is answer:
            return done
        own: dict[int, dict[str, Any] | None] = {id(row): its for row, its in zip(answer, done, strict=True)}
        return [own.pop(id(row), None) or thaw(row) for row in messages]

    def forget(self) -> None:
        """Nobody will come for it any more."""
        self._ready = self._lent = self._bare = self._changed = self._given = self._judged = None
