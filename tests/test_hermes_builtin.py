"""The built-in compressor, hosted: configured as the host would have done, and kept apart from one session to the next."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bridges.hermes import place, third
from bridges.hermes.builtin import builtin, configured
from bridges.hermes.fields import FIELDS
from bridges.hermes.third import EngineNotFoundError, third_party
from engines import facts as f
from tests.bisim.hermes_summary import SummaryModel
from tests.hermes_adapter.desk import FAKE, Engines, commit, conversation, facts
from tests.hermes_adapter.fakes import Fake
from tests.hermes_adapter.fixtures import engines

__all__ = ["engines"]

pytestmark = pytest.mark.hermes

CONFIGURATIONS: list[dict[str, Any]] = [
    {},
    {"compression": {"threshold": 0.8, "target_ratio": 0.3, "protect_last_n": 12, "protect_first_n": 0}},
    {"compression": {"threshold": "0.9", "protect_first_n": -2, "abort_on_summary_failure": "yes"}},
    {"compression": {"threshold": 0.6}, "model": {"max_tokens": 16_000}},
    {"compression": None, "model": {"max_tokens": "no number"}},
]
NAMES = (
    *("threshold_percent", "_configured_threshold_percent", "threshold_tokens", "protect_first_n", "protect_last_n"),
    *("summary_target_ratio", "tail_token_budget", "max_summary_tokens", "max_tokens", "abort_on_summary_failure"),
    *("context_length", "model", "provider", "base_url", "api_mode", "summary_model"),
)

AGENT = """
import json, sys
from run_agent import AIAgent
made = []
for model, provider in (("scripted", "custom"), ("gpt-5.5", "openai-codex")):
    agent = AIAgent(base_url="http://127.0.0.1:9/v1", api_key="k", provider=provider, model=model, quiet_mode=True,
                    api_mode="chat_completions", skip_memory=True, skip_context_files=True, enabled_toolsets=["file"])
    engine = agent.context_compressor
    made.append([engine.name, model, provider, {name: getattr(engine, name) for name in %r}])
print("MADE " + json.dumps(made))
"""


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGURATIONS)
def test_configured_as_the_host_would(tmp_path: Path, config: dict[str, Any]) -> None:
    """What a real agent makes of a configuration is what is made here, setting by setting."""
    home = tmp_path / ".hermes"
    home.mkdir()
    model = {**(config.get("model") or {}), "context_length": 300_000}
    whole = {**config, "model": model, "agent": {"environment_probe": False}}
    (home / "config.yaml").write_text(json.dumps(whole), encoding="utf-8")
    environ = {"HOME": str(tmp_path), "HERMES_HOME": str(home), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [sys.executable, "-c", AGENT % (NAMES,)],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    line = next((line for line in done.stdout.splitlines() if line.startswith("MADE ")), None)
    assert line is not None, done.stderr[-2000:]
    for name, slug, provider, theirs in json.loads(line.removeprefix("MADE ")):
        told = {
            "model": slug,
            "provider": provider,
            "base_url": theirs["base_url"],
            "api_mode": theirs["api_mode"],
            "api_key": "k",
            "context_length": theirs["context_length"],
        }
        ours = builtin(whole, told).front
        assert "compressor" == name
        assert theirs == {name: getattr(ours, name) for name in NAMES}


def test_a_model_with_a_rule_of_its_own() -> None:
    """The thresholds that the host has for particular models count here too, and the user's opt-out does."""
    assert 0.85 == configured({}, "gpt-5.5", "openai-codex")["threshold_percent"]
    opted_out = {"compression": {"codex_gpt55_autoraise": False}}
    assert 0.5 == configured(opted_out, "gpt-5.5", "openai-codex")["threshold_percent"]
    assert 0.9 == configured({"compression": {"threshold": 0.9}}, "gpt-5.5", "openai-codex")["threshold_percent"]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> SummaryModel:
    """What the built-in asks for summaries."""
    from agent import context_compressor

    made = SummaryModel()
    monkeypatch.setattr(context_compressor, "call_llm", made)
    return made


