"""From facts to spans and metrics, by the GenAI conventions of OpenTelemetry.

What they have no name for (compactions) is called `ctx.compaction.*`.  A machine without threads: whoever holds it feeds
it in order, with the time of each fact.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field
from opentelemetry.metrics import Meter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context

from engines import facts as f
from engines.compressor.redact import redact

from .draft import said, spent
from .tools import outcome

__all__ = ["Spans"]

_TOKENS = [4**power for power in range(14)]  # the boundaries that the conventions ask for
_SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
_LONGEST, _SLACK = 100_000, 2_000  # characters of one text; past them secrets are looked for, lest half of one is left
_MOST = 10_000  # spans that are open at a time; the oldest are ended
_PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "claude": "anthropic",
    "gemini": "gcp.gemini",
    "google": "gcp.gemini",
    "kimi": "moonshot_ai",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "xai": "x_ai",
    "grok": "x_ai",
}


@define
class _Turn:
    span: Span
    usage: dict[str, int] = field(factory=dict)


def nanoseconds(at: float) -> int:
    """Seconds since the epoch as spans want them."""
    return round(at * 1e9)


class Spans:
    """Opens and ends spans, and records metrics.  `content` is whether texts, arguments and results go with them."""

    def __init__(self, tracer: Tracer, meter: Meter, *, content: bool = False) -> None:
        self._tracer = tracer
        self._content = content
        self._sessions: dict[str, f.Session] = {}
        self._turns: dict[str, tuple[str, _Turn]] = {}  # the turn that goes on, by conversation
        self._compactions: dict[tuple[str, int], Span] = {}
        self._parents: dict[str, Span] = {}  # of a delegated conversation: the turn that handed it over
        histogram, counter = meter.create_histogram, meter.create_counter
        self._usage = histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Tokens read and written",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self._side = counter(
            "ctx.compaction.side.tokens", "{token}", "Tokens of the provider's own steps beside the answer"
        )
        self._seconds = histogram(
            "ctx.compaction.duration", "s", "Time a compaction took", explicit_bucket_boundaries_advisory=_SECONDS
        )
        self._saved = counter("ctx.compaction.tokens.saved", "{token}", "Tokens taken out of the context")
        self._failures = counter("ctx.compaction.failures", "{compaction}", "Compactions that no engine could do")
        self._lost = counter("ctx.telemetry.dropped", "{event}", "Facts that were dropped before they were exported")

    def appeared(self, fact: Any, at: float, profile: str) -> None:
        """A fact stands, or a message was sent."""
        handler = _HANDLERS.get(type(fact))
        if handler is not None:
            handler(self, fact, nanoseconds(at), profile)

    def vanished(self, fact: Any, at: float) -> None:
        """A fact does not stand any more; a session that is gone has ended."""
        if isinstance(fact, f.Session) and fact.state == "active":
            self._end_session(fact.sid, nanoseconds(at))

    def dropped(self, count: int) -> None:
        """So many facts never came here."""
        self._lost.add(count)

    # -- sessions and turns -------------------------------------------------------------------------------------------

    def _session(self, fact: f.Session, at: int, _profile: str) -> None:
        if fact.state == "ended":
            self._end_session(fact.sid, at)
            return
        self._sessions[fact.sid] = fact
        if fact.parent in self._turns:
            self._parents.setdefault(fact.sid, self._turns[fact.parent][1].span)

    def _end_session(self, sid: str, at: int) -> None:
        self._sessions.pop(sid, None)
        self._parents.pop(sid, None)
        if sid in self._turns:
            self._end_turn(sid, at)
        for key in [key for key in self._compactions if key[0] == sid]:
            self._compactions.pop(key).end(at)

    def _delegated(self, fact: f.Delegated, _at: int, _profile: str) -> None:
        if fact.sid in self._turns:
            self._parents[fact.child] = self._turns[fact.sid][1].span

    def _turn_started(self, fact: f.TurnStarted, at: int, profile: str) -> None:
        if fact.sid in self._turns:  # its end was never said
            self._end_turn(fact.sid, at)
        told = {**self._model(fact.sid), "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": profile}
        told |= {"gen_ai.conversation.id": fact.sid, "ctx.turn.id": fact.turn}
        if self._content and fact.text:
            told["gen_ai.input.messages"] = _message("user", _content(fact.text))
        parent = self._parents.get(fact.sid)
        context = None if parent is None else set_span_in_context(parent)
        span = self._tracer.start_span(f"invoke_agent {profile}", context, SpanKind.INTERNAL, told, start_time=at)
        self._turns[fact.sid] = (fact.turn, _Turn(span))
        if len(self._turns) > _MOST:
            self._end_turn(next(iter(self._turns)), at)

    def _turn_ended(self, fact: f.TurnEnded, at: int, _profile: str) -> None:
        turn, state = self._turns.get(fact.sid, ("", None))
        if state is None or turn != fact.turn:
            return
        if self._content and fact.text:
            state.span.set_attribute("gen_ai.output.messages", _message("assistant", _content(fact.text)))
        if fact.interrupted or not fact.completed:
            _went_wrong(state.span, "interrupted" if fact.interrupted else "incomplete")
        self._end_turn(fact.sid, at)

    def _end_turn(self, sid: str, at: int) -> None:
        _, turn = self._turns.pop(sid)
        turn.span.set_attributes(turn.usage)
        turn.span.end(at)

    # -- what happens in a turn ---------------------------------------------------------------------------------------

    def _read(self, fact: f.Usage, _at: int, profile: str) -> None:
        """Input holds cached input; both are added up for the turn, and recorded one response at a time."""
        told = {**self._model(fact.sid), "gen_ai.operation.name": "chat", "gen_ai.agent.name": profile}
        for kind, tokens in (("input", fact.prompt), ("output", fact.completion)):
            if tokens is not None and not fact.estimated:
                self._usage.record(tokens, {**told, "gen_ai.token.type": kind})
        for kind, tokens in (("input", fact.side_prompt), ("output", fact.side_completion)):
            if tokens:
                self._side.add(tokens, {**told, "gen_ai.token.type": kind})
        if fact.sid in self._turns and not fact.estimated:
            usage = self._turns[fact.sid][1].usage
            for name, tokens in _usage_of(fact).items():
                usage[name] = usage.get(name, 0) + tokens

    def _tool(self, fact: f.ToolCalled, at: int, _profile: str) -> None:
        told: dict[str, Any] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": fact.tool}
        told |= {
            "gen_ai.tool.call.id": fact.call_id,
            "gen_ai.tool.type": "function",
            "gen_ai.conversation.id": fact.sid,
        }
        if self._content:
            told |= {
                "gen_ai.tool.call.arguments": _content(fact.args),
                "gen_ai.tool.call.result": _content(fact.result),
            }
        start = at - nanoseconds(spent(fact.seconds))
        span = self._begin(f"execute_tool {fact.tool}", fact.sid, told, start)
        status = outcome(said(fact.status), said(fact.result))
        if status != "ok":
            _went_wrong(span, status)
        span.end(at)

    def _asked(self, fact: f.Asked, at: int, _profile: str) -> None:
        """The first engine that is asked begins a compaction; who is asked next goes on with it."""
        key = (fact.sid, fact.ask)
        if fact.role != "compressor" or key in self._compactions:
            return
        told: dict[str, Any] = {"ctx.compaction.ask": fact.ask, "ctx.compaction.threshold": fact.threshold}
        told |= {"ctx.compaction.tokens_before": fact.tokens, "gen_ai.conversation.id": fact.sid}
        self._compactions[key] = self._begin("ctx.compaction", fact.sid, told, at)
        if len(self._compactions) > _MOST:
            self._compactions.pop(next(iter(self._compactions))).end(at)

    def _compressed(self, fact: f.Compressed, at: int, profile: str) -> None:
        told: dict[str, Any] = {"ctx.compaction.ask": fact.ask, "gen_ai.conversation.id": fact.sid}
        span = self._compactions.pop((fact.sid, fact.ask), None)
        if span is None:  # nobody was asked that we know of
            span = self._begin("ctx.compaction", fact.sid, told, at - nanoseconds(spent(fact.seconds)))
        told |= {"ctx.compaction.engine": fact.by, "ctx.compaction.tokens_before": fact.tokens_before}
        span.set_attributes({**told, "ctx.compaction.tokens_after": fact.tokens_after})
        span.end(at)
        whose = {"ctx.compaction.engine": fact.by, "gen_ai.agent.name": profile}
        self._seconds.record(spent(fact.seconds), whose)
        self._saved.add(max(0, fact.tokens_before - fact.tokens_after), whose)

    def _compaction_failed(self, fact: f.CompactionFailed, at: int, profile: str) -> None:
        told: dict[str, Any] = {"ctx.compaction.ask": fact.ask, "gen_ai.conversation.id": fact.sid}
        span = self._compactions.pop((fact.sid, fact.ask), None) or self._begin("ctx.compaction", fact.sid, told, at)
        _went_wrong(span, "compaction_failed", _content(fact.reason) if self._content else None)
        span.end(at)
        self._failures.add(1, {"gen_ai.agent.name": profile})

    def _begin(self, name: str, sid: str, told: Mapping[str, Any], at: int) -> Span:
        """A span within the turn that goes on; without one it stands alone."""
        turn = self._turns.get(sid)
        parent = self._parents.get(sid) if turn is None else turn[1].span
        context = None if parent is None else set_span_in_context(parent)
        return self._tracer.start_span(name, context, SpanKind.INTERNAL, told, start_time=at)

    def _model(self, sid: str) -> dict[str, str]:
        session = self._sessions.get(sid)
        if session is None:
            return {}
        provider = _PROVIDERS.get(session.provider.lower(), session.provider)
        told = {"gen_ai.provider.name": provider, "gen_ai.request.model": session.model}
        return {name: value for name, value in told.items() if value}


def _usage_of(fact: f.Usage) -> dict[str, int]:
    told = {
        "gen_ai.usage.input_tokens": fact.prompt,
        "gen_ai.usage.output_tokens": fact.completion,
        "gen_ai.usage.cache_read.input_tokens": fact.cache_read,
        "gen_ai.usage.cache_creation.input_tokens": fact.cache_write,
        "gen_ai.usage.reasoning.output_tokens": fact.reasoning,
    }
    return {name: tokens for name, tokens in told.items() if tokens is not None}


def _content(text: object) -> str:
    """What was said, without secrets and as far as an exporter can carry it."""
    clean = redact(said(text)[: _LONGEST + _SLACK])[:_LONGEST]
    return clean if clean.isascii() else clean.encode("utf-8", "backslashreplace").decode("utf-8")


def _message(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}], ensure_ascii=False)


def _went_wrong(span: Span, kind: str, words: str | None = None) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR, words))


_HANDLERS: dict[type, Callable[..., None]] = {
    f.Session: Spans._session,
    f.Delegated: Spans._delegated,
    f.TurnStarted: Spans._turn_started,
    f.TurnEnded: Spans._turn_ended,
    f.Usage: Spans._read,
    f.ToolCalled: Spans._tool,
    f.Asked: Spans._asked,
    f.Compressed: Spans._compressed,
    f.CompactionFailed: Spans._compaction_failed,
}
