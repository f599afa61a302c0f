"""Sessions made to measure, engines that behave in a chosen way, and a replay of the one through the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import trio
from attrs import frozen

from bridges.cli.errors import BadInput
from bridges.cli.moments import Moment
from bridges.cli.replay import End, Replay, Settings
from bridges.cli.session import Session, parse_session
from bridges.cli.story import Story, watching
from bridges.cli.swaps import parse_swap
from dataspace import Facet, open_dataspace, where
from engines.engine import serve
from engines.facts import Asked
from engines.messages import Messages
from engines.transcript import current_user, system_rows


def turn(at: int, size: int = 400) -> list[dict[str, Any]]:
    """One request, a tool call with a result of about `size` characters, and a reply."""
    call = {"id": f"call_{at}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return [
        {"role": "user", "content": f"request {at}"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{at}", "content": "x" * size},
        {"role": "assistant", "content": f"reply {at}"},
    ]


def rows(turns: int, size: int = 400) -> list[dict[str, Any]]:
    """A conversation: a system message, then turns of four rows; the estimate grows by about `size` / 4 a turn."""
    return [{"role": "system", "content": "You are an agent."}, *(row for at in range(turns) for row in turn(at, size))]


def jsonl(messages: Iterable[Any]) -> bytes:
    """Rows as the bytes of a session file."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in messages)


def session(messages: Iterable[Any]) -> Session:
    """Rows as a session that has been read."""
    return parse_session(jsonl(messages), file="test.jsonl", name="test")


def attempt(fn: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """What `fn` returns, or the `BadInput` that it raises."""
    try:
        return fn(*args, **named)
    except BadInput as error:
        return error


# -- engines ----------------------------------------------------------------------------------------------------------


def shortened(asked: Asked) -> Messages:
    """What is left without all that stands between the system message and the current request."""
    messages: Messages = asked.messages
    return messages[: system_rows(messages)] + messages[current_user(messages) :]


def keeper(me: Facet) -> None:
    """An engine that does its work."""
    serve(me, lambda _me, asked: shortened(asked))


def decliner(me: Facet) -> None:
    """An engine that finds nothing worth doing."""
    serve(me, lambda _me, _asked: None)


def hanger(me: Facet) -> None:
    """An engine that never answers."""

    async def work(_me: Facet, _asked: Asked) -> None:
        await trio.sleep_forever()

    serve(me, work)


def crasher(times: int) -> Callable[[], Callable[[Facet], None]]:
    """A kind of engine that crashes when it is asked, the first `times` times."""
    left = [times]

    def boot(me: Facet) -> None:
        def fall(_asked: Asked) -> None:
            if left[0]:
                left[0] -= 1
                raise RuntimeError("it fell")

        me.observe(where(Asked, to=me.name), appeared=fall)
        keeper(me)

    return lambda: boot


def stillborn(_me: Facet) -> None:
    """An engine that does not come up."""
    raise RuntimeError("no licence")


def idler(me: Facet) -> None:
    """An actor that lives and never serves."""
    me.observe(Asked, appeared=lambda _asked: None)


KINDS: dict[str, Callable[[], Callable[[Facet], None]]] = {
    "keeper": lambda: keeper,
    "decliner": lambda: decliner,
    "hanger": lambda: hanger,
    "stillborn": lambda: stillborn,
    "idler": lambda: idler,
}


# -- replaying --------------------------------------------------------------------------------------------------------


@frozen
class Replayed:
    """How it went."""

    story: Story
    end: End
    moments: list[Moment]

    def events(self, *events: str) -> list[str]:
        """What happened, as `event line particulars`, of these kinds only."""
        return [f"{m.event} {m.line} {m.get('engine') or m.get('by') or m.get('ask') or m.get('note') or ''}".strip()
                for m in self.moments if m.event in events]  # fmt: skip


async def replayed(
    messages: Iterable[Any] | Session,
    *swaps: str,
    engines: tuple[str, ...] = ("keeper",),
    threshold: int = 300,
    kinds: dict[str, Any] | None = None,
    **more: Any,
) -> Replayed:
    """Replay rows with engines of `KINDS` (and `kinds`), watched."""
    known = {**KINDS, **(kinds or {})}
    settings = Settings(
        context_length=100_000,
        threshold=threshold,
        engines=engines,
        swaps=tuple(parse_swap(text, known) for text in swaps),
        kinds=known,
        **more,
    )
    ticks = iter(range(1_000_000))
    story, moments = Story(lambda: float(next(ticks))), list[Moment]()
    async with open_dataspace(on_crash=lambda _crash, _error: None) as ds:
        watcher = await ds.spawn(watching(story, moments.extend), name="watcher")
        read = messages if isinstance(messages, Session) else session(messages)
        end = await Replay(ds, read, settings).run()
        await watcher.stop()
    return Replayed(story, end, moments)
