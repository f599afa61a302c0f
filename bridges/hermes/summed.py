"""What a compaction leaves out has to be summed up in what it gives.

With nothing left to keep at the end, the host's own compressor writes a summary and then has no message to put it before
or into: the rows are gone, and the summary with them.  Its summary still stands in its attributes, so it can be put in
here; where it had none, the answer is of no use.
"""

from __future__ import annotations

from engines.messages import Messages, Row
from engines.transcript import is_foreign_summary, system_rows, text_of

from .wording import Wording

__all__ = ["summed_up"]


def summed_up(answer: Messages, before: Messages, wording: Wording, wrote: str) -> Messages | None:
    """The answer with the summary that was written for it, which `wrote` is; the same value where it is in it.

    None: it is not in it, and there is none (an empty `wrote`).
    """
    known = set(map(id, before))
    if any(_new_summary(row, before, wording) for row in answer if id(row) not in known):
        return answer
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


def _new_summary(row: Row, before: Messages, wording: Wording) -> bool:
    """Whether a row holds a summary that was not there before."""
    text = text_of(row)
    found = is_foreign_summary(row) or bool(wording.merged_summary(text))
    return found and all(text_of(other) != text for other in before)
