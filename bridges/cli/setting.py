"""What is said on the command line about engines and limits, as the settings of a replay."""

from __future__ import annotations

from collections.abc import Sequence

from .errors import BadInput
from .kinds import ALL, KINDS, with_own
from .reckon import budget
from .replay import Settings
from .swaps import check_engine, parse_swap

__all__ = ["settings_of"]


def settings_of(
    context_length: int | None,
    threshold: int | None,
    engines: Sequence[str],
    swaps: Sequence[str],
    option: str = "--engine",
) -> Settings:
    """The options as settings; raises `BadInput`, which calls the option that names engines `option`."""
    for at, name in enumerate(engines):
        check_engine(name, KINDS, option)
        if name in engines[:at]:
            raise BadInput(f"{option}: {name} is given twice; a second instance has a name like {name}#b")
    parsed = tuple(parse_swap(text, KINDS) for text in swaps)
    named = (*engines, *(name for swap in parsed for name in (swap.old, swap.new) if name))
    length, limit = budget(context_length, threshold)
    if limit > length:
        raise BadInput(f"--threshold {limit} is above --context-length {length}; choose one that fits in it")
    return Settings(
        context_length=length,
        threshold=limit,
        engines=tuple(engines) or ALL,
        swaps=parsed,
        kinds=with_own(KINDS, named),
    )
