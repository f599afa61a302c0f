"""Public bug reports as inputs with the right answer, where no other file has them; and the table of where all are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from attrs import frozen

from dataspace import Dataspace, Handle, where
from engines.compressor import Limits, compact
from engines.messages import Messages
from engines.transcript import estimate_tokens

TESTS = Path(__file__).parent
TABLE = dict(re.findall(r"^\| ([A-Z]\d\d) \| (.+?) \|$", (TESTS / "cases.md").read_text("utf-8"), re.MULTILINE))


@frozen
class Wanted:
    sid: str


def test_d01_who_removes_itself_makes_nobody_miss_anything() -> None:
    """D01: of A (which removes itself), B and C each hears the event once, and B and C the next one."""
    ds, heard = Dataspace(), []
    me = ds.actor("me")
    handles: dict[str, Handle] = {}

    def hears(name: str) -> None:
        def appeared(fact: Wanted) -> None:
            heard.append((name, fact.sid))
            if name == "A":
                me.retract(handles["A"])

        handles[name] = me.observe(Wanted, appeared)

    for name in "ABC":
        hears(name)
    for sid in ("s1", "s2"):
        me.publish(Wanted(sid))
    assert [("A", "s1"), ("B", "s1"), ("C", "s1"), ("B", "s2"), ("C", "s2")] == heard


def test_d04_two_publishers_of_one_fact() -> None:
    """D04: the fact stands until the second lets go; one appearance, one disappearance, a second retract is harmless."""
    ds, heard = Dataspace(), []
    one, two, watcher = ds.actor("one"), ds.actor("two"), ds.actor("watcher")
    watcher.observe(where(Wanted, sid="s1"), lambda _: heard.append("+"), lambda _: heard.append("-"))
    first, second = one.publish(Wanted("s1")), two.publish(Wanted("s1"))
    for _ in range(2):
        one.retract(first)
    assert (Wanted("s1"),) == ds.facts(Wanted)
    assert ["+"] == heard
    two.retract(second)
    assert ["+", "-"] == heard


def test_c13_an_estimate_that_is_low_is_made_up_for() -> None:
    """C13: where the provider counts 1.3 times our estimate, the result keeps to its share on the provider's scale."""
    rows = [
        {"role": role, "content": f"{n} " + "some words about it " * 60}
        for n in range(60)
        for role in ("user", "assistant")
    ]
    messages = Messages.of([*rows, {"role": "user", "content": "Go on."}])
    real = round(1.3 * estimate_tokens(messages))
    limits = Limits(threshold=real)
    plain, scaled = compact(messages, limits), compact(messages, limits, tokens=real)
    assert plain is not None
    assert scaled is not None
    assert 1.3 * estimate_tokens(scaled) <= limits.result * limits.threshold
    assert estimate_tokens(scaled) < estimate_tokens(plain)


@pytest.mark.parametrize("report", TABLE)
def test_the_table_of_reports_is_true(report: str) -> None:
    """A file that the table names for a report names the report."""
    for name in re.findall(r"`((?:bisim/)?test_\w+\.py)`", TABLE[report]):
        assert re.search(rf"\b{report}\b", (TESTS / name).read_text("utf-8")), f"{name} does not name {report}"


@pytest.mark.shared
def test_the_table_leaves_no_report_out(shared: Path) -> None:
    """Every report on bridge, dataspace, compressor and messages that is given has its line."""
    given = re.findall(r"^### ([BCMD]\d\d)", (shared / "cases" / "REPORTS.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(given) == sorted(report for report in TABLE if report[0] in "BCMD")
