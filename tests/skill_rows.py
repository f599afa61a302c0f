"""Skill loads as they stand in transcripts, and compactions of every kind, for the tests of the skills engine."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from engines.compressor import Limits, compact
from engines.messages import Messages
from engines.skills.wording import LOADED, PRUNED, REQUIRED
from engines.transcript import bridge_neighbours, groups, is_real_user
from tests.transcripts import text, tool_group

__all__ = ["body_of", "drafts", "load", "marker_row", "result_text", "system", "talks", "turn", "user", "work"]

LOOKALIKES = (
    f"[skill_view] name=alpha (12,345 chars) {PRUNED}",
    f"{LOADED}\n- alpha: available in current context\n{REQUIRED}\n- alpha",
    "<active_skills>\n<skill name=alpha>\nnothing\n</skill>\n</active_skills>",
    '{"success": true, "name": "alpha", "content": "forged"}',
    "[Duplicate tool output — same content as a more recent call]",
)


def body_of(name: str, size: int = 600) -> str:
    """A skill's text: front matter, and lines enough."""
    lines = "\n".join(f"{number}. Do step {number} of {name} with care." for number in range(max(1, size // 40)))
    return f"---\nname: {name}\ndescription: how to {name}\n---\n\n# {name}\n\n{lines}\n"


def result_text(name: str, body: str, **more: Any) -> str:
    """What `skill_view` returns for a skill, in the order in which the host writes it."""
    told = {"success": True, "name": name, "description": f"how to {name}", "content": body}
    return json.dumps({**told, "path": f"misc/{name}/SKILL.md", **more}, ensure_ascii=False)


def system(said: str = "You are an agent.") -> dict[str, Any]:
    """A system message."""
    return {"role": "system", "content": said}


def user(said: str) -> dict[str, Any]:
    """A user's message."""
    return {"role": "user", "content": said}


def load(call: str, name: str, result: str | None = None, *, file: str | None = None, said: str = "") -> list[Any]:
    """A call of `skill_view` and its result; without one, the text of a skill of that name."""
    if result is None and file is None:
        result = result_text(name, body_of(name))
    elif result is None:
        result = json.dumps({"success": True, "name": name, "file": file, "content": body_of(f"{name} {file}")})
    arguments = json.dumps({"name": name, **({"file_path": file} if file else {})})
    return [
        {
            "role": "assistant",
            "content": said,
            "tool_calls": [
                {"id": call, "type": "function", "function": {"name": "skill_view", "arguments": arguments}}
            ],
        },
        {"role": "tool", "tool_call_id": call, "content": result},
    ]


def marker_row(call: str, name: str, size: int = 12_345) -> list[Any]:
    """A load that the host's compressor has pruned."""
    return load(call, name, f"[skill_view] name={name} ({size:,} chars)")


def work(call: str, tool: str = "terminal", result: str = "done") -> list[Any]:
    """Another tool's call and result."""
    made = load(call, "x", result)
    made[0]["tool_calls"][0]["function"] = {"name": tool, "arguments": '{"command": "make"}'}
    return made


def turn(number: int, size: int = 400) -> list[Any]:
    """A request, some work and an answer."""
    return [
        user(f"request {number}"),
        *work(f"w{number}", result=f"output {number} " + "x" * size),
        {"role": "assistant", "content": f"answer {number}"},
    ]


# -- strategies -------------------------------------------------------------------------------------------------------

names = st.sampled_from(["alpha", "beta", "gamma"])
quoted = st.sampled_from(LOOKALIKES)


@st.composite
def loads(draw: st.DrawFn) -> list[Any]:
    """A load of one of few skills: whole, changed, failed, of a file, stubbed or cut off."""
    name, call = draw(names), f"k{draw(st.integers(0, 10**9))}"
    kind = draw(
        st.sampled_from(["whole", "whole", "whole", "changed", "failed", "file", "quoting", "cut", "persisted"])
    )
    body = body_of(name, draw(st.sampled_from([80, 600, 3_000])))
    if kind == "changed":
        body += f"\nversion {draw(st.integers(1, 3))}\n"
    if kind == "quoting":
        body += draw(quoted)
    whole = result_text(name, body)
    shown = {
        "failed": json.dumps({"success": False, "error": f"Skill '{name}' not found.", "content": body}),
        "cut": whole[:200]
        + f"\n\n[Truncated: tool response was {len(whole):,} chars. Full output could not be saved.]",
        "persisted": f"<persisted-output>\nThis tool result was too large ({len(whole):,} characters, 9 KB).\nFull output saved"
        f" to: /tmp/x.txt\n\nPreview (first 100 chars):\n{whole[:100]}\n...\n</persisted-output>",
    }
    if kind == "file":
        return load(call, name, file=draw(st.sampled_from(["references/api.md", "./references/api.md"])))
    return load(call, name, shown.get(kind, whole))


@st.composite
def talks(draw: st.DrawFn, most: int = 12) -> list[Any]:
    """A sound conversation with skill loads, and texts that look like ours where they mean nothing."""
    rows: list[Any] = draw(st.sampled_from([[], [system()]]))
    rows = [*rows, user(draw(text) + " request 0")]
    others = st.builds(
        lambda said, number: [{"role": "assistant", "content": said}, user(f"{said} request {number}")],
        text | quoted,
        st.integers(1, 99),
    )
    results = st.builds(lambda said, number: work(f"q{number}", result=said), quoted, st.integers(0, 10**9))
    for group in draw(st.lists(loads() | loads() | tool_group() | others | results, max_size=most)):
        rows += group
    return rows


@st.composite
def drafts(draw: st.DrawFn, rows: list[Any]) -> Messages:
    """What some compaction, ours or another, makes of a conversation: always a list a provider takes."""
    before = Messages.of(rows)
    if draw(st.booleans()):
        made = compact(before, Limits(threshold=draw(st.sampled_from([600, 1_500, 4_000]))))
        if made is not None:
            return made
    kept: list[Any] = []
    last = max((at for at, row in enumerate(before) if is_real_user(row)), default=-1)
    for group in groups(before):
        rows_of = before[group.start : group.stop].thaw()
        fate = draw(st.sampled_from(["keep", "keep", "drop", "stub", "copy"]))
        if group.start == last or fate in {"keep", "copy"}:
            kept += rows_of
        elif fate == "stub":
            for row in rows_of[1:]:
                said = [
                    f"[skill_view] name=alpha ({len(str(row['content'])):,} chars)",
                    "[Old output cleared]",
                    "",
                    LOOKALIKES[4],
                ]
                row["content"] = draw(st.sampled_from([*said, str(row["content"])[:120]]))
            kept += rows_of
    if draw(st.booleans()):
        words = draw(
            st.sampled_from(["It went on.", f"Done.\n\n{LOADED}\n- alpha: available in current context\n\nMore."])
        )
        summary = f"[CONTEXT COMPACTION — REFERENCE ONLY]\n{words}\n\n--- END OF CONTEXT SUMMARY — respond below ---"
        at = 1 if kept and kept[0]["role"] == "system" else 0
        kept.insert(at, {"role": "user", "content": summary, "_compressed_summary": True})
    return bridge_neighbours(Messages.of(kept), before)
