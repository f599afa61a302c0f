"""What becomes of a hosted engine's answer.

`record` takes whatever the host would take.  `repair` mends what can be mended and refuses the rest, so that the host
never gets a list that it, a provider or the user would suffer from.  An answer without a problem is the same value
before and after.  Rules of the host beyond those of any transcript: rows go to its store only without the mark of rows
that are stored already, and `api_content` is sent instead of the content, so it must not outlive a change of that.
"""

from __future__ import annotations

from collections.abc import Callable
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
    estimate_tokens,
    groups,
    merge_neighbours,
    stub_missing,
    system_rows,
    text_of,
)

from .shape import unreadable
from .summed import new_summaries, put_in, useless
from .wording import Wording

__all__ = ["STORED", "judge", "mend", "strictly", "unmarked"]

FAR_TOO_LARGE = 10  # times what it was made from
STORED, SENT = "_db_persisted", "api_content"


def judge(
    guard: Literal["repair", "record"],
    wording: Wording,
    fell_back: Callable[[], bool] = lambda: False,
    bare: Callable[[Messages], Messages] | None = None,
    wrote: Callable[[], str | None] = lambda: None,
    between: Callable[[Messages, Messages], Changed] = Changed.between,
) -> Accept:
    """The function that judges the answers of a hosted engine.

    `fell_back` says whether its latest summary was put together without a model: such a one quotes, and is no echo.
    `bare` is `unmarked`, perhaps one that has done it before: rows that an answer shares with what that returns are
    known without being looked at.  `wrote` is the summary that it has written for its answer, as far as it tells: None
    where it does not, empty where it had none.  `between` is `Changed.between`, perhaps of somebody who knows already.
    Of an answer that had to be mended the verdict's reason says why.
    """
    if guard == "record":
        return _record

    def repair(answer: Messages, before: Messages) -> Verdict:
        before = unmarked(before) if bare is None else bare(before)
        answer, summary = unmarked(answer), wrote()
        changed = between(answer, before)
        if odd := unreadable(changed.put, changed.gone):
            return Verdict(None, odd)
        new = new_summaries(changed.put, before, wording)
        whole = answer if new or summary is None else put_in(answer, wording, summary)
        if whole is None:
            return Verdict(None, "rows are left out, and nothing sums them up")
        mended = _sent_as_said(whole, before)
        changed = changed if mended is answer else Changed.between(mended, before)
        found = _problems(mended, before, changed)
        mended_of = "; ".join(map(str, found[:3]))
        if found:
            mended = _sent_as_said(mend(mended, before, wording), before)
            if not _used(whole, mended):
                return Verdict(None, "nothing of the list could be used" if len(whole) else "the list is empty")
            changed = Changed.between(mended, before)
            found = _problems(mended, before, changed)
        if found:
            return Verdict(None, "; ".join(map(str, found[:3])))
        if mended is not answer:
            new = new_summaries(changed.put, before, wording)
        why = useless(new, mended, changed, wording, quotes=fell_back())
        return Verdict(None, why) if why else Verdict(mended, mended_of)

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
    answer, before = unmarked(answer), unmarked(before)
    changed = Changed.between(answer, before)
    odd = unreadable(changed.put, changed.gone)
    return Verdict(None, odd) if odd else strict(answer, before)


def _record(answer: Messages, _before: Messages) -> Verdict:
    return Verdict(answer) if len(answer) else Verdict(None, "the list is empty")


def mend(answer: Messages, before: Messages, wording: Wording) -> Messages:
    """Mend what can be mended of an answer to `before` (both without marks); the same value where nothing has to be."""
    answer = drop_orphans(drop_unknown(answer))
    if len(answer) > len(before) and estimate_tokens(answer) > FAR_TOO_LARGE * estimate_tokens(before):
        return answer  # nothing makes that smaller than what it was made from, and merging very many rows takes long
    for step in (
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
