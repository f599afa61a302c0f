"""Reading the rows of a list: their texts without secrets, their identifiers, what their calls did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from attrs import define, field, frozen

from ..messages import Messages, Row
from ..transcript import Call, Group, call_id, calls_of, role_of, text_of
from .lexer import Kind, lex
from .outcome import Outcome, noise_in, outcome_of, skill_of, target_of
from .rank import ranked
from .redact import redact_all
from .requests import Compared, compare
from .summary import Summary
from .wording import best_sentence, excerpt

__all__ = ["Reader", "Step"]

T = TypeVar("T")


@frozen
class Step:
    """One call and its result: `skill` names a skill text it brought in, `size` is the length of the result."""

    call: Call
    target: str
    outcome: Outcome
    size: int
    skill: str | None
    path: str = ""
    command: str = ""
    writes: bool = False


@define
class Reader:
    """Reads the rows of one list, each at most once, and never more than `most` characters of one.

    Rows in `staying` stay word for word; nobody asks what is in them, so they are not read.

    It remembers what it has worked out, since a compaction may try more than one way to divide the rows.
    """

    rows: Messages
    most: int
    wanted: tuple[str, ...] = ()
    staying: frozenset[int] = frozenset()
    _known: dict[Any, Any] = field(factory=dict, init=False)

    def text(self, at: int) -> str:
        """Return the text of a row without secrets; the middle of a giant one is left out."""
        return self._clean()[0][at]

    def calls(self, at: int) -> tuple[Call, ...]:
        """Return the calls of a row, their arguments without secrets."""
        return self._clean()[1].get(at, ())

    def tokens(self, at: int) -> dict[str, Kind]:
        """Return the identifiers in a row: in its text and in the arguments of its calls."""
        return self._once(("tokens", at), lambda: lex(_said(self.text(at), self.calls(at))))

    def standing(self, rows: Iterable[Row]) -> frozenset[str]:
        """Return the identifiers in rows that stay; these are only looked up, so secrets need no care."""

        def found(row: Row) -> frozenset[str]:
            return self._once((row, "standing"), lambda: frozenset(lex(_said(text_of(row), calls_of(row)))))

        return frozenset[str]().union(*map(found, rows))

    def decision(self, at: int) -> str:
        """Return the sentence of a row that tells most."""
        return self._once(("decision", at), lambda: best_sentence(self.text(at), 200, self.wanted))

    def steps(self, group: Group) -> tuple[Step, ...]:
        """Return the calls of a group in order, each with what became of it."""
        return self._once(("steps", group.start), lambda: tuple(self._steps(group)))

    def compare(self, summary: Summary, kept: tuple[str, ...], known: int) -> Compared:
        """Compare the requests of a summary, the first `known` of which are old, with each other and those `kept`."""
        asked = (summary.requests, kept, known, summary.seen)
        return self._once(asked, lambda: compare(*asked, self.wanted))

    def ranked(self, gone: tuple[int, ...], old: dict[str, Kind], asked: str) -> tuple[str, ...]:
        """Rank the identifiers of the rows `gone` together with the `old` ones; see `ranked`."""
        key = (gone, tuple(old), asked)
        return self._once(key, lambda: ranked([self.tokens(at) for at in gone], old, asked, self.wanted))

    def noise(self) -> frozenset[str]:
        """Return the shapes of lines that say nothing because so many results begin or end with them."""
        return self._once("noise", lambda: noise_in(text_of(row) for row in self.rows if role_of(row) == "tool"))

    def _clean(self) -> tuple[dict[int, str], dict[int, tuple[Call, ...]]]:
        """All texts, and the calls of the rows that have some, without secrets."""

        def clean() -> tuple[dict[int, str], dict[int, tuple[Call, ...]]]:
            read = [(at, row) for at, row in enumerate(self.rows) if at not in self.staying]
            calls = [(at, call) for at, row in read for call in calls_of(row)]
            texts = [text_of(row) for _, row in read] + [call.arguments for _, call in calls]
            texts = redact_all([excerpt(text, self.most) for text in texts])
            by_row: dict[int, tuple[Call, ...]] = {}
            for (at, call), arguments in zip(calls, texts[len(read) :], strict=True):
                by_row[at] = (*by_row.get(at, ()), call._replace(arguments=arguments))
            return {at: text for (at, _), text in zip(read, texts, strict=False)}, by_row

        return self._once("clean", clean)

    def _once(self, key: Any, make: Callable[[], T]) -> T:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]  # type: ignore[no-any-return]

    def _steps(self, group: Group) -> Iterable[Step]:
        results: dict[str, list[int]] = {}
        for at in range(group.start + 1, group.stop):
            results.setdefault(call_id(self.rows[at]) or "", []).append(at)
        for call in self.calls(group.start):
            waiting = results.get(call.id)
            text, size, outcome = "", 0, Outcome("no result")
            if waiting:
                place = waiting.pop(0)
                text, size = self.text(place), len(text_of(self.rows[place]))
                outcome = outcome_of(text, self.noise())
            target = target_of(call)
            yield Step(
                call, target.text, outcome, size, skill_of(call, text), target.path, target.command, target.writes
            )


def _said(text: str, calls: Sequence[Call]) -> str:
    return "\n".join([_plain(text), *[f"{call.name} {_plain(call.arguments)}" for call in calls]])


def _plain(text: str) -> str:
    """JSON without its escapes, near enough for finding words in it."""
    return text.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"') if text[:1] in "{[" else text
