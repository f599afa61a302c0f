"""Looking at logs: sums by profile, the latest entries, lessons, and the page with its charts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.cli import main
from bridges.cli.telemetry import moment_of
from bridges.cli.telemetry_charts import Bar, Mark, Reading, amount, bars, lines
from bridges.cli.telemetry_report import page
from engines.telemetry import BRAIN_LEAST, KINDS, LOCAL_LEAST, EpisodicLog, local_log
from engines.telemetry import __all__ as telemetry_all
from engines.telemetry.entry import weighed
from engines.telemetry.history import Past, accounts, figures, kind_of, read_logs
from engines.telemetry.lessons import lessons
from tests.conftest import CHECKOUT

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
Out = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Out:
    """Runs the command; gives back its exit code, stdout and stderr."""
    monkeypatch.delenv("HERMES_HOME", raising=False)

    def run(*args: str, given_: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(given_)))
        code = main(["telemetry", *args])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def usage(prompt: int, threshold: int = 100, **more: int) -> dict[str, Any]:
    """A reading as telemetry writes it."""
    detail = json.dumps({"prompt": prompt, "threshold": threshold, "completion": 1, **more})
    return weighed("usage", skill="context", action="usage", detail=detail)


def compaction(before: int, after: int, seconds: float = 0.5) -> dict[str, Any]:
    """A compaction as telemetry writes it."""
    detail = json.dumps({"ask": 1, "by": "comp", "before": before, "after": after, "seconds": seconds})
    return weighed("compaction", skill="context", action="compaction by comp", detail=detail)


def written(
    home: Path, *entries: dict[str, Any], profile: str = "fin", sid: str = "s1", start: datetime = NOON
) -> Path:
    """A home with a log of these entries, a minute apart."""
    log = EpisodicLog(local_log(home), env={"AGENT_PROFILE": profile}, clock=lambda: start + timedelta(days=1))
    for number, entry in enumerate(entries):
        at = (start + timedelta(minutes=number)).isoformat()
        log.append({**entry, "evidence_ids": entry["evidence_ids"] or [sid], "timestamp": at})
    return home


def past(path: Path) -> list[Past]:
    """The entries of a home's log."""
    return read_logs([local_log(path)])[0]


# -- sums -------------------------------------------------------------------------------------------------------------


def test_summary_of_several_homes(tmp_path: Path, command: Out) -> None:
    """Profiles have their logs in their own homes; a base home shows all of them."""
    rollup = {
        "ended": "x",
        "turns": 2,
        "responses": 3,
        "prompt": 1_500,
        "compactions": 1,
        "saved": 900,
        "waited": 2.5,
        "failures": 1,
    }
    end = weighed("session", skill="session", action="session:ended", detail=json.dumps(rollup))
    written(tmp_path / "profiles" / "fin", usage(10), end)
    written(tmp_path / "profiles" / "law", usage(10), usage(20), compaction(20, 5), profile="law")
    code, out, err = command("summary", "--home", str(tmp_path))
    assert (0, "") == (code, err)
    head, fin, law, note = out.splitlines()
    assert (
        "profile sessions turns in out compactions saved waited-s loaded deduplicated pruned failures".split()
        == head.split()
    )
    assert "fin 1 2 1.5k 0 1 900 2.50 0 0 0 1".split() == fin.split()
    assert "law 1 0 30 2 1 15 0.50 0 0 0 0".split() == law.split()
    assert note.startswith("1 of the sessions have no end")
    code, out, _ = command("summary", "--home", str(tmp_path), "--json", "--profile", "fin")
    assert {"fin"} == set(json.loads(out)["profiles"])
    assert (1_500, 2.5, 1, 0) == tuple(
        json.loads(out)["profiles"]["fin"][n] for n in ("prompt", "waited", "sessions", "open")
    )


