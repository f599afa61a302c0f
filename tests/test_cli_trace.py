"""`replay --trace` and `trace`: every turn is written down, and told again."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from bridges.cli.app import command
from bridges.cli.errors import BadInput
from bridges.cli.main import main
from bridges.cli.tracing import brief, why_none
from dataspace.trace import Opaque, Turn, load_turns, standing
from engines.facts import Budget, Usage
from engines.wire import vocabulary_wire


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of a short session that is compacted once."""
    home = tmp_path_factory.mktemp("traced")
    rows = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"{n}: " + "word " * 400} for n in range(10)]
    rows.append({"role": "user", "content": "Go on with src/main.py."})
    rows.append({"role": "assistant", "content": "Done."})
    (home / "talk.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    trace = home / "talk.trace.jsonl"
    args = [
        "replay",
        str(home / "talk.jsonl"),
        "--threshold",
        "3000",
        "--context-length",
        "9000",
        "--trace",
        str(trace),
    ]
    result = CliRunner().invoke(command, args, standalone_mode=False)
    assert (0, "crossings=1 compactions=1") == (
        result.return_value,
        result.output[result.output.index("crossings=") :][:25],
    )
    assert f"turns written to {trace.name}" in result.output.replace(f"{home}/", "")
    return trace


def lines(*args: str) -> list[str]:
    """What `trace` prints."""
    result = CliRunner().invoke(command, ["trace", *args], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.output.splitlines()


def test_a_trace_replays_into_what_stood(traced: Path) -> None:
    """The file is a trace of this version; nothing of the session stands after its end but that it ended."""
    with traced.open(encoding="utf-8") as file:
        turns = list(load_turns(file, vocabulary_wire()))
    assert [turn.n for turn in turns] == sorted({turn.n for turn in turns})
    assert ["ended"] == [fact.state for fact in standing(turns) if type(fact).__name__ == "Session"]
    assert all(turn.at is not None and turn.at >= 0 for turn in turns)


def test_a_message_of_the_session_is_in_the_file_once(traced: Path) -> None:
    """However often a list that holds it was published, told and retracted: a trace does not outgrow its session."""
    file = traced.read_text(encoding="utf-8").splitlines()
    written = [json.loads(line).get("parts", {}).get("messages", []) for line in file]
    texts = [row["content"] for rows in written for row in rows]
    assert [1] * 10 == [sum(text.startswith(f"{n}: word") for text in texts) for n in range(10)]
    lists = [line for line in file if '"Transcript"' in line]
    assert len(lists) > 10
    assert max(map(len, lists)) < 6_000  # one message, and what else a turn says


def test_one_actor(traced: Path) -> None:
    """`--actor` shows the turns of one actor, with what it did and whom it told."""
    shown = lines(str(traced), "--actor", "compressor")
    turns = [line for line in shown if line.startswith("turn ")]
    assert all(" compressor " in line for line in turns)
    assert any(line.startswith("  send Answered(") for line in shown)
    assert any(line.startswith("  -> ") and "loop" in line and "heard Answered(" in line for line in shown)
    assert len(turns) < sum(line.startswith("turn ") for line in lines(str(traced)))


def test_one_session(traced: Path) -> None:
    """`--session` shows what concerns a session; of another one there is nothing."""
    assert any("ShouldCompress(" in line for line in lines(str(traced), "--session", "talk"))
    assert 1 == len(lines(str(traced), "--session", "another"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--session", "another"), "no turn is about session 'another'; there are: talk"),
        (("--actor", "nobody"), "no turn is one of actor 'nobody'; there are: "),
        (("--actor", "display", "--session", "another"), "session 'another'"),
    ],
)
def test_an_empty_answer_says_why(
    traced: Path, options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stdout stays for turns; what was looked for and what there is stands on stderr, in one line."""
    assert 0 == main(["trace", str(traced), *options])
    out, err = capsys.readouterr()
    assert ("", True, 1) == (out, said in err, err.count("\n"))


def test_an_empty_trace_says_so() -> None:
    """A run that ended at once has left nothing to show; nor is a turn of one actor about what another does."""
    assert "holds no turns" in why_none((), None, None)
    turns = (Turn(1, None, "one", (), (), 0.0), Turn(2, 1, "two", (), (), 0.0))
    assert "are: one, two" in why_none(turns, "three", None)
    assert "are: none" in why_none(turns, "one", "s1")


def test_why_did_this_run(traced: Path) -> None:
    """`--why` shows the chain of causes from outside in: the reading, the question, the answer."""
    shown = lines(str(traced), "--actor", "compressor")
    at = next(n for n, line in enumerate(shown) if line.startswith("  send Answered("))
    number = next(line.split()[1] for line in reversed(shown[:at]) if line.startswith("turn "))
    chain = lines(str(traced), "--why", number)
    heads = [line.split() for line in chain if line.startswith("turn ")]
    assert "from outside" in " ".join(heads[0])
    assert number == heads[-1][1]
    assert all(f"because of {before[1]}" in " ".join(head) for before, head in pairwise(heads))
    order = [
        next(n for n, line in enumerate(chain) if word in line)
        for word in ("publish Usage", "publish Asked", "send Answered")
    ]
    assert order == sorted(order)


def test_the_facts_at_the_end(traced: Path) -> None:
    """`--facts` shows what stands after all turns."""
    assert any(line.startswith('Session(sid="talk", state="ended")') for line in lines(str(traced), "--facts"))


def test_what_is_no_trace(traced: Path, tmp_path: Path) -> None:
    """A missing file, another kind of file, a damaged line and a turn that is not there: one sentence each."""
    (tmp_path / "other.txt").write_text("hello\n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_text("".join(traced.read_text().splitlines(keepends=True)[:3]) + '{"n": "x"}\n')
    for args, said in (
        (["nowhere.jsonl"], "cannot be read"),
        ([str(tmp_path / "other.txt")], "no trace"),
        ([str(tmp_path / "bytes")], "UTF-8"),
        ([str(damaged)], "line 4"),
        ([str(traced), "--why", "1000000"], "no such turn"),
    ):
        with pytest.raises(BadInput, match=said):
            lines(*args)


def test_out_and_trace_are_two_files(tmp_path: Path) -> None:
    """One file for both would lose one of them."""
    session, same = tmp_path / "s.jsonl", str(tmp_path / "same")
    session.write_text('{"role": "user", "content": "hello"}\n')
    with pytest.raises(BadInput, match="give each its own"):
        result = CliRunner().invoke(
            command, ["replay", str(session), "--out", same, "--trace", same], standalone_mode=False
        )
        if result.exception is not None:
            raise result.exception
    assert not Path(same).exists()


def test_facts_in_brief() -> None:
    """A fact is its class and identity, control characters are shown as such, and a line has an end."""
    assert 'Budget(sid="s\\u001b", context_length=2, threshold=1)' == brief(Budget("s\x1b", 2, 1))
    assert 'Usage(sid="s", seq=1)' == brief(Usage("s", 1, prompt=7))
    assert "what it was" == brief(Opaque("what it was"))
    assert 100 == len(brief("x" * 500))
    assert "" == brief(None)
    assert "(1, 2)" == brief((1, 2))
