"""Records a session of the real Hermes agent: `python -m tests.hermes.record [--short] [--out FILE]`.

    script ──▶ ScriptedServer ◀── HTTP, 127.0.0.1 ──▶ tests/hermes/host.py ──▶ the agent's own tools ──▶ a git repository
                                                             │
    rows with usage, neutral paths ◀── its messages ─────────┘

Everything lies in a temporary directory: HOME, HERMES_HOME with configuration and skills, the project.  The agent gets an
environment of its own, so nothing of the user's home, keys or proxies is read; its process can reach loopback only.
What depends on machine and moment (paths, durations, dates of commits) is fixed or made neutral, before `usage` is reckoned.
The same releases of Python, host and pytest give the same bytes.  Compaction is off: a recording is the whole conversation.  The first row is a short system message of our own; the one
that the host sent, some 2,000 tokens, and the tools, some 4,000, count in `usage` all the same, as a provider would count them.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.hermes.script import SESSION, SHORT, Turn
from tests.hermes.server import ScriptedServer

__all__ = ["record", "write"]

HERE = Path(__file__).resolve().parent
OUT = HERE.parent.parent / "bridges" / "cli" / "demo.jsonl"
SYSTEM = "You are a coding agent. You work in a git repository with terminal, file and skill tools."
COMMIT_DATE = "2025-03-14T09:00:00+00:00"
CONTEXT = 400_000  # more than any recording, so that the host sees no reason to compact
TIMEOUT = 300  # seconds for a whole session


def record(session: Sequence[Turn]) -> list[dict[str, Any]]:
    """The rows of a session: what was said, called and answered, assistant rows with `usage`."""
    replies = [reply for turn in session for reply in turn.replies]
    with tempfile.TemporaryDirectory(prefix="hermes-recording-") as directory:
        root = Path(directory).resolve()
        neutral = neutraliser(root)
        environment = lay_out(root)
        with ScriptedServer(replies, neutral) as server:
            configure(root, server.url)
            job = {
                "requests": [turn.request for turn in session],
                "base_url": server.url,
                "out": str(root / "out.json"),
            }
            (root / "job.json").write_text(json.dumps(job), encoding="utf-8")
            done = subprocess.run(
                [sys.executable, str(HERE / "host.py"), str(root / "job.json")],
                cwd=root / "repo",
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
                check=False,
            )
        if done.returncode:
            raise RuntimeError(f"the agent ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        if len(server.usages) != len(replies):
            raise RuntimeError(
                f"the agent took {len(server.usages)} of {len(replies)} replies; the script does not fit it"
            )
        messages = json.loads(neutral((root / "out.json").read_text(encoding="utf-8")))
    return [{"role": "system", "content": SYSTEM}, *rows(messages, server.usages)]


def rows(messages: Iterable[dict[str, Any]], usages: Iterable[dict[str, int]]) -> Iterable[dict[str, Any]]:
    """The host's messages in plain chat-completions form, its private keys left out, each reply with its usage."""
    remaining = iter(usages)
    for message in messages:
        row: dict[str, Any] = {key: message[key] for key in ("role", "tool_call_id", "content") if key in message}
        if message["role"] == "assistant":
            if message.get("tool_calls"):
                row["tool_calls"] = [
                    {key: call[key] for key in ("id", "type", "function")} for call in message["tool_calls"]
                ]
            row["usage"] = next(remaining)
        yield row


