"""The run loop's side of a conversation: when a compaction is wanted, whom to ask, and whose answer is taken.

    events --> step(state, event, engines, policy) --> state, messages          view(state) --> facts

`step` is pure; it is all the logic there is.  Three faces show it to the world: `actor.Loop` in a dataspace, with or
without trio; the shim (`engines.ctx_dataspace`); and a host that runs it on its own thread.

`state` what is known · `events` what happens · `policy` what was told once · `pressure` reading usage reports ·
`guards` what is held back · `question` raising and asking · `offer` from answer to commit · `step` the table ·
`view` what follows from a state · `roster` who serves · `mirror`, `attention` and `actor` the
dataspace's side · `alarms` and `timer` when to look again.
"""

from .policy import Engines, Policy, Verdict
from .state import Conversation, begin
from .step import step
from .view import due, view, wake

__all__ = ["Conversation", "Engines", "Policy", "Verdict", "begin", "due", "step", "view", "wake"]