def test_what_belongs_to_no_session_is_counted_too(tmp_path: Path, command: Out) -> None:
    """Crashes, dropped entries, failures that other tools have written, and lines that are none."""
    log = EpisodicLog(local_log(tmp_path), env={})
    log.append(weighed("crash", skill="bad", action="bad crashed", detail="{}"))
    log.append(weighed("dropped", skill="telemetry", action="telemetry:dropped", detail='{"dropped": 7}'))
    log.append({"action": "deploy", "result": "failure", "skill": "ops"})
    with local_log(tmp_path).open("ab") as file:
        file.write(b'\n[1]\nnot json\n{"timestamp": 5, "source": [], "evidence_ids": 7, "action": "odd"}\n')
    (account,) = accounts(past(tmp_path))
    assert (0, 1, 7, 2) == (account.sessions, account.crashes, account.lost, account.told()["failures"])
    _, out, _ = command("summary", "--home", str(tmp_path))
    assert "7 entries were dropped" in out
    assert "2 lines are no entries" in out


def test_one_session_name_in_two_runs_is_two_sessions(tmp_path: Path) -> None:
    """A replay of the same file, again, adds a session."""
    for run in ("a", "b"):
        EpisodicLog(local_log(tmp_path), env={"AGENT_RUN_ID": run}).append({**usage(5), "evidence_ids": ["demo"]})
    assert 2 == accounts(past(tmp_path))[0].sessions


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        (usage(1), "usage"), (compaction(2, 1), "compaction"), ({"skill": "context", "action": "compaction by x refused"}, "refused"),
        ({"skill": "tdd", "action": "skill tdd pruned"}, "skill-pruned"), ({"skill": "x", "action": "x crashed"}, "crash"),
        ({"skill": "t", "action": "t: a", "evidence_ids": ["s", "c"]}, "tool"), ({"skill": "t", "action": "t"}, ""), ({}, ""),
    ],
)  # fmt: skip
def test_kinds_are_known_again(entry: dict[str, Any], kind: str) -> None:
    """What telemetry wrote is told from what others wrote."""
    assert kind == kind_of(entry)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda x: (
            st.lists(x)
            | st.dictionaries(
                st.sampled_from(
                    ["action", "skill", "detail", "source", "profile", "prompt", "evidence_ids", "timestamp", "result"]
                )
                | st.text(),
                x,
            )
        ),
        max_leaves=12,
    )
)
def test_whatever_is_in_a_log_it_can_be_looked_at(value: Any) -> None:
    """No line that is JSON makes reading, summing, clustering or drawing fail."""
    import tempfile

    with tempfile.TemporaryDirectory() as root:
        log = Path(root) / "log"
        whole = {
            "skill": "context",
            "action": "usage",
            "detail": json.dumps(value),
            "evidence_ids": ["s"],
            "source": {"profile": "p"},
        }
        log.write_text(f"{json.dumps(value)}\n{json.dumps(whole)}\n" * 2, encoding="utf-8")
        entries, bad = read_logs([log])
        assert 4 == len(entries) + bad
        accounts(entries)
        lessons(entries)
        assert page(entries, made=NOON).startswith("<!doctype html>")


