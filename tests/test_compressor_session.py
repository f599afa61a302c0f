"""The compressor on recorded sessions, replayed as they grew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engines.compressor import Limits, compact
from engines.messages import Messages
from engines.recall import figures, requests_found
from engines.transcript import check, estimate_tokens, is_summary

THRESHOLD = 20_000


def replayed(rows: Messages, **more: Any) -> tuple[Messages, int]:
    """Grow a list row by row and compact it whenever it reaches the threshold."""
    live, compactions = Messages(), 0
    for row in rows:
        live += [row]
        if estimate_tokens(live) >= THRESHOLD:
            after = compact(live, Limits(THRESHOLD), **more)
            assert after is not None
            report = check(after, live)
            assert report.ok, str(report)
            assert estimate_tokens(after) <= 8_000
            assert sum(map(is_summary, after)) == 1
            live, compactions = after, compactions + 1
    return live, compactions


@pytest.mark.shared
@pytest.mark.slow
def test_a_long_session_is_still_there_after_several_compactions(shared: Path) -> None:
    """All requests by what is particular to each; 40 % of all identifiers ever removed, 30 % by the summary alone."""
    lines = (shared / "sessions" / "coding-long-with-skills.jsonl").read_text(encoding="utf-8").splitlines()
    rows = Messages.of(map(json.loads, lines))
    live, compactions = replayed(rows)
    assert compactions >= 2
    assert [each for each in requests_found(rows, live) if not each.found] == []
    found = figures(rows, live)
    assert found.recall >= 0.4
    assert found.recall_by_summary >= 0.3
    assert {problem.code for problem in check(live).faults} <= {problem.code for problem in check(rows).faults}


@pytest.mark.shared
@pytest.mark.slow
def test_a_focus_is_found_after_all(shared: Path) -> None:
    """What the focus names early in a session is in the list at its end."""
    lines = (shared / "sessions" / "coding-long-with-skills.jsonl").read_text(encoding="utf-8").splitlines()
    live, _ = replayed(Messages.of(map(json.loads, lines)), focus="versioningit BitVecVal")
    assert "BitVecVal" in json.dumps(live.thaw())
