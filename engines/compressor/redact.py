"""Keys and passwords leave no trace in a summary.

`redact` replaces what looks like a secret by `[redacted]`: the value beside a telling name (`API_KEY=…`,
`"password": "…"`, `--token …`), authorization headers, tokens of a known shape, private key blocks, and the password in
an address.  Each rule looks only at lines that hold one of its hints, so ordinary text costs next to nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from attrs import frozen

from .wording import lines_with, lowered

__all__ = ["REDACTED", "redact", "redact_all"]

REDACTED = "[redacted]"
_BETWEEN = "\n\x1e\x1e\n"


@frozen
class _Rule:
    """What to look for (lower case, anywhere in a line), the expression, and what to put in its place."""

    hints: tuple[str, ...]
    found: re.Pattern[str]
    instead: str


_BLOCK = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_RULES = (
    _Rule(  # Authorization: Bearer abc, "Authorization": "token abc"
        ("authorization",),
        re.compile(r"(?i)(authorization[\\\"']*\s*[:=]\s*[\\\"']*)(?:(?:bearer|basic|token|digest)\s+)?[^\s\"'\\,;}]+"),
        rf"\1{REDACTED}",
    ),
    _Rule(("cookie",), re.compile(r"(?i)(\bcookie[\\\"']*\s*:\s*[\\\"']*)[^\"'\\\n]+"), rf"\1{REDACTED}"),
    _Rule(("bearer",), re.compile(r"(?i)(\bbearer\s+)(?!\[)[\w.~+/=-]{8,}"), rf"\1{REDACTED}"),
    _Rule(  # name=value, "name": "value", --name value, where the name ends in key, token, secret, password ...
        ("_key", "-key", "apikey", "accesskey", "privatekey", "secretkey", "authkey", "token", "secret", "passw", "passphrase", "pwd", "credential"),
        re.compile(
            r"(?i)((?:(?:api|access|private|secret|auth|encryption|signing)[_-]?key(?:[_-]?id)?|secret|token|passwd|password|passphrase|pwd|credentials?)"
            r"(?:[\\\"']*\s*(?:=>|[:=])\s*|[ =](?<=--token[ =])|[ =](?<=--secret[ =])|[ =](?<=--password[ =])|[ =](?<=-key[ =]))[\\\"']*)"
            r"(?!\[redacted)[^\s\"'\\,;&)}\]<]{4,}"
        ),
        rf"\1{REDACTED}",
    ),
    _Rule(  # shapes that are secrets wherever they stand
        ("sk-", "sk_", "pk_", "rk_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "akia", "asia", "aiza", "eyj"),
        re.compile(
            r"\b(?:sk|pk|rk)[-_](?:[a-zA-Z]+[-_])*[A-Za-z0-9_-]{8,}|\bgh[pousr]_[A-Za-z0-9]{16,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}|"
            r"\bxox[abeprs]-[\w-]{8,}|\b(?:AKIA|ASIA)[A-Z0-9]{12,}|\bAIza[\w-]{30,}|\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"
        ),
        REDACTED,
    ),
    _Rule(("://",), re.compile(r"(://[^\s/:@]{0,80}:)[^\s/@]{1,200}(?=@)"), rf"\1{REDACTED}"),
)  # fmt: skip


def redact_all(texts: Sequence[str]) -> list[str]:
    """Redact many texts in one pass, which takes a fraction of the time for short ones."""
    found = redact(_BETWEEN.join(texts)).split(_BETWEEN)
    return found if len(found) == len(texts) else list(map(redact, texts))  # a text holds the separator, or a block had no end


def redact(text: str) -> str:
    """Return the text without what looks like a secret."""
    if "PRIVATE KEY-----" in text:
        text = _BLOCK.sub(REDACTED, text)
    low = lowered(text)
    for rule in _RULES:
        spans = lines_with(text, rule.hints, low)
        if spans:
            parts, done = [], 0
            for start, stop in spans:
                parts += [text[done:start], rule.found.sub(rule.instead, text[start:stop])]
                done = stop
            text = "".join([*parts, text[done:]])
            low = lowered(text)
    return text