def write(session: Iterable[dict[str, Any]], path: Path) -> None:
    """One row a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in session), encoding="utf-8")


# -- the world the agent works in -------------------------------------------------------------------------------------


def lay_out(root: Path) -> dict[str, str]:
    """Make home, project and a `python`; the environment to work in them."""
    home, repo, tools = root / "home", root / "repo", root / "bin"
    shutil.copytree(HERE / "skills", home / ".hermes" / "skills" / "team")
    shutil.copytree(HERE / "project", repo, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    (repo / "data").mkdir()  # made by the project's tools, so the checkout has none
    tools.mkdir()
    python = tools / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    steady = {
        "GIT_AUTHOR_DATE": COMMIT_DATE,
        "GIT_COMMITTER_DATE": COMMIT_DATE,
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TZ": "UTC",
    }
    environment = steady | {
        "HOME": str(home),
        "HERMES_HOME": str(home / ".hermes"),
        "PATH": f"{tools}:/usr/local/bin:/usr/bin:/bin",
        "TMPDIR": str(root),
    }
    # The agent's terminal is a login shell, which sets PATH anew.
    exports = [f'export {name}="{value}"\n' for name, value in steady.items()]
    (home / ".profile").write_text("".join([*exports, f'export PATH="{tools}:$PATH"\n']), encoding="utf-8")
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Robin Example\n\temail = robin@example.org\n[init]\n\tdefaultBranch = main\n"
        "[core]\n\tabbrev = 7\n\tpager = cat\n[advice]\n\tdetachedHead = false\n",
        encoding="utf-8",
    )
    for command in (
        [str(python), "tools/make_tariffs.py"],
        [str(python), "tools/make_orders.py"],
        ["git", "init", "-q"],
        ["git", "add", "-A"],
        ["git", "commit", "-q", "-m", "parcels 0.3.2"],
    ):
        subprocess.run(command, cwd=repo, env=environment, check=True)
    return environment


def configure(root: Path, url: str) -> None:
    """Point the host at the server; switch off what would ask more than the script answers."""
    model = {"provider": "custom", "base_url": url, "api_key": "none", "context_length": CONTEXT}
    config = {
        "model": {"default": "scripted", **model},
        "auxiliary": {"compression": {"model": "scripted", **model}, "title_generation": {"enabled": False}},
        "agent": {"environment_probe": False, "verify_on_stop": False},
        "compression": {"enabled": False},
        "memory": {"memory_enabled": False, "user_profile_enabled": False, "nudge_interval": 0},
        "skills": {"creation_nudge_interval": 0},
        "security": {"allow_lazy_installs": False},
    }
    # JSON is YAML.
    (root / "home" / ".hermes" / "config.yaml").write_text(json.dumps(config, indent=2), encoding="utf-8")


def neutraliser(root: Path) -> Callable[[str], str]:
    """What takes this machine and this moment out of a text."""
    library = Path(os.__file__).parent
    paths = {
        root / "repo": "/repo",
        root / "clean": "/clean",
        root / "home": "/home/robin",
        root / "bin": "/usr/bin",
        root: "/tmp/session",
        HERE.parent.parent: "/opt/dataspace",
        Path(sys.prefix): "/usr",
        library: f"/usr/lib/{library.name}",
    }
    longest_first = sorted(paths.items(), key=lambda item: -len(str(item[0])))
    # A path begins after something that is no part of one; in JSON that may be the n of an escaped line end.
    begin, end = r"(?:(?<![\w.~-])|(?<=\\[nrt]))", r"(?![\w-])"
    patterns = {begin + re.escape(str(path)) + end: name for path, name in longest_first} | {
        r"(passed|failed|warnings?|errors?)( .{0,40}?)? in \d+\.\d\ds": r"\1\2 in 0.05s",
        r"Conversation started: [^\\\n]*": "Conversation started: Friday, March 14, 2025",
        rf"Host: \w+ \({re.escape(platform.release())}\)": "Host: Linux (6.1.0)",
        rf"pytest-of-{re.escape(getpass.getuser())}\b": "pytest-of-robin",
        r"\b0x[0-9a-f]{8,16}\b": "0x7f0123456789",
    }

    def neutral(text: str) -> str:
        for pattern, replacement in patterns.items():
            text = re.sub(pattern, replacement, text)
        return text

    return neutral


def main(arguments: Sequence[str] | None = None) -> None:
    """Record and write."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.hermes.record", description="Record the demo's session anew."
    )
    parser.add_argument("--short", action="store_true", help="the two-request session of the tests")
    parser.add_argument("--out", type=Path, default=OUT, help="where to, default: the demo's recording")
    options = parser.parse_args(arguments)
    session = record(SHORT if options.short else SESSION)
    write(session, options.out)
    characters = sum(len(json.dumps(row)) for row in session)
    print(f"{options.out}: {len(session)} rows, about {characters // 4:,} tokens, last usage {session[-1]['usage']}")


if __name__ == "__main__":
    main()
