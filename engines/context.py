"""The context variables of whoever asks, as something a fact can hold.

A host may keep credentials, its home and its profile in context variables.  Work done for a caller runs in a copy of
the caller's; what they are is nobody else's business, so this shows nothing.
"""

from __future__ import annotations

from contextvars import Context

from dataspace import immutable

__all__ = ["AskerContext"]


@immutable
class AskerContext:
    """Context variables, held and never changed; two are equal only if they are the same."""

    __slots__ = ("_variables",)

    def __init__(self, variables: Context) -> None:
        self._variables = variables.copy()

    @classmethod
    def of(cls, variables: Context | AskerContext | None) -> AskerContext | None:
        """Wrap context variables; what is wrapped already, and None, stay as they are."""
        return cls(variables) if isinstance(variables, Context) else variables

    def copy(self) -> Context:
        """A fresh copy of the variables, to run something in."""
        return self._variables.copy()
