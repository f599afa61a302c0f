"""Telemetry: who did what, for which profile."""

from .profile import resolve_profile

__all__ = ["resolve_profile"]
