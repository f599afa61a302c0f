"""A dataspace: actors publish facts, observe patterns of facts, and all they hold ends with them.

`Dataspace()` is synchronous and needs no event loop; `open_dataspace()` is the same under trio, where actors may have
tasks.  Three ideas carry everything: facts stand while somebody stands behind them, patterns say what an observer
wants to hear of, lifetimes end what was begun in them.
"""

from ._crash import Crashed
from ._dataspace import Dataspace, Statistics
from ._facet import Facet
from ._handles import Handle
from ._open import open_dataspace
from ._pattern import CAPTURE, Observe, Pattern, literal, where
from ._tasks import Appeared, Heard, Vanished
from ._text import format_pattern, parse_pattern
from ._values import immutable
from .errors import DataspaceError, Stopped

__all__ = [
    "CAPTURE",
    "Appeared",
    "Crashed",
    "Dataspace",
    "DataspaceError",
    "Facet",
    "Handle",
    "Heard",
    "Observe",
    "Pattern",
    "Statistics",
    "Stopped",
    "Vanished",
    "format_pattern",
    "immutable",
    "literal",
    "open_dataspace",
    "parse_pattern",
    "where",
]