def compacted(engine: Any, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One compaction, taken over."""
    engine.update_from_response({"prompt_tokens": 60_000})
    assert engine.should_compress(60_000)
    done: list[dict[str, Any]] = engine.compress(rows, current_tokens=60_000)
    assert done is not rows
    commit(engine)
    return done


def test_nothing_of_a_session_gets_into_the_next(engines: Engines, model: SummaryModel) -> None:
    """B15, B16: after /new, after an end and another start, and for another agent, no prompt holds what was summed up."""
    engine = engines.started("builtin", window=64_000)
    rows = conversation(40, 3000)
    rows[0]["content"] = "ALPHA is the word."
    compacted(engine, rows)
    assert engine._previous_summary
    engine.on_session_end("s1", rows)
    engine.on_session_reset()
    engine.bind_session_state(None, "s2")
    model.prompts.clear()
    compacted(engine, conversation(40, 3000))
    engine.on_session_end("s2", [])
    engine.on_session_start("live")
    compacted(engine, conversation(41, 3000))
    assert 2 == len(model.prompts)
    assert not any("ALPHA" in prompt or "PREVIOUS SUMMARY" in prompt for prompt in model.prompts)


class Dictated(SummaryModel):
    """A summary model that says what it is told to say."""

    says = ""

    def __call__(self, **told: Any) -> Any:
        response = super().__call__(**told)
        response.choices[0].message.content = self.says
        return response


def test_a_session_that_is_resumed_has_its_summary(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """B16: between its two compactions another session has used the engine; the second goes on from its own first."""
    from agent import context_compressor

    model = Dictated()
    monkeypatch.setattr(context_compressor, "call_llm", model)
    engine = engines.started("builtin", window=64_000)
    model.says = "## Goal\nALPHA is the word."
    first = compacted(engine, conversation(40, 3000))
    engine.on_session_end("s1", first)
    engine.on_session_start("live")
    model.says = "## Goal\nBETA is the word."
    compacted(engine, conversation(41, 3000))
    engine.on_session_end("live", [])
    engine.on_session_start("s1")
    model.prompts.clear()
    compacted(engine, [*first, *conversation(40, 3000)[1:]])
    (prompt,) = model.prompts
    assert "ALPHA" in prompt
    assert "BETA" not in prompt


@pytest.mark.parametrize("kind", ["builtin", "compressor"])
def test_an_end_leaves_what_a_reset_leaves(engines: Engines, model: SummaryModel, kind: str) -> None:
    """B16: field by field, a session that begins after an end is as one that begins after a reset."""
    after: list[dict[str, Any]] = []
    for reset in (False, True):
        engine = engines.started(kind, window=64_000)
        compacted(engine, conversation(60, 9000))
        engine.update_from_response({"prompt_tokens": 30_000, "completion_tokens": 7, "total_tokens": 30_007})
        engine.on_session_end("s1", [])
        if reset:
            engine.on_session_reset()
        engine.on_session_start("live")
        # The built-in keeps its count and its latest reading at an end, in the host as here.
        kept = (
            {"compression_count", *(name for name in FIELDS if name.startswith("last_"))}
            if kind == "builtin"
            else set()
        )
        after.append({name: getattr(engine, name) for name in FIELDS if name not in kept})
        assert [] == facts(f.Usage, engine) + facts(f.Compressed, engine) + facts(f.Blocked, engine)
    assert after[0] == after[1]


def test_a_cooldown_ends_with_its_session(engines: Engines, model: SummaryModel) -> None:
    """B17: a failed summary pauses this session; the next one compacts at once."""
    model.mood = "no network"
    engine = engines.started("builtin", window=64_000)
    rows = conversation(40, 3000)
    engine.update_from_response({"prompt_tokens": 60_000})
    assert rows is engine.compress(rows, current_tokens=60_000)
    assert engine._last_compress_aborted
    assert engine.get_active_compression_failure_cooldown()["remaining_seconds"] > 1
    assert not engine.should_compress(60_000)
    engine.on_session_reset()
    model.mood = "good"
    compacted(engine, conversation(40, 3000))


def test_what_was_dropped_leaves_no_summary_behind(engines: Engines, model: SummaryModel) -> None:
    """An offer the host does not take: the built-in's memory of it is gone, counters included."""
    engine = engines.started("builtin", window=64_000)
    engine.update_from_response({"prompt_tokens": 60_000})
    engine.compress(conversation(40, 3000), current_tokens=60_000)
    assert (1, True) == (engine.compression_count, bool(engine._previous_summary))
    engine.update_from_response({"prompt_tokens": 61_000})
    assert (0, None, 61_000) == (engine.compression_count, engine._previous_summary, engine.last_prompt_tokens)


def test_a_compaction_by_hand_is_no_strike(engines: Engines, model: SummaryModel) -> None:
    """One that finds nothing to do, and one that does not get below the threshold."""
    engine = engines.started("builtin", window=64_000)
    rows = conversation(1, 10)
    assert rows is engine.compress(rows, force=True)
    assert 0 == engine._ineffective_compression_count
    engine.compress(conversation(40, 3000), force=True)
    commit(engine)
    engine.record_completed_compaction(used_fallback=False)
    engine.update_from_response({"prompt_tokens": 62_000})
    assert 0 == engine._ineffective_compression_count


def test_a_child_has_a_budget_before_its_own_model(engines: Engines) -> None:
    """A copy shows its parent's window until the host has told it its own (B06)."""
    import copy

    parent = engines.started("builtin", window=64_000)
    child = copy.deepcopy(parent)
    assert (64_000, 54_400) == (child.context_length, child.threshold_tokens)
    child.update_model(model="m", context_length=200_000)
    assert (64_000, 54_400, 150_000) == (parent.context_length, parent.threshold_tokens, child.threshold_tokens)


# -- engines of others ------------------------------------------------------------------------------------------------


def test_an_engine_by_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found in the home's plugins, loaded once, hooks handed on to the host; a copy that fails is made anew."""
    place = tmp_path / "plugins" / "mine"
    place.mkdir(parents=True)
    (place / "__init__.py").write_text(
        "import threading\n"
        "class Engine:\n"
        "    def __init__(self):\n"
        "        self.lock = threading.Lock()\n"
        "def register(ctx):\n"
        "    ctx.register_hook('on_session_end', print)\n"
        "    ctx.something_new(1)\n"
        "    ctx.register_context_engine(Engine())\n",
        encoding="utf-8",
    )
    hooks: list[str] = []

    class Host:
        def register_hook(self, name: str, _hook: Any) -> None:
            hooks.append(name)

    monkeypatch.setattr(third, "home", lambda: tmp_path)
    monkeypatch.setattr(third, "host_context", [Host()])
    monkeypatch.setattr(third, "_prototypes", {})
    one, other = third_party("mine", 5.0).front, third_party("mine", 5.0).front
    assert one is not other
    assert one.lock is not other.lock
    assert {"on_session_end"} == set(hooks)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("def register(ctx): pass\n", "registered no context engine"),
        ("def register(ctx): 1 / 0\n", "failed to register: ZeroDivisionError"),
        ("1 / 0\n", "cannot be loaded: ZeroDivisionError"),
    ],
)
def test_a_plugin_without_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, why: str) -> None:
    """One error that says what is wrong."""
    place = tmp_path / "plugins" / "theirs"
    place.mkdir(parents=True)
    (place / "__init__.py").write_text(source, encoding="utf-8")
    monkeypatch.setattr(third, "home", lambda: tmp_path)
    monkeypatch.setattr(third, "_prototypes", {})
    with pytest.raises(EngineNotFoundError, match=why):
        third_party("theirs", 5.0)


