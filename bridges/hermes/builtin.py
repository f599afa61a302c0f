"""The host's own compressor, made as the host would have made it.

The host gives a plugin engine the window of the model and keeps the rest to itself.  So what it would have told its own
compressor is read here where the host reads it: the block `compression` of the configuration, the thresholds of
particular models, and `model.max_tokens`.  Two things cannot be seen from here, and are as the host has them when
nobody says anything: a `max_tokens` that a program hands to its agent itself, and whether the agent is a quiet one
(which only bears on what the compressor logs).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from .host import auxiliary, compression, resolve_threshold
from .hosted import Hosted, shallow_twin

__all__ = ["KIND", "builtin", "configured", "retune"]

KIND = "builtin"
_YES = {"true", "1", "yes"}

log = logging.getLogger(__name__)


def builtin(config: Mapping[str, Any], told: Mapping[str, Any]) -> Hosted:
    """Host the built-in compressor; `told` are the arguments of the host's `update_model`."""
    return Hosted(KIND, _made(config, told), shallow_twin)


def retune(hosted: Hosted, before: Mapping[str, Any], now: Mapping[str, Any], told: Mapping[str, Any]) -> None:
    """Have a built-in that was made by one configuration be as if by another; what it has read and counted stays.

    A threshold that the host has lowered by hand, for a small summary model, is not raised.
    """
    was, will = vars(_made(before, told)), vars(_made(now, told))
    for name, value in will.items():
        if name in was and value != was[name]:
            live = hosted.get(name, value)
            lowered = name.startswith("threshold_") and live < was[name]
            hosted.set(name, min(value, live) if lowered else value)


def _made(config: Mapping[str, Any], told: Mapping[str, Any]) -> Any:
    model = {name: told.get(name, "") for name in ("model", "base_url", "api_key", "provider", "api_mode")}
    return compression().ContextCompressor(
        **model,
        config_context_length=told.get("context_length"),
        quiet_mode=True,
        summary_model_override=None,
        **configured(config, str(model["model"]), str(model["provider"])),
    )


def configured(config: Mapping[str, Any], model: str, provider: str) -> dict[str, Any]:
    """The settings that the host would have given, by the compressor's names for them."""
    block = _block(config, "compression")
    return {
        "threshold_percent": _threshold(block, model, provider),
        "protect_first_n": max(0, int(block.get("protect_first_n", 3))),
        "protect_last_n": int(block.get("protect_last_n", 20)),
        "summary_target_ratio": float(block.get("target_ratio", 0.20)),
        "abort_on_summary_failure": _yes(block.get("abort_on_summary_failure", False)),
        "max_tokens": _max_tokens(_block(config, "model").get("max_tokens")),
    }


def _threshold(block: Mapping[str, Any], model: str, provider: str) -> float:
    threshold = float(block.get("threshold", 0.50))
    try:
        rules = auxiliary()
        particular = rules._compression_threshold_for_model(
            model, provider, allow_codex_gpt55_autoraise=_yes(block.get("codex_gpt55_autoraise", True))
        )
        raises = rules._is_codex_gpt54_or_gpt55(model, provider) or rules._is_codex_spark(model, provider)
        return resolve_threshold(threshold, particular, model, raises=bool(raises))
    except Exception as error:  # noqa: BLE001 - the host, too, goes on with what the user has set
        log.debug("no particular threshold for %s: %r", model, error)
        return threshold


def _max_tokens(value: Any) -> int | None:
    if value is None or isinstance(value, bool):
        return None
    try:
        number = int(value)
    except (TypeError, ValueError):
        return None
    return number if number > 0 else None


def _yes(value: Any) -> bool:
    return str(value).lower() in _YES


def _block(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    block = config.get(name)
    return block if isinstance(block, Mapping) else {}