@pytest.mark.parametrize(
    "detail",
    [
        '{"before": Infinity, "after": NaN, "seconds": NaN}', '{"before": 1e999, "prompt": 1e308, "dropped": -1e308}',
        '{"before": 1' + "0" * 400 + ', "prompt": 1' + "0" * 400 + ', "turns": 1' + "0" * 4_000 + "}",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("skill", "action"),
    [
        ("context", "usage"), ("context", "compaction by x"), ("context", "compaction failed"),
        ("session", "session:ended"), ("telemetry", "telemetry:dropped"),
    ],
)  # fmt: skip
def test_numbers_that_nobody_has_counted(tmp_path: Path, command: Out, skill: str, action: str, detail: str) -> None:
    """What another tool has written as a figure and is none counts as nothing, and what is shown is strict JSON."""
    log = tmp_path / "log"
    told = {"skill": skill, "action": action, "detail": detail, "pain_score": 1e308, "importance": 1e308}
    told |= {"result": "failure", "evidence_ids": [] if skill == "telemetry" else ["s"], "reflection": "went wrong"}
    log.write_text(f"{json.dumps(told)}\n" * 2, encoding="utf-8")
    for args in (["summary", "--json"], ["cluster", "--json"], ["report", "--out", str(tmp_path / "page.html")]):
        code, out, err = command(*args, "--log", str(log))
        assert (0, "") == (code, err)
        assert "NaN" not in out
        assert "Infinity" not in out
    told_of = json.loads(command("summary", "--json", "--log", str(log))[1])["profiles"]["default"]
    assert all(-(10**16) < value < 10**16 for value in told_of.values())


def test_halves_of_letters_and_markup_in_a_log(tmp_path: Path, command: Out) -> None:
    """The page is written whatever the log holds, without markup of others; a terminal gets no controls."""
    log = tmp_path / "log"
    nasty = "<script>alert(1)</script>\"'><img src=x onerror=y>\ud800\x1b]0;x\x07"
    entries = [
        {**usage(50), "evidence_ids": [nasty]},
        {
            **compaction(90, 10),
            "action": f"compaction by {nasty}",
            "detail": json.dumps({"by": nasty, "before": 9, "after": 1}),
        },
        *[{"skill": nasty, "action": nasty, "reflection": nasty, "result": "failure"}] * 2,
    ]
    log.write_text(
        "".join(json.dumps({**one, "source": {"profile": nasty}}) + "\n" for one in entries), encoding="utf-8"
    )
    code, _, _ = command("report", "--out", str(tmp_path / "page.html"), "--log", str(log))
    made = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert 0 == code
    assert not re.search("<script|<img", made)
    for args in (["tail"], ["summary"], ["cluster", "--per-profile"]):
        code, out, _ = command(*args, "--log", str(log))
        assert 0 == code
        assert not set(out) & {"\x1b", "\x07"}


# -- which entries ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2h", NOON - timedelta(hours=2)), ("7 d", NOON - timedelta(days=7)), ("90min", NOON - timedelta(minutes=90)),
        ("2026-05-01T14:00:00+02:00", NOON), ("2026-05-01T12:00Z", NOON),
    ],
)  # fmt: skip
def test_since(text: str, at: datetime) -> None:
    """How long ago, or when."""
    assert at == moment_of(text, NOON)


def test_only_what_is_asked_for(tmp_path: Path, command: Out) -> None:
    """By time, by profile, by file; as a line for people or as it is."""
    written(tmp_path, *(usage(n) for n in range(1, 6)))
    tail = ("tail", "--home", str(tmp_path))
    assert ["4", "5"] == re.findall(r'"prompt": (\d)', command(*tail, "-n", "2")[1])
    assert 2 == len(command(*tail, "--since", "2026-05-01T12:03:00+00:00")[1].splitlines())
    assert "" == command(*tail, "--profile", "law")[1]
    assert "2026-05-01 12:04:00  fin  ok      usage" in command(*tail)[1]
    _, out, _ = command("tail", "--log", str(local_log(tmp_path)), "--json", "-n", "1")
    assert past(tmp_path)[-1].entry == json.loads(out)


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("--home", "{}/none"), "there is no directory"), (("--brain", "{}"), "holds no portable brain"), (("--brain", " "), "--brain is empty"),
        (("--log", "{}/none"), "a log cannot be read: {}/none: No such file"), (("--home", "{}", "--brain", "{}"), "give one of them"),
        (("--home", "{}", "--since", "soon"), "--since soon is neither"), (("--home", "{}", "--since", "9999999999d"), "is neither"),
    ],
)  # fmt: skip
def test_bad_input_is_told_in_one_line(tmp_path: Path, command: Out, args: tuple[str, ...], problem: str) -> None:
    """With what to do about it, and exit code 2."""
    code, out, err = command("summary", *(arg.format(tmp_path) for arg in args))
    assert (2, "", 1) == (code, out, err.count("\n"))
    assert problem.format(tmp_path) in err


