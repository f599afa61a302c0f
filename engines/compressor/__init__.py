"""The compressor: deterministic, needs no model, loses no request."""

from .compact import compact, finish
from .limits import Limits
from .plan import Plan, plan_compaction

__all__ = ["Limits", "Plan", "compact", "finish", "plan_compaction"]
