"""The adapter for Hermes beside the host's own compressor, in the real host's classes.

`compress` with the built-in hosted is held against the built-in called directly, both with a summariser that answers at
once, and one freeze of the messages.  A turn without compaction and what the plugin adds to a command of the host are
told as what they take more.  These are times on the clock: several threads have a part in them.
"""

from __future__ import annotations

import copy
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from engines.messages import Messages
from engines.snapshotter.fit import LIMIT

from .compaction import SUMMARY
from .measure import Row, Slice, Surplus, Times
from .transcripts import CHARACTERS, conversation

__all__ = ["ROWS", "SKIPPED"]

Rows = list[dict[str, Any]]
Observers = tuple[str, ...] | None

SIZES = (60, 250, 1000)
ROUNDS = 15
PER_ROW = 1_120  # characters
TURNS = 600
COMMANDS = 7
HEARD = 0.002  # seconds that a compaction may take more for observers that only hear of it, or leave it as it is
SAVE = 0.040  # seconds that a snapshot may take beyond a synced write of it, the reading of long results among them
READ = 4e-5  # seconds a message that it may take beyond that, to read what is about to be lost
LOOKS = 0.020  # seconds: an observer looks for what earlier conversations have left, when one begins
RESULT = json.dumps({"output": "a line of what a command says\n" * 40, "exit_code": 0, "error": None})


# -- compress ---------------------------------------------------------------------------------------------------------