def test_nothing_yet(tmp_path: Path, command: Out) -> None:
    """A home without a log is no mistake."""
    (tmp_path / ".agent" / "memory").mkdir(parents=True)
    for where in ("--home", "--brain"):
        code, out, err = command("summary", where, str(tmp_path))
        assert (0, "", 1) == (code, out, err.count("\n"))
        assert f"there is no log below {tmp_path}; give another place" in err
        for what in ("cluster", "tail"):
            code, out, err = command(what, where, str(tmp_path))
            assert (0, "", True) == (code, out, f"below {tmp_path}" in err)


def test_an_empty_answer_says_why(tmp_path: Path, command: Out) -> None:
    """What was looked for and where, and what there is; with --json stdout has the object all the same."""
    (log := local_log(tmp_path)).parent.mkdir(parents=True)
    log.touch()
    assert f"there are no entries in {log}" in command("tail", "--log", str(log))[2]
    for text, told in (("<p>\n<b>\n", "none of its 2 lines is one"), ("?", "its one line is none")):
        (other := tmp_path / "page.html").write_text(text)
        assert f"there are no entries in {other}: {told}" in command("tail", "--log", str(other))[2]
    EpisodicLog(log).append({**usage(1), "profile": "fin", "timestamp": NOON.isoformat()})
    there = [past.profile for past in read_logs([log])[0]]
    for what in ("summary", "tail", "cluster"):
        code, out, err = command(what, "--home", str(tmp_path), "--profile", "nope")
        assert (0, "", 1) == (code, out, err.count("\n"))
        assert f"no entries of profile 'nope' in {log}; there are some of: {', '.join(there)}" in err
    code, out, err = command("summary", "--home", str(tmp_path), "--since", "2999-01-01", "--json")
    assert (0, 0, True) == (code, json.loads(out)["entries"], "no entries since 2999-01-01" in err)
    monkey = str(tmp_path / "other")
    many = [arg for n in range(4) for arg in ("--log", f"{monkey}{n}")]
    for n in range(4):
        Path(f"{monkey}{n}").touch()
    assert "and 1 more" in command("tail", *many)[2]


# -- lessons ----------------------------------------------------------------------------------------------------------


def learnt(home: Path) -> Path:
    """The same failure of two profiles, another one of one of them, and things that went well."""
    for profile in ("fin", "law"):
        for n in range(2):
            failed = weighed(
                "tool-failed",
                skill="terminal",
                action="terminal: deploy parcels",
                reflection=f"deploy of parcels failed with timeout {n}",
            )
            written(home, {**failed, "evidence_ids": ["s", "c"]}, profile=profile)
    for n in range(3):
        written(
            home,
            weighed(
                "note", skill="note", action="never rebase shared branches", reflection="never rebase shared branches"
            ),
            profile="law",
        )
        written(
            home,
            {
                **weighed("tool", skill="read", action="read: a", reflection="read: a went well"),
                "evidence_ids": ["s", f"c{n}"],
            },
        )
    return home


def test_one_specialists_lessons_never_mix_with_anothers(tmp_path: Path, command: Out) -> None:
    """Apart, each profile has its own lesson of what both met; together it is one."""
    home = str(learnt(tmp_path))
    together = json.loads(command("cluster", "--home", home, "--json")[1])["lessons"]
    apart = json.loads(command("cluster", "--home", home, "--json", "--per-profile")[1])["lessons"]
    assert [(["fin", "law"], 4, 4), (["law"], 3, 0)] == [
        (one["profiles"], one["count"], one["failures"]) for one in together
    ]
    assert [["fin"], ["law"], ["law"]] == sorted(one["profiles"] for one in apart)
    assert {"deploy", "parcels", "terminal", "timeout"} <= set(together[0]["words"])
    assert 4 == len(set(together[0]["evidence_ids"]))
    out = command("cluster", "--home", home, "--per-profile", "--least", "3")[1]
    assert 1 == len(out.splitlines())
    assert "3x, 0 failed  [law]  never rebase shared branches" in out


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["fin", "law"]),
            st.lists(st.sampled_from("alpha beta gamma delta epsilon".split()), max_size=4),
        ),
        max_size=20,
    )
)
def test_no_lesson_of_one_profile_holds_another(told: list[tuple[str, list[str]]]) -> None:
    """Kept apart, each lesson has one profile; each entry with words is in one group either way, and least counts."""
    entries = [
        Past(NOON, profile, "", "", {"action": " ".join(words), "timestamp": str(at)})
        for at, (profile, words) in enumerate(told)
    ]
    spoken = sorted(str(at) for at, (_, words) in enumerate(told) if words)
    for apart in (True, False):
        found = lessons(entries, per_profile=apart, least=1)
        assert spoken == sorted(one for lesson in found for one in lesson.evidence)
        assert not apart or all(1 == len(lesson.profiles) for lesson in found)
        assert all(lesson.count >= 2 for lesson in lessons(entries, per_profile=apart))


