"""What an onlooker makes of a run of the compaction protocol: what a context stands for, and what may never happen."""

from __future__ import annotations

import re
from typing import Any

from dataspace import Appeared
from engines.facts import Asked, Compressed, ShouldCompress, Transcript
from engines.loop import Verdict
from engines.messages import Messages

__all__ = ["Seen", "giver_of", "refuse_bad", "words_in"]


def words_in(messages: Messages) -> list[str]:
    """The words that a list stands for, in order."""
    return [word for row in messages for word in re.findall(r"\w+", re.sub(r"}\w+", "}", str(row["content"])))]


def giver_of(messages: Messages) -> tuple[str, int] | None:
    """Who gave the answer that a context begins with, and for which asking."""
    found = re.fullmatch(r"\{.*}([a-z]+)(\d+)", str(messages[0]["content"]))
    return (found[1], int(found[2])) if found is not None else None


def refuse_bad(answer: Messages, _before: Messages) -> Verdict:
    """What a judge says who knows a bad answer when he sees one."""
    bad = any("bad" in str(row["content"]) for row in answer)
    return Verdict(None, "it is bad") if bad else Verdict(answer)


class Seen:
    """What has happened so far, as far as it bears on what may happen yet, checked as it happens."""

    def __init__(self) -> None:
        self.n = self.ask = self.taken = 0  # the last numbers of an asking, of a question, of one with a result
        self.latest: dict[str, tuple[int, str]] = {}  # the latest asking of each role, for that question
        self.tried: dict[int, set[str]] = {}  # the compressors asked for it, and for the one before
        self.context: tuple[int, tuple[str, int] | None] = (0, None)  # how many words, and whose answer it begins with
        self.results = 0  # contexts that were replaced and not yet told as `Compressed`

    def remembered(self) -> Any:
        return self.n, self.ask, self.taken, self.latest, self.tried, self.context, self.results

    def note(self, change: Any) -> None:
        if isinstance(change, Appeared):
            getattr(self, type(change.fact).__name__)(change.fact)

    def ShouldCompress(self, question: ShouldCompress) -> None:  # noqa: N802 - by the name of the fact
        """No question has the number of an earlier one."""
        assert question.ask > self.ask, f"a number came back: {question}"
        self.tried = {question.ask: set(), self.ask: self.tried.get(self.ask, set())}
        self.ask, self.latest = question.ask, {}

    def Asked(self, asked: Asked) -> None:  # noqa: N802
        """No asking has the number of an earlier one, and it is for the question that stands."""
        assert asked.n > self.n, f"a number came back: {asked}"
        assert asked.ask == self.ask
        self.n, self.latest[asked.role] = asked.n, (asked.n, asked.to)
        if asked.role == "compressor":
            self.tried[asked.ask].add(asked.to)

    def Transcript(self, transcript: Transcript) -> None:  # noqa: N802
        """A context is another one because of a message more, or of a result."""
        words, giver = len(words_in(transcript.messages)), giver_of(transcript.messages)
        if words == self.context[0]:
            self.results += 1
        self.context = words, giver

    def Compressed(self, compressed: Compressed) -> None:  # noqa: N802
        """At most one result a question, given by who was asked last in its role."""
        assert compressed.ask == self.ask > self.taken, f"a second result for question {compressed.ask}"
        giver = self.context[1]
        assert giver is not None
        by, n = giver
        assert (n, by) in self.latest.values(), f"the answer {by}{n} was taken for question {compressed.ask}"
        self.results -= 1
        self.taken = compressed.ask

    def nothing_is_half_done(self) -> None:
        """Every result that was taken over is told as `Compressed`, once."""
        assert self.results == 0, "the context was replaced twice, or without a word"
