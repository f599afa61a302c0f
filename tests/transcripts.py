"""Hypothesis strategies for chat transcripts as they really come: messy."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

WORDS = (
    "the fix in parser.py broke test_tokens because src/core/lexer.py returns None at line 1474 ValueError: bad token 0x7ffe12ab "
    "https://example.org/issues/42 please run pytest -q and check deadbeef12 again naïve 測試 é \ud800 done"
).split(" ")

text = st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join) | st.text(max_size=30)
long_text = st.builds(
    lambda words, times: " ".join(words * times),
    st.lists(st.sampled_from(WORDS), min_size=3, max_size=12),
    st.integers(1, 120),
)
image = st.just({"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 3000}})
part = text | st.builds(lambda said: {"type": "text", "text": said}, text) | image
content = text | long_text | st.none() | st.lists(part, max_size=3) | st.builds(lambda said: {"text": said}, text)
extra = st.dictionaries(
    st.sampled_from(["usage", "_db", "name_hint"]), st.none() | st.integers() | st.just({"a": [1, 2.5]}), max_size=1
)
arguments = st.builds(
    lambda key, said: json.dumps({key: said}),
    st.sampled_from(["command", "path", "query", "name", "content"]),
    text | long_text,
) | st.sampled_from(["", "{broken", "[]", "null"])


@st.composite
def tool_group(draw: st.DrawFn, *, complete: bool = True) -> list[dict[str, Any]]:
    """An assistant message with calls and their results; some results are missing unless `complete`."""
    count = draw(st.integers(1, 3))
    ids = [f"call_{draw(st.integers(0, 10**6))}_{number}" for number in range(count)]
    names = st.sampled_from(["bash", "read_file", "skill_view", "edit_file", "search"])
    calls = [
        {"id": each, "type": "function", "function": {"name": draw(names), "arguments": draw(arguments)}}
        for each in ids
    ]
    said = draw(text | st.none())
    rows: list[dict[str, Any]] = [{"role": "assistant", "content": said, "tool_calls": calls, **draw(extra)}]
    answered = ids if complete else draw(st.lists(st.sampled_from(ids), unique=True, max_size=count))
    rows += [{"role": "tool", "tool_call_id": each, "content": draw(content | long_text)} for each in answered]
    return rows


user = st.builds(lambda said, more: [{"role": "user", "content": said, **more}], content, extra)
asked = st.builds(
    lambda said, number: [{"role": "user", "content": f"{said} request number {number}"}],
    text | long_text,
    st.integers(0, 10**6),
)
assistant = st.builds(
    lambda said, more: [{"role": "assistant", "content": said, "tool_calls": None, **more}], content, extra
)
synthetic = st.just([{"role": "user", "content": "[status] still running", "_empty_recovery_synthetic": True}])
orphan = st.just([{"role": "tool", "tool_call_id": "nobody", "content": "late result"}])
odd = st.sampled_from(
    [
        [{"role": "critic", "content": "hm"}],
        [{"role": "system", "content": "a note of the host"}],
        [{"content": "no role"}],
    ]
)
system = st.sampled_from(
    [
        [],
        [{"role": "system", "content": "You are an agent."}],
        [{"role": "system", "content": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}]}],
    ]
)


@st.composite
def transcripts(draw: st.DrawFn, *, most: int = 25) -> list[dict[str, Any]]:
    """A whole conversation: mostly sound, with the faults that real ones have."""
    groups = st.one_of(
        asked,
        asked,
        assistant,
        tool_group(),
        tool_group(),
        tool_group(),
        user,
        synthetic,
        orphan,
        odd,
        tool_group(complete=False),
    )
    rows = list(draw(system))
    for group in draw(st.lists(groups, max_size=most)):
        rows += group
    if draw(st.booleans()):
        rows += draw(tool_group(complete=False))
    return rows