def test_what_became_of_two_skills_are_two_lessons() -> None:
    """Their sentences differ in a name only, and that is what counts."""
    names = ["release-notes"] * 3 + ["test-driven-development"] * 2 + ["tides"]
    entries = [
        Past(NOON, "fin", "s", "skill-pruned", {**draft, "timestamp": str(at)})
        for at, name in enumerate(names)
        for draft in (
            weighed(
                "skill-pruned", skill=name, action=f"skill {name} pruned", reflection=f"The skill {name} was pruned."
            ),
        )
    ]
    entries += [
        Past(NOON, "fin", "s", "skill-reloaded", weighed("skill-reloaded", skill=name, action=f"skill {name} reloaded"))
        for name in ("release-notes", "release-notes")
    ]
    assert [
        ("The skill release-notes was pruned.", 3, True),
        ("The skill test-driven-development was pruned.", 2, False),
        ("skill release-notes reloaded", 2, True),
    ] == sorted((one.claim, one.count, "release-notes" in one.words) for one in lessons(entries))


def test_only_what_all_say_is_said_of_all() -> None:
    """An ellipsis stands for the rest; where nothing is left of a sentence it is one of several."""
    for texts, claim in (
        (
            ["Deploy of parcels failed: timeout 1", "Deploy of letters failed: timeout 2"],
            "Deploy of … failed: timeout …",
        ),
        (["The poet crashed: no rhyme.", "The rhymer crashed: no rhyme."], "The … crashed: no rhyme."),
        (
            ["alpha beta gamma", "beta gamma delta", "gamma delta omega", "delta omega sigma"],
            "(one of several that are alike)",
        ),
        (["never rebase  shared branches"] * 2, "never rebase  shared branches"),
    ):
        entries = [Past(NOON, "fin", "", "", {"reflection": text, "action": "x"}) for text in texts]
        (found,) = lessons(entries)
        assert found.claim.endswith(claim)
        assert len(texts) == found.count


@given(
    st.lists(
        st.lists(st.sampled_from("alpha beta gamma delta epsilon zeta with 1 2 -".split()), min_size=1, max_size=5),
        min_size=1,
        max_size=12,
    )
)
def test_a_claim_says_nothing_that_only_some_say(told: list[list[str]]) -> None:
    """Whatever was put together: each word of it is in every entry, or it is one of several."""
    entries = [
        Past(NOON, "fin", "", "", {"action": " ".join(words), "timestamp": str(at)}) for at, words in enumerate(told)
    ]
    for lesson in lessons(entries, least=1):
        members = [told[int(at)] for at in lesson.evidence]
        said = lesson.claim.removesuffix(" (one of several that are alike)")
        if said == lesson.claim:
            assert all(word in member for word in said.split() for member in members if word not in "…-")
        else:
            assert said.split() in members
            assert () == lesson.words


# -- the page ---------------------------------------------------------------------------------------------------------


def charts(text: str) -> dict[str, ElementTree.Element]:
    """Each chart of a page by its label; each must be well-formed."""
    found = {}
    for chart in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        element = ElementTree.fromstring(chart)
        found[element.attrib["aria-label"]] = element
    return found


