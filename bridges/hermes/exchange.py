"""What passes between a hosted engine's own lists and the frozen ones of the dataspace, each row looked at once.

A row that the engine has kept becomes the very row it was made from, so whoever judges the answer afterwards tells by
identity what is new in it.  The host gets the dicts that the engine itself has made, where they are nobody else's.
"""

from __future__ import annotations

from typing import Any

from engines.messages import Messages, thaw

from .guard import unmarked

__all__ = ["Exchange"]

Rows = list[dict[str, Any]]


class Exchange:
    """The latest answer of one engine.  `lends`: its dicts may be handed on, for it keeps none of them.

    The engine's thread gives, the loop's judges, the host's takes; each value is set as a whole.
    """

    def __init__(self, *, lends: bool) -> None:
        self._lends = lends
        self._bare: tuple[Messages, Messages] | None = None  # a list, and the same without marks
        self._given: tuple[Messages, Rows] | None = None  # an answer, and the engine's own list

    def bare(self, messages: Messages) -> Messages:
        """The same without the host's marks; of one list the same rows every time."""
        known = self._bare
        if known is None or known[0] is not messages:
            known = self._bare = (messages, unmarked(messages))
        return known[1]

    def freeze(self, done: Rows, before: Messages) -> Messages:
        """The engine's answer to `before`; raises `NotJSONError`."""
        answer = Messages.of(done, like=self.bare(before))
        self._given = (answer, done) if self._lends and type(done) is list else None
        return answer

    def thaw(self, messages: Messages) -> Rows:
        """Fresh dicts and lists for the host; what the engine has made itself is given away once."""
        given, self._given, self._bare = self._given, None, None
        if given is None:
            return messages.thaw()
        answer, done = given
        own = {id(row): made for row, made in zip(answer, done, strict=True) if type(made) is dict}
        if len(own) < len(done) or len(set(map(id, done))) < len(done):
            return messages.thaw()  # something is in it twice, and would be the same to the host
        return [own.pop(id(row), None) or thaw(row) for row in messages]

    def forget(self) -> None:
        """Nobody will come for it any more."""
        self._given = self._bare = None
