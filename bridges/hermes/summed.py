"""What a compaction leaves out has to be summed up in what it gives, by a summary that says something.

With nothing left to keep at the end, the host's own compressor writes a summary and then has no message to put it before
or into: the rows are gone, and the summary with them.  Its summary still stands in its attributes, so it can be put in
here; where it had none, the answer is of no use.  Nor is it with a summary that is empty, or repeats what it stands for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from engines.messages import Messages, Row
from engines.transcript import Changed, is_foreign_summary, is_real_user, system_rows, text_of

from .echo import echoes
from .wording import Wording

__all__ = ["new_summaries", "put_in", "useless"]

_THOUGHTS = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_VISIBLE = re.compile(
    r"[^\s\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
# What the built-in puts into every summary itself: the last request, quoted.
_QUOTED = re.compile(r"\A## Historical Task Snapshot\n.*?^Historical only;[^\n]*$", re.DOTALL | re.MULTILINE)


def new_summaries(put: Sequence[Row], before: Messages, wording: Wording) -> list[str]:
    """The texts of the rows among `put` that hold a summary, in the host's words, that was not there before."""
    texts = [
        text_of(row)
        for row in put
        if row.get("role") != "tool" and (is_foreign_summary(row) or wording.merged_summary(text_of(row)))
    ]
    return [text for text in texts if not _was_said(text, before)] if texts else texts


def put_in(answer: Messages, wording: Wording, wrote: str) -> Messages | None:
    """An answer without a new summary, with the one that was written for it; the same value where it says that already.

    None: there is none (an empty `wrote`).
    """
    if not wrote:
        return None
    if any(wrote in text_of(row) for row in answer):  # it says what an earlier one said
        return answer
    follows_user = len(answer) > system_rows(answer) and answer[-1].get("role") == "user"
    summary = {
        "role": "assistant" if follows_user else "user",
        "content": f"{wording.prefix}\n{wrote}\n\n{wording.end}",
        "_compressed_summary": True,
    }
    return Messages.of([*answer, summary])


def useless(new: Sequence[str], rows: Messages, changed: Changed, wording: Wording, *, quotes: bool) -> str:
    """Why one of the new summaries of an answer says nothing; empty where each says something, or there is none.

    `quotes`: they were put together without a model, so they quote and are no echo.
    """
    for text in new:
        body = wording.body(text)
        quoted = _QUOTED.match(body)
        body = body[quoted.end() :].strip() if quoted else body
        if not _VISIBLE.search(body):
            return "the summary is empty"
        if not _VISIBLE.search(_THOUGHTS.sub("", body)):
            return "the summary holds nothing but thoughts"
        if wording.request in body[:1000]:
            return "the summary repeats the request for one"
        if not quotes and _echoes(body, rows, changed, wording):
            return "the summary repeats the messages instead of summing them up"
    return ""


def _was_said(text: str, before: Messages) -> bool:
    contents = [row.get("content") for row in before]
    return text in contents or any(
        text_of(row) == text for row, content in zip(before, contents, strict=True) if not isinstance(content, str)
    )


def _echoes(body: str, after: Messages, changed: Changed, wording: Wording) -> bool:
    """Whether most of a summary stands word for word in the messages it is for."""
    shortened = {row.get("tool_call_id") for row in changed.put if row.get("role") == "tool"}  # and then summed up
    gone = [row for row in changed.gone if row.get("tool_call_id", ...) not in shortened]

    def texts() -> Iterator[str]:
        # Requests are quoted, and what an earlier summary said is said again.
        stay = {_said(row) for row in after}
        for row in gone:
            if _said(row) not in stay and not is_real_user(row) and wording.prefix not in text_of(row):
                yield text_of(row)

    return echoes(body, [text_of(row) for row in gone], texts)


def _said(row: Row) -> tuple[Any, ...]:
    return row.get("role"), row.get("tool_call_id"), row.get("content")