def points(chart: ElementTree.Element) -> list[list[float]]:
    """The points of the line in a chart."""
    return [[float(part) for part in pair.split(",")] for pair in chart.find("polyline").attrib["points"].split()]  # type: ignore[union-attr]


def test_what_is_drawn_is_what_the_log_says(tmp_path: Path, command: Out) -> None:
    """Context size, threshold, compactions, tokens and time; and one changed line changes what is drawn."""
    home = written(tmp_path / "home", usage(40), usage(110), compaction(110, 30, 2.0), usage(35), sid="s & <1>")
    out = tmp_path / "page.html"
    code, said, _ = command("report", "--home", str(home), "--out", str(out))
    assert (0, f"{out}: 4 entries; open it in a browser.\n") == (code, said)
    text = out.read_text(encoding="utf-8")
    drawn = charts(text)
    assert {"Context size of s & <1> (fin)", "Tokens per profile", "Time lost per profile"} == set(drawn)
    course = points(drawn["Context size of s & <1> (fin)"])
    heights = [high for _, high in course]
    assert 5 == len(course)
    assert (
        heights[1] == heights[2] < heights[0] < heights[4] < heights[3]
    )  # 110 110 40 35 30: a fuller context is higher up
    titles = {title.text for chart in drawn.values() for title in chart.iter("title")}
    assert {
        "40 tokens, 12:00:00",
        "comp: 110 to 30 tokens, 12:02:00",
        "threshold 100",
        "fin: 2 s waiting for compactions",
    } <= titles
    assert not re.search(r"<script|https?://|@import|url\(", text)
    log = local_log(home)
    log.write_text(log.read_text(encoding="utf-8").replace(r"\"prompt\": 40", r"\"prompt\": 77", 1), encoding="utf-8")
    changed = points(charts(page(past(home), made=NOON))["Context size of s & <1> (fin)"])
    assert heights[0] > changed[0][1]
    assert course[1:] == changed[1:]


def test_the_command_says_what_it_wrote(tmp_path: Path, command: Out) -> None:
    """As an object too; and it refuses to write where it cannot before it has done anything."""
    code, said, _ = command("report", "--home", str(tmp_path), "--out", str(tmp_path / "p.html"), "--json")
    assert (0, 0) == (code, json.loads(said)["entries"])
    assert "The log holds no entries yet." in (tmp_path / "p.html").read_text(encoding="utf-8")
    assert 2 == command("report", "--home", str(tmp_path), "--out", str(tmp_path / "none" / "p.html"))[0]


def test_many_sessions_and_many_readings_are_thinned() -> None:
    """The latest twelve are drawn; a line has no more points than a page can show, and keeps its peaks."""
    entries = [Past(NOON + timedelta(seconds=n), "fin", f"s{n % 20}", "usage", usage(n % 97)) for n in range(200)]
    assert 12 == page(entries, made=NOON).count('aria-label="Context size')
    readings = [Reading(NOON + timedelta(seconds=n), 999 if n == 3_333 else n % 50, 0) for n in range(20_000)]
    drawn = ElementTree.fromstring(lines(readings, [], "c"))
    assert len(points(drawn)) <= 1_500
    top = min(high for _, high in points(drawn))
    assert 1 == sum(high == top for _, high in points(drawn))
    assert not drawn.findall("circle")


def test_failed_compactions_and_changed_thresholds_show() -> None:
    """A failure is a line of its own; a threshold that moves moves the dashed line."""
    readings = [Reading(NOON, 10, 100), Reading(NOON + timedelta(hours=5), 20, 50)]
    drawn = ElementTree.fromstring(lines(readings, [Mark(NOON + timedelta(hours=1), "", 0, 0, failed=True)], "c"))
    (path,) = (path.attrib["d"] for path in drawn.iter("path"))
    assert 2 == path.count("H")
    assert "compaction failed, 13:00:00" in {title.text for title in drawn.iter("title")}
    assert "5 h" in {text.text for text in drawn.iter("text")}


