"""One agent's engine, whole: what the adapter calls.  Tools and status are here; the rest is in what it is built on."""

from __future__ import annotations

import json
import logging
from typing import Any

from .calls import Compressions
from .hosted import Hosted

__all__ = ["Seat"]

log = logging.getLogger(__name__)


class Seat(Compressions):
    """Everything the host can ask of its context engine."""

    def tool_schemas(self) -> list[dict[str, Any]]:
        """The tools of all hosted engines, each name once, in a form that every provider takes."""
        found: dict[str, dict[str, Any]] = {}
        for hosted in self.hosted.values():
            for schema in hosted.cheap("get_tool_schemas", default=()) or ():
                flat = _flat(schema)
                if flat is not None:
                    found.setdefault(flat["name"], flat)
        return list(found.values())

    def handle_tool_call(self, name: str, args: Any, more: dict[str, Any]) -> str:
        """Have the engine whose tool it is answer; always JSON text."""
        owner = self._owner(name)
        if owner is None:
            return json.dumps({"error": f"Unknown context engine tool: {name}"})
        if owner.stuck:
            return json.dumps({"error": f"{owner.kind} is still at work on a compaction; try again later"})
        failed = object()
        answer = owner.cheap("handle_tool_call", name, args if isinstance(args, dict) else {}, default=failed, **more)
        if answer is failed:
            return json.dumps({"error": f"{owner.kind} failed in {name}"})
        return answer if isinstance(answer, str) else json.dumps(answer, default=str)

    def status(self) -> dict[str, Any]:
        """What a user may want to see; no secrets."""
        last = self.read("last_prompt_tokens")
        last = last if type(last) is int and last > 0 else 0
        length = self.budget()[0]
        status: dict[str, Any] = {
            "last_prompt_tokens": last,
            "threshold_tokens": self.read("threshold_tokens"),
            "context_length": length,
            "usage_percent": min(100, last / length * 100) if length else 0,
            "compression_count": self.read("compression_count"),
        }
        hosted = self.in_charge()
        if hosted is not None:
            told = hosted.cheap("get_status", default={})
            if isinstance(told, dict):
                key = hosted.secret()
                status.update(
                    {name: value for name, value in told.items() if name != "api_key" and value != (key or self)}
                )
        status["engines"] = list(self.kinds)
        status["guard"] = "off" if self.alone else self.settings.guard
        return status

    def _owner(self, name: str) -> Hosted | None:
        for hosted in self.hosted.values():
            for schema in hosted.cheap("get_tool_schemas", default=()) or ():
                flat = _flat(schema)
                if flat is not None and flat["name"] == name:
                    return hosted
        return None


def _flat(schema: Any) -> dict[str, Any] | None:
    """`{name, description, parameters}`, whatever wrapping it came in; None for what has no name."""
    if not isinstance(schema, dict):
        return None
    inner = schema["function"] if isinstance(schema.get("function"), dict) else schema
    name = inner.get("name")
    if not isinstance(name, str) or not name:
        return None
    parameters = inner.get("parameters")
    return {
        "name": name,
        "description": str(inner.get("description") or ""),
        "parameters": _plain_types(parameters)
        if isinstance(parameters, dict)
        else {"type": "object", "properties": {}},
    }


def _plain_types(value: Any) -> Any:
    """The same schema with one type each: some providers refuse a whole request for a list of types."""
    if isinstance(value, list):
        return [_plain_types(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = {key: _plain_types(item) for key, item in value.items()}
    kinds = value.get("type")
    if isinstance(kinds, list):
        named = [kind for kind in kinds if kind != "null"]
        if len(named) == 1:
            made["type"] = named[0]
        else:
            del made["type"]
    return made
