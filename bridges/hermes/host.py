"""The host's own modules, where it is there.  What is taken from it is named here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = [
    "auxiliary",
    "base_class",
    "compression",
    "config_path",
    "home",
    "load_config",
    "redact",
    "resolve_threshold",
]


def base_class() -> type[Any]:
    """The abstract class that the host wants its context engines to be of."""
    found: type[Any] = import_module("agent.context_engine").ContextEngine
    return found


def compression() -> Any:
    """The module of the built-in compressor."""
    return import_module("agent.context_compressor")


def auxiliary() -> Any:
    """The module with the rules for particular models."""
    return import_module("agent.auxiliary_client")


def resolve_threshold(threshold: float, particular: float | None, model: str, *, raises: bool) -> float:
    """The user's threshold together with that of a particular model, as the host combines them."""
    resolve = import_module("agent.agent_init")._resolve_compression_threshold
    return float(resolve(threshold, particular, model=model, is_codex_autoraise=raises)[0])


def load_config() -> Mapping[str, Any]:
    """The configuration of the home that is current on this thread; it must not be changed."""
    config = import_module("hermes_cli.config").load_config_readonly()
    return config if isinstance(config, Mapping) else {}


def config_path() -> Path:
    """The file of that configuration, whether it exists or not."""
    return Path(import_module("hermes_cli.config").get_config_path())


def home() -> Path:
    """The home that is current on this thread."""
    return Path(import_module("hermes_constants").get_hermes_home())


def redact(text: str) -> str:
    """The text without what the host takes for a secret, whatever its user has set for his own logs."""
    found: str = import_module("agent.redact").redact_sensitive_text(text, force=True, redact_url_credentials=True)
    return found
