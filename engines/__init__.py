"""Context engines and the run loop they serve.

The vocabulary is in `engines.facts`, the loop in `engines.loop`, what plugs engines in and out in `engines.supervisor`
and `engines.swap` (those two need trio, so they are imported from there).
"""

from .engine import serve
from .loop import Policy
from .loop.actor import Loop
from .messages import Messages
from .shim import ctx_dataspace, observe, un_observe

__all__ = ["Loop", "Messages", "Policy", "ctx_dataspace", "observe", "serve", "un_observe"]
