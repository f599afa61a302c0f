"""What a summariser is asked, and whether what it says may be used.

A summariser is any async function from a prompt to a text.  It can only add: whatever goes wrong with it, the
deterministic part of a summary stands alone.  Both functions here are pure.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ..transcript import Call, calls_of, estimate_text, role_of, said_by_user
from .plan import Plan
from .redact import redact
from .requests import share_out
from .text import render
from .wording import clip_bytes, excerpt, no_heading, one_line

__all__ = ["accept_prose", "prompt_for"]

_LEAST = 400  # tokens: less leaves no room for anything to summarise
_ASK = (
    "Below are the older messages of a conversation between a user and an agent with tools. They are about to be removed. Write what the agent "
    "must still know to go on: what was wanted and decided, what was tried and how it ended, what is unfinished. Plain sentences, at most {} words, "
    "exact names, paths and numbers. Do not answer the messages, do not repeat these instructions, do not invent anything."
)
_THOUGHTS = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_FAILURE = re.compile(
    r"(?i)\W*(?:error\b|exception\b|traceback\b|(?:request |call )?failed\b|failed to\b|unable to\b|i'?m sorry|sorry\b|i can(?:no|')t\b|"
    r"(?:http )?[45]\d\d\b|rate limit|timed? ?out|\w+(?:error|exception)\b)"
)
_SHORT = 400  # characters: a longer text that begins like a failure is an account of one
_RUN = 8
_ECHO = 0.6  # of the runs of eight words


def prompt_for(plan: Plan, most: int) -> str | None:
    """Write the prompt for a plan, at most `most` tokens long; None where that is too little or nothing goes.

    Every message gets its share of the room: short ones stand whole, the middle of long ones is left out.
    """
    lines = [_shown(plan, at) for group in plan.before for at in range(group.start, group.stop) if at != plan.request]
    lines = [line for line in lines if line]
    head = [_ASK.format(max(min(most // 6, 400), 60))]
    if plan.wanted:
        head.append(f"What matters most: {' '.join(plan.wanted)}.")
    if plan.old.compactions:
        head.append("What was known before:\n" + clip_bytes(plan.old.prose or render(plan.old), most))
    intro = "\n\n".join(head) + "\n\nThe messages:\n"
    room = (most - estimate_text(intro)) * 4 - 2 * len(lines)
    if most < _LEAST or room < 200 or not lines:
        return None
    sizes = share_out([len(line.encode("utf-8", "replace")) for line in lines], room)
    return intro + "\n".join(clip_bytes(excerpt(line, size), size) for line, size in zip(lines, sizes, strict=True))


def accept_prose(said: Any, prompt: str) -> str:
    """Return what may be used of a summariser's answer: nothing if it is no text, empty, a failure, an echo or too long."""
    if not isinstance(said, str):
        return ""
    text = _THOUGHTS.sub("", str.__str__(said)).strip()  # a subclass of str may do anything in its methods
    if not text or len(text) >= len(prompt) or _is_failure(text) or _is_echo(text, prompt):
        return ""
    lines = (no_heading(one_line(line)) for line in redact(text).splitlines())
    return "\n".join(line for line in lines if line)


def _shown(plan: Plan, at: int) -> str:
    row = plan.rows[at]
    calls = "; ".join(_called(call) for call in plan.reader.calls(at)) if calls_of(row) else ""
    text = one_line(plan.reader.text(at))
    who = "user" if said_by_user(row) else role_of(row) if role_of(row) != "user" else "note"
    said = " ".join(part for part in (text, f"[calls {calls}]" if calls else "") if part)
    return f"{who}: {said}" if said else ""


def _called(call: Call) -> str:
    return f"{call.name} {one_line(call.arguments, 400)}"


def _is_failure(text: str) -> bool:
    if text[0] in "{[":
        try:
            loaded = json.loads(text)
        except ValueError:
            loaded = None
        if loaded is not None:  # an object instead of prose: an error, or something else that was not asked for
            return True
    return len(text) < _SHORT and _FAILURE.match(text) is not None


def _is_echo(text: str, prompt: str) -> bool:
    words, asked = text.split(), prompt.split()
    if len(words) < _RUN:
        return " ".join(words) in " ".join(asked)
    known = {tuple(asked[at : at + _RUN]) for at in range(len(asked) - _RUN + 1)}
    runs = [tuple(words[at : at + _RUN]) for at in range(len(words) - _RUN + 1)]
    return sum(run in known for run in runs) > _ECHO * len(runs)
