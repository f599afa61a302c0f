"""Skills: which are whole in context, which were pruned, and what follows for the work that rests on them."""

from .revise import needed, revise
from .scan import Entry, scan

__all__ = ["Entry", "needed", "revise", "scan"]
