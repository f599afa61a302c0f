"""A chat server on 127.0.0.1 that answers as it is told, for the main model and for the one that writes summaries.

Unlike the scripted server it can refuse a request and report any usage, and it tells summaries from turns by the name
of the model that is asked for.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from attrs import frozen

from tests.hermes.server import CREATED, Call, Reply, _chunks, tokens

__all__ = ["OVERFLOW", "SUMMARY", "Call", "Model", "Refusal", "Say"]

SUMMARY = "## Goal\nRobin wants the parcels counted.\n## Done\nFiles were read and the count stands at {}."
"""What the summary model says; the number counts its summaries."""


@frozen
class Say:
    """An answer of the main model; `prompt` is the usage it reports (None: reckoned; 0: no usage at all)."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    prompt: int | None = None


@frozen
class Refusal:
    """An error instead."""

    status: int
    message: str


OVERFLOW = Refusal(
    400,
    "This model's maximum context length is 64000 tokens. However, your messages resulted in 70000 tokens. Please reduce"
    " the length of the messages.",
)


class Model:
    """Answers while its `with` block runs.

    `turns` and `summaries` hold the requests that came, in order.  `script` is what the main model says; after its end
    it says "done"; what `decide(request)` says comes first.  `summarise(request, number)` is what the other one says.
    """

    def __init__(
        self,
        script: Iterable[Say | Refusal] = (),
        summarise: Callable[[dict[str, Any], int], str | Refusal] = lambda _request, number: SUMMARY.format(number),
        decide: Callable[[dict[str, Any]], Say | None] = lambda _request: None,
    ) -> None:
        self.turns: list[dict[str, Any]] = []
        self.summaries: list[dict[str, Any]] = []
        self.script = iter(script)
        self.summarise = summarise
        self.decide = decide
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

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

    def answer(self, request: dict[str, Any]) -> dict[str, Any] | Refusal:
        """The completion for a request, or the error."""
        with self._lock:
            summary = request.get("model") == "summariser"
            kept = self.summaries if summary else self.turns
            kept.append(request)
            number = len(kept)
            said: Say | Refusal | str = Say("done") if not summary else ""
            if not summary:
                said = self.decide(request) or next(self.script, said)
        if summary:
            said = self.summarise(request, number)
        if isinstance(said, Refusal):
            return said
        if isinstance(said, str):
            said = Say(said)
        reply = Reply(said.text, said.calls)
        message = reply.message(number)
        prompt = tokens([request["messages"], request.get("tools", [])]) if said.prompt is None else said.prompt
        usage = {"prompt_tokens": prompt, "completion_tokens": 20, "total_tokens": prompt + 20}
        return {
            "id": f"chatcmpl-{number:04d}",
            "object": "chat.completion",
            "created": CREATED,
            "model": str(request.get("model")),
            "choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason}],
            "usage": usage if prompt else None,
        }


def _handler(outer: Model) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._json(404, {"error": {"message": "there is nothing here"}})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            if not self.path.endswith("/chat/completions"):
                self._json(404, {"error": {"message": "there is nothing here"}})
                return
            request = json.loads(body)
            said = outer.answer(request)
            if isinstance(said, Refusal):
                self._json(said.status, {"error": {"message": said.message, "type": "invalid_request_error"}})
            elif request.get("stream"):
                self._stream(said)
            else:
                self._json(200, said)

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
            self.end_headers()
            for chunk in _chunks(completion):
                self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            self.wfile.write(b"data: [DONE]\n\n")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name http.server uses
            """Say nothing: what came is kept."""

    return Handler
