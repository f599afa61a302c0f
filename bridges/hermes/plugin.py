"""What the host loads: `hermes_agent.plugins` has an entry `dataspace` that names this module."""

from __future__ import annotations

from typing import Any

__all__ = ["register"]

_engines: list[Any] = []  # the one engine of this process, once it is made


def register(ctx: Any) -> None:
    """Register the context engine with the host; again is as good as once, and nothing is started."""
    from .adapter import engine_class  # noqa: PLC0415 - the host's base class is there by now

    if not _engines:
        _engines.append(engine_class()())
    ctx.register_context_engine(_engines[0])
    from .snapshots_end import register_descent  # noqa: PLC0415 - the first to hear of ends

    register_descent(ctx)
    from .hooks import register_hooks  # noqa: PLC0415 - together with the above

    register_hooks(ctx)
    from .command import register_command  # noqa: PLC0415 - likewise

    register_command(ctx)
    from .snapshots_command import register_snapshots  # noqa: PLC0415 - likewise

    register_snapshots(ctx)
    from .ends import register_ends  # noqa: PLC0415 - the last to hear of ends

    register_ends(ctx)