@given(st.lists(st.tuples(st.text(), st.floats(0, 1e15)), max_size=5))
def test_bars_are_as_long_as_they_are_large(told: list[tuple[str, float]]) -> None:
    """Whatever names and figures there are, it is well-formed, and a larger figure is no shorter bar."""
    clean = [("".join(c for c in name if c.isprintable()), value) for name, value in told]
    drawn = ElementTree.fromstring(bars([Bar(name, (("a", "x", value),)) for name, value in clean], "s", "c"))
    widths = [float(rect.attrib["width"]) for rect in drawn.iter("rect")]
    sizes = [value for _, value in clean if value > 0]
    assert len(sizes) == len(widths)
    for (one, wide), (other, wider) in zip(
        sorted(zip(sizes, widths, strict=True))[:-1], sorted(zip(sizes, widths, strict=True))[1:], strict=True
    ):
        assert one <= other
        assert wide <= wider + 0.11


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (950, "950"),
        (12_340, "12.3k"),
        (4_000_000, "4M"),
        (0.5, "0.50"),
        (79.44, "79.4"),
        (-1_500, "-1.5k"),
        (3e9, "3G"),
    ],
)
def test_amounts_for_people(value: float, shown: str) -> None:
    """Short, and with the digits that matter."""
    assert shown == amount(value)


def test_figures_of_a_text_are_none() -> None:
    """A detail may be anything."""
    assert [{}, {}, {}, {"a": 1}] == [figures({"detail": detail}) for detail in ("text", "[1]", 7, '{"a": 1}')]


# -- hooks of other programs ------------------------------------------------------------------------------------------


def test_append_takes_what_hooks_are_given(tmp_path: Path, command: Out) -> None:
    """An entry, a hook's payload, and what is neither, into a home or a brain."""
    (tmp_path / ".agent" / "memory").mkdir(parents=True)
    payloads = [b'{"toolName": "Edit", "toolInput": {"filePath": "a.py"}}', b'{"action": "x"}', b"", b"{"]
    for payload in payloads:
        assert (0, "", "") == command("append", "--brain", str(tmp_path), given_=payload)
    _, out, _ = command("tail", "--brain", str(tmp_path), "--json")
    assert ["Edit: a.py", "x", "hook:malformed_payload", "hook:malformed_payload"] == [
        json.loads(line)["action"] for line in out.splitlines()
    ]
    _, out, _ = command("append", "--home", str(tmp_path), "--json", given_=b'{"action": "y"}')
    assert past(tmp_path)[0].entry == json.loads(out)
    assert 2 == command("append", "--home", "x", "--brain", "y")[0]
    assert 2 == command("append", "--home", " ")[0]
    local_log(tmp_path).unlink()
    local_log(tmp_path).mkdir()
    code, _, err = command("append", "--home", str(tmp_path), given_=b"x")
    assert (1, True) == (code, "cannot be written to" in err)


