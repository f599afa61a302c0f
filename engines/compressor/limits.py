"""How much a compaction may keep."""

from __future__ import annotations

from attrs import field, frozen, validators

__all__ = ["Limits"]

_share = [validators.gt(0.0), validators.le(1.0)]


@frozen
class Limits:
    """The budget of one compaction; all sizes are tokens, all shares are of `threshold`.

    `result`: the whole list afterwards.  `tail`: the newest messages, kept word for word.  `summary`: the summary row,
    and never more than `summary_most`.  `worth`: what a compaction must at least save, as a share of the list, to be
    done at all.  `row_chars`: how much of one message is read for the summary (the middle of a longer one is not).
    """

    threshold: int = field(validator=validators.gt(0))
    result: float = field(default=0.4, validator=_share)
    tail: float = field(default=0.15, validator=_share)
    summary: float = field(default=0.25, validator=_share)
    summary_most: int = field(default=12_000, validator=validators.gt(0))
    worth: float = field(default=0.05, validator=[validators.ge(0.0), validators.lt(1.0)])
    row_chars: int = field(default=60_000, validator=validators.ge(1000))
