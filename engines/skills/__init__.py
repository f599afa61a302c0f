"""Skills: which are whole in context, which were pruned, and what follows for the work that rests on them.

`scan` and `revise` are pure functions over message lists.  `step` is the state machine of one conversation's skills: it
decides which load brings a text and which tool has to wait.  `Book` keeps those states for any thread, and `skills` is
the engine that shows them as facts and revises compactions.
"""

from .actor import skills
from .book import Book
from .collapse import collapsed
from .deliver import delivered
from .entries import Entry
from .ledger import Ledger, rows_of, view
from .policy import LOOKING, SkillPolicy
from .revise import revise
from .scan import scan
from .step import Stepped, step

__all__ = [
    "LOOKING",
    "Book",
    "Entry",
    "Ledger",
    "SkillPolicy",
    "Stepped",
    "collapsed",
    "delivered",
    "revise",
    "rows_of",
    "scan",
    "skills",
    "step",
    "view",
]