def test_a_name_that_is_a_path_is_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What leads out of the plugins' directory is not followed."""
    (tmp_path / "__init__.py").write_text("raise SystemExit\n", encoding="utf-8")
    monkeypatch.setattr(third, "home", lambda: tmp_path)
    for name in ("..", "../..", "a/b"):
        with pytest.raises(EngineNotFoundError):
            third_party(name, 5.0)


def test_all_engines_missing(engines: Engines, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing that is configured can be had: the built-in stands in, and it is said."""
    caplog.set_level(logging.WARNING)
    engine = engines.started("nowhere", "tests.hermes_adapter.fakes:Missing", window=64_000)
    assert ("builtin",) == engine.seat.kinds
    assert "builtin stands in" in caplog.text


def test_an_engine_that_fails_to_be_made(
    engines: Engines, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The next one stands in, and what is logged holds no key."""

    def broken(*_args: Any) -> Any:
        raise ValueError("no model for sk-secret-1234")

    monkeypatch.setattr(place.host_compressor, "builtin", broken)
    engine = engines.started("builtin")
    assert ("compressor",) == engine.seat.kinds
    assert "ValueError: no model for [redacted]" in caplog.text
    assert "sk-secret" not in caplog.text


def test_each_agent_has_an_engine_of_its_own(engines: Engines) -> None:
    """Two agents, two instances."""
    one, other = engines.started(FAKE), engines.started(FAKE, session="s2")
    one.update_from_response({"prompt_tokens": 5})
    assert (5, 0) == (one.last_prompt_tokens, other.last_prompt_tokens)
    assert 2 == len(Fake.made)
