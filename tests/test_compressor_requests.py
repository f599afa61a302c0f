"""Requests stay tellable apart, however much they share and however often they are folded."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.compressor import Limits, compact
from engines.compressor.fingerprint import Fingerprint
from engines.compressor.requests import compare, share_out
from engines.compressor.text import parse
from engines.messages import Messages
from engines.recall import requests_found
from engines.transcript import SUMMARY_KEY, check, estimate_tokens, is_real_user, is_summary, text_of

WORDS = (
    "alpha beta gamma delta run check file module server client request answer please always never must should the a of in on with when "
    "if then each every before after report build test deploy log error value field parse write read open close start stop"
).split()


def sentence(rng: random.Random, words: int) -> str:
    """Some words that mean nothing."""
    return " ".join(rng.choice(WORDS) for _ in range(words)).capitalize() + "."


def template(rng: random.Random, *, lines: bool) -> tuple[str, str]:
    """A long text in two halves, between which the matter at hand goes."""
    glue = "\n" if lines else " "
    halves = [glue.join(sentence(rng, rng.randint(8, 20)) for _ in range(17)) for _ in range(2)]
    return halves[0].replace(".", "." if lines else ""), halves[1].replace(".", "." if lines else "")


def steps(rng: random.Random, name: str) -> list[dict[str, Any]]:
    """Six tool calls with results, and an answer."""
    rows: list[dict[str, Any]] = []
    for number in range(6):
        call = {
            "id": f"{name}_{number}",
            "type": "function",
            "function": {"name": "bash", "arguments": '{"command": "make"}'},
        }
        rows.append({"role": "assistant", "content": sentence(rng, 12), "tool_calls": [call]})
        rows.append(
            {"role": "tool", "tool_call_id": call["id"], "content": "\n".join(sentence(rng, 12) for _ in range(12))}
        )
    return [*rows, {"role": "assistant", "content": "ok"}]


@pytest.mark.parametrize("strip", [False, True], ids=["marker", "text alone"])
@pytest.mark.parametrize("short", [False, True], ids=["templates only", "short ones between"])
@pytest.mark.parametrize("lines", [True, False], ids=["lines", "one line"])
def test_what_is_particular_to_each_of_many_alike_survives(lines: bool, short: bool, strip: bool) -> None:
    """Twelve requests of 3 KB that differ in one clause in the middle, over several compactions, with the marker key or without."""
    rng = random.Random(7)
    front, back = template(rng, lines=lines)
    clauses = [
        f"{rng.choice(['Fix', 'Explain'])} gadget {rng.randint(10, 99)} called {''.join(rng.choices('abcdefghij', k=6))}"
        for _ in range(12)
    ]
    live: list[dict[str, Any]] = [{"role": "system", "content": "You are an agent."}]
    asked: list[dict[str, Any]] = []
    compactions = 0
    for number, clause in enumerate(clauses):
        requests = [
            f"{front}\n{clause}\n{back}" if lines else f"{front} {clause} {back}",
            *([f"go on {number}"] if short else []),
        ]
        for request in requests:
            asked.append({"role": "user", "content": request})
            live += [asked[-1], *steps(rng, f"c{number}_{len(live)}")]
            if estimate_tokens(live) > 6_000:
                after = compact(live, Limits(6_000))
                assert after is not None
                assert check(after, live).ok, str(check(after, live))
                live, compactions = after.thaw(), compactions + 1
                if strip:
                    live = [{key: value for key, value in row.items() if key != SUMMARY_KEY} for row in live]
    assert compactions >= 4
    text = "\n".join(text_of(row) for row in live)
    assert [clause for clause in clauses if clause.split()[-1] not in text] == []
    assert [found for found in requests_found(asked, live) if not found.found] == []


def test_short_requests_stay_whole() -> None:
    """M10: quick follow-ups are kept one by one, in order, word for word."""
    follow_ups = ["first do this", "no wait, that", "and be quick", "continue", "continue"]
    rows: list[dict[str, Any]] = [{"role": "user", "content": each} for each in follow_ups]
    for number in range(8):
        rows += steps(random.Random(number), f"s{number}")
    rows.append({"role": "user", "content": "now"})
    after = compact(rows, Limits(4_000))
    assert after is not None
    assert parse(text_of(after[0])).requests == tuple(follow_ups)
    assert [row for row in after if row == rows[-1]] == [after[-1]]


def test_equal_long_requests_refer_to_the_first() -> None:
    """What was asked twice in the same words is said once."""
    long = "please do it " * 40
    assert compare([long, "other", long]).shorten(2_000) == [long.strip(), "other", "same as r1"]


def test_texts_without_a_particular_word_are_told_apart_by_place() -> None:
    """Same words, other order; or one the beginning of the other: still two different lines."""
    one = "build the server then run the client and check the report before you deploy " * 4
    other = one + "again"
    swapped = " ".join(one.split()[1:] + one.split()[:1])
    short = compare([one, other, swapped]).shorten(150)
    assert len(set(short)) == 3


def test_repetitions_of_one_text_are_told_apart_by_where_they_end() -> None:
    """Where neither words nor runs differ, the short forms say at which word they do."""
    base = "check the server and the client before you deploy the report again. "
    short = compare([base * 4, base * 6, base * 8]).shorten(150)
    assert len(set(short)) == 3
    assert "[word " in short[1]
    assert "[word " in short[2]


def test_a_single_long_request_keeps_what_tells_most() -> None:
    """With nothing to compare it to, sentences with names and reasons go before filler."""
    filler = " ".join(f"this is filler number words {word} and nothing else." for word in WORDS)
    (short,) = compare(
        [f"{filler} The bug is in src/core/parser.py because parse_token() returns None. {filler}"]
    ).shorten(300)
    assert "src/core/parser.py" in short


def test_focus_decides_between_pieces() -> None:
    """What a focus names is kept before what else is there."""
    text = "\n".join(f"Item {number}: something about topic{number} for the record" for number in range(40))
    (short,) = compare([text], wanted=("topic37",)).shorten(120)
    assert "topic37" in short


@given(st.lists(st.text(max_size=300), min_size=1, max_size=8), st.integers(0, 3_000))
def test_shortening_any_texts(texts: list[str], room: int) -> None:
    """Each text has its line, of bounded size, in one line, distinct where the texts are."""
    short = compare(texts).shorten(room)
    assert len(short) == len(texts)
    assert all("\n" not in line for line in short)
    whole = [" ".join(text.split()) for text in texts]
    for at, line in enumerate(short):
        for other in range(at):
            assert line != short[other] or whole[at] == whole[other]


@given(st.lists(st.integers(0, 500), max_size=10), st.integers(0, 2_000), st.integers(0, 60))
def test_sharing_out(needs: list[int], room: int, floor: int) -> None:
    """Nobody gets more than needed, nobody less than the floor, and no more is given than there is but for the floor."""
    given_out = share_out(needs, room, floor)
    assert all(min(need, floor) <= got <= need for need, got in zip(needs, given_out, strict=True))
    assert sum(given_out) <= max(room, floor * len(needs))
    assert sum(given_out) == sum(needs) or sum(given_out) >= min(room, sum(needs)) - len(needs)


@given(st.sets(st.text(max_size=12), max_size=200), st.sets(st.text(max_size=12), max_size=50))
def test_a_fingerprint_never_forgets(added: set[str], others: set[str]) -> None:
    """What was added is found, after a round trip too; an empty one knows nothing."""
    made = Fingerprint().with_all(added)
    again = Fingerprint.read(str(made))
    assert again == made
    assert all(item in again for item in added)
    assert not any(item in Fingerprint() for item in others)


def test_a_fingerprint_is_seldom_wrong_and_never_full_of_itself() -> None:
    """Of strings that were not added few are found, and a full one takes no more."""
    made = Fingerprint().with_all(f"word{n}" for n in range(1_500))
    assert sum(f"other{n}" in made for n in range(2_000)) < 200
    full = made.with_all(f"more{n}" for n in range(20_000))
    assert sum(f"other{n}" in full for n in range(2_000)) < 600
    for junk in (None, 7, "", "not base64!", "QUJD"):
        assert Fingerprint.read(junk) == Fingerprint()


def test_only_one_summary_holds_all_requests_in_order() -> None:
    """Requests are numbered through, over compactions."""
    live: list[Any] = []
    for number in range(12):
        live += [
            {"role": "user", "content": f"request number {number}"},
            {"role": "assistant", "content": f"answer {number} " * 300},
        ]
        after = compact(live, Limits(2_500))
        live = live if after is None else after.thaw()
    (summary,) = [row for row in Messages.of(live) if is_summary(row)]
    requests = parse(text_of(summary)).requests
    kept = [text_of(row) for row in Messages.of(live) if is_real_user(row)]
    assert [*requests, *kept] == [f"request number {number}" for number in range(12)]
    assert len(requests) >= 4
