"""A scripted, OpenAI-compatible chat server on 127.0.0.1: what the real host talks to in tests and recordings.

It answers `POST …/chat/completions`, streamed or not as the request asks, with the replies of a script, one after the
other; anything else is a 404, as the host's probes expect of a plain server.  `usage` is reckoned from the request that
came in, a token for four characters.  Every chat request is kept.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from attrs import frozen

__all__ = ["Call", "Reply", "ScriptedServer", "tokens"]

MODEL = "scripted"
CREATED = 1_750_000_000  # any moment will do, as long as it is always the same


@frozen
class Call:
    """A tool call in a reply; `args` is plain JSON."""

    tool: str
    args: dict[str, Any]


@frozen
class Reply:
    """What the model says: text, tool calls, or both."""

    text: str = ""
    calls: tuple[Call, ...] = ()

    def message(self, number: int) -> dict[str, Any]:
        """The reply as a chat-completions message; `number` makes the ids of its calls."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{number:04d}_{place}",
                    "type": "function",
                    "function": {"name": call.tool, "arguments": json.dumps(call.args)},
                }
                for place, call in enumerate(self.calls)
            ]
        return message

    @property
    def finish_reason(self) -> str:
        """Why the model stopped, in the provider's words."""
        return "tool_calls" if self.calls else "stop"


def tokens(value: Any) -> int:
    """An estimate that everybody can check: a token for four characters of compact JSON, rounded up."""
    return -(-len(json.dumps(value, ensure_ascii=False, separators=(",", ":"))) // 4)


class ScriptedServer:
    """Serves a script while its `with` block runs.

    `neutral` is applied to the text of each request before anything looks at it; a recorder takes the paths of its machine
    out there, so that neither `requests` nor `usage` depends on them.  Handlers run in threads; `requests` and `usages`
    are appended under a lock, in the order in which replies were given out.
    """

    def __init__(self, replies: Iterable[Reply], neutral: Callable[[str], str] = str) -> None:
        self.requests: list[dict[str, Any]] = []
        self.usages: list[dict[str, int]] = []
        self._replies: Iterator[Reply] = iter(replies)
        self._neutral = neutral
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), name="scripted-server")

    @property
    def url(self) -> str:
        """The base URL to configure in the host."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def answer(self, body: str) -> dict[str, Any] | None:
        """Take the next reply for a request: a whole completion, or None where the script has ended."""
        with self._lock:
            request = json.loads(self._neutral(body))
            self.requests.append(request)
            reply = next(self._replies, None)
            if reply is None:
                return None
            number = len(self.requests)
            message = reply.message(number)
            prompt, completion = tokens([request["messages"], request.get("tools", [])]), tokens(message)
            usage = {
                "prompt_tokens": prompt,
                "completion_tokens": completion,
                "total_tokens": prompt + completion,
            }
            self.usages.append(usage)
        return {
            "id": f"chatcmpl-{number:04d}",
            "object": "chat.completion",
            "created": CREATED,
            "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason}],
            "usage": usage,
        }

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._json(404, _error("there is nothing here"))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                if not self.path.endswith("/chat/completions"):
                    self._json(404, _error("there is nothing here"))
                    return
                completion = outer.answer(body)
                if completion is None:
                    self._json(400, _error(f"the script has no reply for request {len(outer.requests)}"))
                elif json.loads(body).get("stream"):
                    self._stream(completion)
                else:
                    self._json(200, completion)

            def _json(self, status: int, value: dict[str, Any]) -> None:
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def _stream(self, completion: dict[str, Any]) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()  # HTTP/1.0: the body ends with the connection
                for chunk in _chunks(completion):
                    self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
                self.wfile.write(b"data: [DONE]\n\n")

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name http.server uses
                """Say nothing: `requests` is the record."""

        return Handler


def _chunks(completion: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A whole completion as the pieces a streaming provider sends: text, each call, the end, the usage."""
    head = {key: completion[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    (choice,) = completion["choices"]
    message = choice["message"]

    def piece(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield piece({"role": "assistant", "content": message["content"]})
    for place, call in enumerate(message.get("tool_calls", ())):
        yield piece({"tool_calls": [{"index": place} | call]})
    yield piece({}, choice["finish_reason"])
    yield head | {"choices": [], "usage": completion["usage"]}


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error"}}
