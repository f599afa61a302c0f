"""One agent's engine, whole: what the adapter calls.  Tools and status are here; the rest is in what it is built on."""

from __future__ import annotations

import json
import logging
from itertools import islice
from typing import Any

from .calls import Compressions
from .hidden import hidden
from .hosted import Hosted
from .observers import wanted

__all__ = ["Seat"]

MOST_TOOLS = 1000
"""So many tools of one engine are looked at."""

log = logging.getLogger(__name__)


class Seat(Compressions):
    """Everything the host can ask of its context engine."""

    def __init__(self, like: Seat | None = None) -> None:
        super().__init__(like)
        self._known_tools: dict[str, list[dict[str, Any]]] = {}

    def tool_schemas(self) -> list[dict[str, Any]]:
        """The tools of all hosted engines and observers, each name once, in a form that every provider takes."""
        found: dict[str, dict[str, Any]] = {}
        theirs = [self._tools(hosted) for hosted in self.hosted.values()]
        if self.made and not self.alone:
            theirs += [one.tools(self.settings) for one in wanted(self.settings.observers)]
        for schema in (schema for schemas in theirs for schema in schemas):
            flat = _flat(schema)
            if flat is not None:
                found.setdefault(flat["name"], flat)
        return list(found.values())

    def handle_tool_call(self, name: str, args: Any, more: dict[str, Any]) -> str:
        """Have the engine whose tool it is answer; always JSON text."""
        owner = self._owner(name)
        if owner is None and self.aides is not None:
            answer = self.aides.handle_tool_call(name, args, more.get("messages"))
            if answer is not None:
                return answer
        if owner is None:
            return json.dumps({"error": f"Unknown context engine tool: {name}"})
        if owner.stuck:
            return json.dumps({"error": f"{owner.kind} is still at work on something else; try again later"})
        failed = json.dumps({"error": f"{owner.kind} failed in {name}"})
        given, seconds = args if isinstance(args, dict) else {}, self.settings.deadline
        return str(owner.cheap("handle_tool_call", name, given, default=failed, shape=_text, seconds=seconds, **more))

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
            told = hosted.cheap(
                "get_status", default={}, shape=lambda said: dict(said) if isinstance(said, dict) else {}
            )
            status.update(hidden(told))
        status["engines"] = list(self.kinds)
        status["observers"] = [] if self.alone else list(self.settings.observers)
        status["guard"] = "off" if self.alone else self.settings.guard
        return status

    def _owner(self, name: str) -> Hosted | None:
        for hosted in self.hosted.values():
            if any(schema["name"] == name for schema in self._tools(hosted)):
                return hosted
        return None

    def _tools(self, hosted: Hosted) -> list[dict[str, Any]]:
        """Its tools; while it is stuck those that it had."""
        said = hosted.cheap("get_tool_schemas", default=None, shape=_flattened)
        if said is not None:
            self._known_tools[hosted.kind] = said
        return self._known_tools.get(hosted.kind, [])


def _text(answer: Any) -> str:
    return answer if type(answer) is str else json.dumps(answer, default=str)


def _flattened(schemas: Any) -> list[dict[str, Any]]:
    flat = [_flat(schema) for schema in islice(schemas or (), MOST_TOOLS)]
    return [schema for schema in flat if schema is not None]


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
