"""Pure functions over chat messages: what is in them, what belongs together, what is wrong and how to mend it."""

from .check import Code, Problem, Report, check, collides, neighbours, system_rows
from .groups import Group, groups
from .marks import (
    SUMMARY_END,
    SUMMARY_HEAD,
    SUMMARY_KEY,
    SYNTHETIC_KEY,
    bridge,
    current_user,
    is_bridge,
    is_foreign_summary,
    is_real_user,
    is_summary,
    split_summary,
)
from .repair import bridge_neighbours, drop_orphans, drop_unknown, merge_neighbours, stub_missing
from .rows import Call, call_id, calls_of, images_in, own_text, role_of, text_of
from .tokens import IMAGE_TOKENS, estimate_row, estimate_text, estimate_tokens

__all__ = [
    "IMAGE_TOKENS",
    "SUMMARY_END",
    "SUMMARY_HEAD",
    "SUMMARY_KEY",
    "SYNTHETIC_KEY",
    "Call",
    "Code",
    "Group",
    "Problem",
    "Report",
    "bridge",
    "bridge_neighbours",
    "call_id",
    "calls_of",
    "check",
    "collides",
    "current_user",
    "drop_orphans",
    "drop_unknown",
    "estimate_row",
    "estimate_text",
    "estimate_tokens",
    "groups",
    "images_in",
    "is_bridge",
    "is_foreign_summary",
    "is_real_user",
    "is_summary",
    "merge_neighbours",
    "neighbours",
    "own_text",
    "role_of",
    "split_summary",
    "stub_missing",
    "system_rows",
    "text_of",
]
