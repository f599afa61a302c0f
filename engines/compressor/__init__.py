"""The compressor: deterministic, needs no model, loses no request."""

from .actor import Summarise, compressor
from .compact import compact, finish
from .limits import Limits
from .plan import Plan, plan_compaction
from .prose import accept_prose, prompt_for

__all__ = [
    "Limits",
    "Plan",
    "Summarise",
    "accept_prose",
    "compact",
    "compressor",
    "finish",
    "plan_compaction",
    "prompt_for",
]
