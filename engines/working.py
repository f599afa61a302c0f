"""The fact that an engine is at work in a way that cannot be called off."""

from __future__ import annotations

from attrs import frozen

__all__ = ["Working"]


@frozen
class Working:
    """A call of `engine` for conversation `sid` runs, and may outlive the question it was made for.

    While it stands the engine is not asked about that conversation again.  Published by the engine.
    """

    engine: str
    sid: str