@pytest.mark.parametrize(
    ("home", "env", "profile"),
    [
        ("profiles/fin", {}, "fin"),
        ("profiles/fin", {"HERMES_HOME": "/h/profiles/law"}, "fin"),
        ("profiles/fin", {"AGENT_PROFILE": "Ops"}, "Ops"),
        ("base", {"HERMES_HOME": "/h/profiles/law"}, "default"),
    ],
)
def test_t01_what_is_appended_is_of_the_homes_profile(
    tmp_path: Path, command: Out, monkeypatch: pytest.MonkeyPatch, home: str, env: dict[str, str], profile: str
) -> None:
    """T01: a home that is given says whose entry it is, before the one in the environment; a name there says it first."""
    monkeypatch.delenv("AGENT_PROFILE", raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    (tmp_path / home).mkdir(parents=True)
    _, out, _ = command("append", "--home", str(tmp_path / home), "--json", given_=b'{"action": "y"}')
    assert profile == json.loads(out)["source"]["profile"]


def test_a_log_that_is_none_is_named(tmp_path: Path, command: Out) -> None:
    """What cannot be read is told by its name, a directory too."""
    for path in (tmp_path, tmp_path / "missing"):
        code, _, err = command("summary", "--log", str(path))
        assert (2, True) == (code, str(path) in err)


def test_a_home_is_in_the_users_real_home_whoever_asks(
    tmp_path: Path, command: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written to `~/x` is read there, where a host has set another `$HOME`, too."""
    (tmp_path / "real" / "x").mkdir(parents=True)
    (tmp_path / "other" / "x").mkdir(parents=True)
    monkeypatch.setattr("engines.telemetry.place.real_home", lambda: tmp_path / "real")
    monkeypatch.setenv("HOME", str(tmp_path / "other"))
    assert (0, "", "") == command("append", "--home", "~/x", given_=b'{"action": "y"}')
    assert "y" == json.loads(command("tail", "--home", "~/x", "--json")[1])["action"]
    assert [] == list((tmp_path / "other" / "x").iterdir())


# -- the reference ----------------------------------------------------------------------------------------------------


def test_the_reference_has_every_kind_with_its_weights() -> None:
    """The table of importance and pain is the one that counts."""
    text = (CHECKOUT / "docs" / "reference" / "telemetry.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| ([\d.]+) \| ([\d.]+) \| (success|failure) \| .+ \|$", text, re.MULTILINE)
    assert [(kind, f"{one.importance:g}", f"{one.pain:g}", one.result) for kind, one in KINDS.items()] == rows
    assert f"It is {LOCAL_LEAST:g} for a local log and {BRAIN_LEAST:g} for a portable brain" in text


def test_the_reference_has_every_name_that_is_exported() -> None:
    """Public names and metrics."""
    text = (CHECKOUT / "docs" / "reference" / "telemetry.md").read_text(encoding="utf-8")
    spans = (CHECKOUT / "engines" / "telemetry" / "spans.py").read_text(encoding="utf-8")
    metrics = re.findall(r'"(gen_ai\.client[\w.]+|ctx\.[\w.]+)",\s+"(?:s|\{\w+\})"', spans)
    assert 6 == len(metrics)
    for name in [*metrics, *set(telemetry_all) - {"KINDS", "LOCAL_LEAST", "BRAIN_LEAST"}]:
        assert f"`{name}" in text, name


# -- replays ----------------------------------------------------------------------------------------------------------


def test_a_replay_writes_for_home_and_brain(tmp_path: Path, command: Out, capsys: pytest.CaptureFixture[str]) -> None:
    """The demo's log sums up as the demo does; the brain gets no single readings."""
    (tmp_path / "brain" / ".agent" / "memory").mkdir(parents=True)
    home, brain = str(tmp_path / "home"), str(tmp_path / "brain")
    assert 0 == main(["demo", "--home", home, "--brain", brain, "--pace", "0"])
    end = re.search(r"^end .*compactions=(\d+)", capsys.readouterr().out, re.MULTILINE)
    assert end is not None
    told = json.loads(command("summary", "--home", home, "--json")[1])["profiles"]["default"]
    learnt_ = json.loads(command("summary", "--brain", brain, "--json")[1])
    assert (1, 0, int(end[1]), 8) == tuple(told[name] for name in ("sessions", "open", "compactions", "turns"))
    assert told == learnt_["profiles"]["default"]
    assert told["prompt"] > 100_000
    actions = {
        json.loads(line)["action"] for line in command("tail", "--brain", brain, "--json", "-n", "999")[1].splitlines()
    }
    assert "session:ended" in actions
    assert "usage" not in actions
    for args, problem in (
        (("--brain", str(tmp_path)), "holds no portable brain"),
        (("--brain", brain, "--engine", "compressor"), "--engine telemetry"),
    ):
        assert 2 == main(["replay", str(Path(main.__code__.co_filename).with_name("demo.jsonl")), *args])
        assert problem in capsys.readouterr().err
