"""What becomes of a hosted engine's answer.

`record` takes whatever the host would take.  `repair` mends what can be mended and refuses the rest, so that the host
never gets a list that it, a provider or the user would suffer from.  An answer without a problem is the same value
before and after.  Rules of the host beyond those of any transcript: rows go to its store only without the mark of rows
that are stored already, and `api_content` is sent instead of the content, so it must not outlive a change of that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

from engines.loop.policy import Accept, Verdict, strict
from engines.messages import Messages, Row
from engines.transcript import (
    Changed,
    Problem,
    bridge_neighbours,
    check_against,
    current_user,
    drop_orphans,
    drop_unknown,
    groups,
    is_foreign_summary,
    is_real_user,
    merge_neighbours,
    stub_missing,
    system_rows,
    text_of,
)

from .echo import echoes
from .summed import summed_up
from .wording import Wording

__all__ = ["judge", "mend", "strictly", "unmarked"]

STORED, SENT = "_db_persisted", "api_content"
_THOUGHTS = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_VISIBLE = re.compile(
    r"[^\s\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
# What the built-in puts into every summary itself: the last request, quoted.
_QUOTED = re.compile(r"\A## Historical Task Snapshot\n.*?^Historical only;[^\n]*$", re.DOTALL | re.MULTILINE)


def judge(
    guard: Literal["repair", "record"],
    wording: Wording,
    fell_back: Callable[[], bool] = lambda: False,
    bare: Callable[[Messages], Messages] | None = None,
    wrote: Callable[[], str | None] = lambda: None,
) -> Accept:
    """The function that judges the answers of a hosted engine.

    `fell_back` says whether its latest summary was put together without a model: such a one quotes, and is no echo.
    `bare` is `unmarked`, perhaps one that has done it before: rows that an answer shares with what that returns are
    known without being looked at.  `wrote` is the summary that it has written for its answer, as far as it tells: None
    where it does not, empty where it had none.  Of an answer that had to be mended the verdict's reason says why.
    """
    if guard == "record":
        return _record

    def repair(answer: Messages, before: Messages) -> Verdict:
        before = unmarked(before) if bare is None else bare(before)
        summary = wrote()
        whole = answer if summary is None else summed_up(answer, before, wording, summary)
        if whole is None:
            return Verdict(None, "rows are left out, and nothing sums them up")
        answer, mended = whole, _sent_as_said(unmarked(whole), before)
        changed = Changed.between(mended, before)
        found = _problems(mended, before, changed)
        mended_of = "; ".join(map(str, found[:3]))
        if found:
            mended = _sent_as_said(mend(mended, before, wording), before)
            if not _used(answer, mended):
                return Verdict(None, "nothing of the list could be used" if len(answer) else "the list is empty")
            changed = Changed.between(mended, before)
            found = _problems(mended, before, changed)
        if found:
            return Verdict(None, "; ".join(map(str, found[:3])))
        useless = _useless_summary(mended, before, changed, wording, quotes=fell_back())
        return Verdict(None, useless) if useless else Verdict(mended, mended_of)

    return repair


def _problems(rows: Messages, before: Messages, changed: Changed) -> tuple[Problem, ...]:
    """What is wrong with an answer."""
    report = check_against(rows, before, changed)
    # The built-in says in a system message of the list that there was a compaction; that is meant to be.
    return (
        *report.errors,
        *(fault for fault in report.faults if fault.code != "system_changed" or not _only_added(rows, before)),
    )


def strictly(answer: Messages, before: Messages) -> Verdict:
    """Judge an answer of ours: nothing is mended, and the host's marks are nobody's business."""
    return strict(unmarked(answer), unmarked(before))


def _record(answer: Messages, _before: Messages) -> Verdict:
    return Verdict(answer) if len(answer) else Verdict(None, "the list is empty")


def mend(answer: Messages, before: Messages, wording: Wording) -> Messages:
    """Mend what can be mended of an answer to `before` (both without marks); the same value where nothing has to be."""
    for step in (
        drop_unknown,
        drop_orphans,
        lambda rows: _open_call_kept(rows, before),
        stub_missing,
        lambda rows: _request_kept(rows, before, wording),
        lambda rows: merge_neighbours(rows, before),
        lambda rows: bridge_neighbours(rows, before),
    ):
        answer = step(answer)
    return answer


# -- rows -------------------------------------------------------------------------------------------------------------


def unmarked(rows: Messages) -> Messages:
    """The same rows without the mark of those that are in the host's store already."""
    for row in rows:
        if STORED in row:
            return Messages.of([row.without(STORED) for row in rows])
    return rows