def _compress(messages: int, *, observers: Observers = ()) -> tuple[Slice, Slice]:
    rows = conversation(messages, max(CHARACTERS, messages * PER_ROW))
    tokens = sum(len(str(row["content"])) for row in rows) // 4
    window = max(64_000, tokens * 5 // 4)
    _anew()

    def ours(_number: int) -> float:
        with _host("builtin", observers=observers):
            engine = _adapter(window)
            if observers != ():
                _begin(engine)
                _written()
            mine = copy.deepcopy(rows)
            _idle()
            start = time.perf_counter()
            done = engine.compress(mine, current_tokens=tokens)
            took = time.perf_counter() - start
            assert done is not mine, "there was nothing to compact"
            engine.awaiting_real_usage_after_compression = True
            del engine  # which ends its conversation
            if observers != ():
                _written()  # or the reference is charged with what is written now
            return took

    def theirs(_number: int) -> float:
        with _host("builtin"):
            engine, mine, same = _builtin(window), copy.deepcopy(rows), copy.deepcopy(rows)
            start = time.perf_counter()
            engine.compress(mine, current_tokens=tokens)
            Messages.of(same)
            return time.perf_counter() - start

    return ours, theirs


def _observed(messages: int, observers: Observers, allowed: float, *, writes: bool = False) -> tuple[Slice, Slice]:
    """A compaction that observers hear of, beside the same without and what is allowed to them, in seconds.

    `writes`: it waits for a file, so a synced write of as much is allowed too.  The summariser answers at once, and
    nothing can be done while it works: it is the most that anybody has to wait.
    """
    with_it, _ = _compress(messages, observers=observers)
    without, _ = _compress(messages)
    data = b"x" * LIMIT if writes else b""

    def ours(number: int) -> float:
        _anew()
        return with_it(number)

    def theirs(number: int) -> float:
        _anew()
        took = without(number)
        if not data:
            return took + allowed
        with tempfile.NamedTemporaryFile(prefix="bench-") as file:
            start = time.perf_counter()
            os.write(file.fileno(), data)
            os.fsync(file.fileno())
            return took + time.perf_counter() - start + allowed

    return ours, theirs


# -- a turn -----------------------------------------------------------------------------------------------------------


def _begin(engine: Any) -> None:
    """The host says that a turn begins, the first of its session."""
    from bridges.hermes.hooks import register_hooks  # noqa: PLC0415 - where the host is there

    hooks: dict[str, Callable[..., Any]] = {}
    register_hooks(SimpleNamespace(register_hook=hooks.__setitem__))
    agent = SimpleNamespace(context_compressor=engine, _current_turn_id="first")
    hooks["pre_llm_call"](session_id="bench", turn_id=agent._current_turn_id, user_message="Go on.", is_first_turn=True)


def _turns(*engines: str, observers: Observers = ()) -> tuple[Callable[[], float], Callable[[], float]]:
    hooks: dict[str, Callable[..., Any]] = {}
    _anew()
    with _host(*engines, observers=observers):
        from bridges.hermes.hooks import register_hooks  # noqa: PLC0415 - where the host is there

        register_hooks(SimpleNamespace(register_hook=hooks.__setitem__))
        ours, theirs = _adapter(200_000), _builtin(200_000)
    _idle()
    return _turn(ours, hooks), _turn(theirs, {})


def _turn(engine: Any, hooks: dict[str, Callable[..., Any]]) -> Callable[[], float]:
    """One turn with a response and a tool call, as the host calls the engine and the hooks."""
    number = 0
    caller = SimpleNamespace(context_compressor=engine, _current_turn_id="")

    def hook(name: str, agent: Any = caller, **told: Any) -> None:  # where the host calls a hook, the agent is at hand
        if name in hooks:
            hooks[name](session_id="bench", turn_id=f"turn-{number}", **told)

    def turn() -> float:
        nonlocal number
        number += 1
        tokens = 20_000 + number
        usage = {"prompt_tokens": tokens, "completion_tokens": 50, "total_tokens": tokens + 50}
        caller._current_turn_id = f"turn-{number}"
        tool = {"tool_name": "terminal", "args": {"command": "ls -l"}, "tool_call_id": f"call-{number}"}
        _idle()  # while the host waits for its model, the other thread has its time
        start = time.perf_counter()
        hook("pre_llm_call", user_message="Go on.", is_first_turn=number == 1)
        engine.update_from_response(usage)
        engine.should_compress(tokens)
        for name in ("context_length", "threshold_tokens", "last_prompt_tokens", "compression_count"):
            getattr(engine, name)
        hook("pre_tool_call", **tool)
        hook("post_tool_call", **tool, result=RESULT, status="ok", duration_ms=12)
        hook("transform_tool_result", **tool, result=RESULT, status="ok", duration_ms=12)
        hook("post_llm_call", assistant_response="Done.")
        hook("on_session_end", completed=True, interrupted=False)
        return time.perf_counter() - start

    return turn


# -- a command of the host --------------------------------------------------------------------------------------------


def _command(code: str) -> tuple[Callable[[], float], Callable[[], float]]:
    return _process(code, ["dataspace"]), _process(code, [])


def _process(code: str, plugins: list[str]) -> Callable[[], float]:
    home = _home(json.dumps({"plugins": {"enabled": plugins}, "context": {"engine": "dataspace"}}))

    def run() -> float:
        start = time.perf_counter()
        subprocess.run(  # noqa: S603 - the code is in this module
            [sys.executable, "-c", code], env={**os.environ, "HERMES_HOME": home}, check=True, capture_output=True
        )
        return time.perf_counter() - start

    return run


LIST = "import sys; from hermes_cli.main import main; sys.argv = ['hermes', 'plugins', 'list']; main()"
DISCOVER = "from hermes_cli.plugins import discover_plugins; discover_plugins(force=True)"


# -- the host ---------------------------------------------------------------------------------------------------------


@cache
def _home(config: str) -> str:
    """A home of the host's with this configuration; gone with the process."""
    home = tempfile.TemporaryDirectory(prefix="bench-home-")
    _homes.append(home)
    Path(home.name, "config.yaml").write_text(config, encoding="utf-8")
    return home.name


_homes: list[Any] = []


@contextmanager
def _host(*engines: str, observers: Observers = ()) -> Iterator[None]:
    """The host's home with these engines configured, and a model that answers at once.

    `observers` run beside them; None: all that do by default.
    """
    block: dict[str, Any] = {"engines": list(engines)}
    if observers is not None:
        block["observers"] = list(observers)
    home = _home(json.dumps({"context": {"engine": "dataspace", "dataspace": block}}))
    message = SimpleNamespace(content=SUMMARY)
    answer = SimpleNamespace(choices=[SimpleNamespace(message=message, finish_reason="stop")], usage=None)
    with mock.patch.dict(os.environ, {"HERMES_HOME": home}):
        from agent import context_compressor  # type: ignore[import-untyped]  # noqa: PLC0415 - reads HERMES_HOME

        with mock.patch.object(context_compressor, "call_llm", return_value=answer):
            yield


@cache
def _prototype() -> Any:
    from bridges.hermes.adapter import engine_class  # noqa: PLC0415 - where the host is there

    return engine_class()()


def _adapter(window: int) -> Any:
    """The adapter of an agent after the host's first calls, its engines serving."""
    engine = copy.deepcopy(_prototype())
    engine.update_model(model="m", context_length=window, base_url="", api_key="", provider="", api_mode="")
    engine.bind_session_state(session_db=None, session_id="bench")
    engine.on_session_start("bench", platform="cli", model="m")
    return engine


def _builtin(window: int) -> Any:
    """The built-in compressor with the settings that the adapter gives it."""
    from bridges.hermes.builtin import builtin  # noqa: PLC0415 - where the host is there

    engine = builtin({}, {"model": "m", "context_length": window}).front
    engine.bind_session_state(None, "bench")
    engine.on_session_start("bench")
    return engine


def _idle() -> None:
    """Wait until the dataspace has done what it was told, and what follows from it."""
    from bridges.hermes.runtime import running  # noqa: PLC0415 - where the host is there

    runtime = running()
    for _ in range(3 if runtime is not None else 0):
        assert runtime is not None
        runtime.ask(lambda _desk: None)


def _written() -> None:
    """Wait until observers have written what was to be written of conversations before."""
    from bridges.hermes.ends import settle  # noqa: PLC0415 - where the host is there

    settle()
    time.sleep(LOOKS)


def _anew() -> None:
    """Begin with nobody at work: observers are there for all conversations once one has wanted them."""
    from bridges.hermes.runtime import running, shut_down  # noqa: PLC0415 - where the host is there

    if running() is not None:
        gc.collect()
        _written()
    shut_down()


def _rows() -> list[Row]:
    compress: list[Row] = [
        Times(
            f"compress in Hermes, {size:,} messages",
            "built-in and a freeze",
            1.2,
            partial(_compress, size),
            rounds=ROUNDS,
        )
        for size in SIZES
    ]
    observed: list[Row] = [
        Times(
            f"the same with skills and telemetry, {size:,} messages",
            f"without + {HEARD * 1e3:.0f} ms",
            1.0,
            partial(_observed, size, ("skills", "telemetry"), HEARD),
            rounds=ROUNDS,
        )
        for size in SIZES
    ]
    kept: list[Row] = [
        Times(
            f"the same with a snapshot, {size:,} messages",
            f"without, a synced write + {(SAVE + size * READ) * 1e3:.0f} ms",
            1.0,
            partial(_observed, size, ("snapshotter",), SAVE + size * READ, writes=True),
            rounds=ROUNDS,
        )
        for size in SIZES
    ]
    both = ("builtin", "compressor")
    return [
        *compress,
        *observed,
        *kept,
        *_of_a_turn("a turn in Hermes, two engines", lambda: _turns(*both)),
        *_of_a_turn("a turn, two engines and all observers", lambda: _turns(*both, observers=None)),
        *_of_a_turn("a turn with the default settings", lambda: _turns("builtin", observers=None)),
        Surplus("hermes plugins list", "without plugin", 1.0, lambda: _command(LIST), allowance=0.060, rounds=COMMANDS),
        Surplus(
            "hermes with plugins loaded",
            "without plugin",
            1.0,
            lambda: _command(DISCOVER),
            allowance=0.150,
            rounds=COMMANDS,
        ),
    ]


def _of_a_turn(name: str, make: Callable[[], tuple[Callable[[], float], Callable[[], float]]]) -> list[Row]:
    return [
        Surplus(name, "built-in", 1.0, make, allowance=100e-6, rounds=TURNS),
        Surplus(f"{name}, 99 of 100", "built-in", 1.0, make, allowance=1e-3, quantile=0.99, rounds=TURNS),
    ]


SKIPPED = "" if find_spec("run_agent") is not None else "Hermes: not measured, hermes-agent is not installed."
"""Why the rows of this module are missing, if they are."""

ROWS: list[Row] = [] if SKIPPED else _rows()