def _sent_as_said(rows: Messages, before: Messages) -> Messages:
    """What is sent instead of a content that has changed goes."""
    sent = [row for row in rows if SENT in row]
    if not sent:
        return rows
    said = [(row[SENT], row.get("content")) for row in before if SENT in row]
    changed = {id(row) for row in sent if (row[SENT], row.get("content")) not in said}
    return Messages.of([row.without(SENT) if id(row) in changed else row for row in rows]) if changed else rows


def _only_added(rows: Messages, before: Messages) -> bool:
    """Whether the system messages are the same ones, with at most something put at their ends."""
    count = system_rows(before)
    return system_rows(rows) == count and all(
        text_of(now).startswith(text_of(was)) for now, was in zip(rows[:count], before[:count], strict=True)
    )


# -- the call that is still open --------------------------------------------------------------------------------------


def _open_call_kept(rows: Messages, before: Messages) -> Messages:
    """A call whose tools still run is at the end, with the results it has and no others."""
    found = groups(before)
    if not found or not found[-1].open:
        return rows
    last = before[found[-1].start : found[-1].stop]
    now = groups(rows)
    kept = next((group for group in reversed(now) if _calls(rows[group.start]) == _calls(last[0])), None)
    if kept is not None and kept.stop == len(rows) and kept.open and kept.missing == found[-1].missing:
        return rows
    before_it = rows if kept is None else rows[: kept.start]
    after_it = Messages() if kept is None else rows[kept.stop :]
    return before_it + after_it + last


def _calls(row: Row) -> Any:
    return [call.get("id") for call in row.get("tool_calls") or () if isinstance(call, dict)]


# -- the request at hand ----------------------------------------------------------------------------------------------


def _request_kept(rows: Messages, before: Messages, wording: Wording) -> Messages:
    """The current user message is there, as it was, as a row of its own."""
    at = current_user(before)
    if at is None:
        return rows
    asked = before[at]
    if any(row.get("role") == "user" and _same(row, asked) for row in rows):
        return rows
    apart = _taken_apart(rows, asked, wording)
    if apart is not None:
        return apart
    after = [_identity(row) for row in before[at + 1 :]]
    place = next((place for place, row in enumerate(rows) if _identity(row) in after), len(rows))
    if place == len(rows) and rows and _is_open(rows):
        place = groups(rows)[-1].start
    return Messages.of([*rows[:place], asked, *rows[place:]])


def _taken_apart(rows: Messages, asked: Row, wording: Wording) -> Messages | None:
    """Where a summary was merged into the request: the summary by itself, then the request."""
    content = asked.get("content")
    for at in range(len(rows) - 1, -1, -1):
        row = rows[at]
        if row.get("role") != "user":
            continue
        summary = wording.merged_summary(text_of(row))
        if summary and isinstance(content, str) and content in text_of(row):
            alone = {"role": "user", "content": summary, "_compressed_summary": True}
            return Messages.of([*rows[:at], alone, asked, *rows[at + 1 :]])
    return None


def _is_open(rows: Messages) -> bool:
    return groups(rows)[-1].open


def _same(row: Row, asked: Row) -> bool:
    return bool(row.get("content") == asked.get("content"))


def _identity(row: Row) -> Any:
    return (row.get("role"), row.get("tool_call_id"), tuple(_calls(row)), row.get("content"))


# -- the summary ------------------------------------------------------------------------------------------------------


def _used(answer: Messages, mended: Messages) -> bool:
    """Whether anything is left that the engine itself has given."""
    given = {_identity(row) for row in unmarked(answer)}
    return any(_identity(row) in given for row in mended)


def _useless_summary(rows: Messages, before: Messages, changed: Changed, wording: Wording, *, quotes: bool) -> str:
    """Why a summary that was put in says nothing; empty where it says something, or there is none."""
    for row in changed.put:
        text = text_of(row)
        if not (is_foreign_summary(row) or wording.merged_summary(text)) or _was_said(text, before):
            continue
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
        stay = {_identity(row) for row in after}
        for row in gone:
            if _identity(row) not in stay and not is_real_user(row) and wording.prefix not in text_of(row):
                yield text_of(row)

    return echoes(body, [text_of(row) for row in gone], texts)
