"""Keys and passwords leave no trace in a summary.

`redact` replaces what looks like a secret by `[redacted]`: the value beside a telling name (`API_KEY=…`,
`"password": "…"`, `--token …`), authorization headers, tokens of a known shape, private key blocks, and the password in
an address.  A rule is tried only where one of its hints stands, so ordinary text costs next to nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from attrs import frozen

from .wording import lowered

__all__ = ["REDACTED", "redact", "redact_all"]

REDACTED = "[redacted]"
_BETWEEN = "\n\x1e\x1e\n"


@frozen
class _Rule:
    """Hints (lower case), and an expression that begins where a hint does; its first group, if any, is no secret."""

    hints: tuple[str, ...]
    found: re.Pattern[str]


_VALUE = r"(?!\[redacted)[^\s\"'\\,;&)}\]<]{4,}"
_KEYS = "|".join(
    f"(?<={kind}{dash})"
    for kind in ("api", "access", "private", "auth", "encryption", "signing")
    for dash in ("", "[_-]")
)
_FLAGS = "|".join(f"(?<=--{name})" for name in ("token", "secret", "password", "passphrase")) + "|(?<=-key)"
_RULES = (
    _Rule(  # Authorization: Bearer abc, "Authorization": "token abc"
        ("authorization",),
        re.compile(r"(?i)(authorization[\\\"']*\s*[:=]\s*[\\\"']*)(?:(?:bearer|basic|token|digest)\s+)?[^\s\"'\\,;}]+"),
    ),
    _Rule(("cookie",), re.compile(r"(?i)(cookie[\\\"']*\s*:\s*[\\\"']*)[^\"'\\\n]+")),
    _Rule(("bearer",), re.compile(r"(?i)(\bbearer\s+)(?!\[)[\w.~+/=-]{8,}")),
    _Rule(  # name=value, "name": "value", --name value
        ("key", "secret", "token", "passw", "passphrase", "pwd", "credential"),
        re.compile(
            rf"(?i)((?:(?:{_KEYS})key|secret(?:[_-]?(?:access[_-]?)?key)?|token|passwd|password|passphrase|pwd|credentials?)(?:[_-]?id)?"
            rf"(?:[\\\"']*\s*(?:=>|[:=])\s*[\\\"']*|(?:{_FLAGS})[ ][\"']?)){_VALUE}"
        ),
    ),
    _Rule(  # shapes that are secrets wherever they stand
        (
            *("sk-", "sk_", "pk_", "rk_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox"),
            *("akia", "asia", "aiza", "eyj"),
        ),
        re.compile(
            r"\b(?:(?:sk|pk|rk)[-_](?:[a-zA-Z]+[-_])*[A-Za-z0-9_-]{8,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|glpat-[\w-]{16,}|"
            r"xox[abeprs]-[\w-]{8,}|(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)"
        ),
    ),
    _Rule(("://",), re.compile(r"(://[^\s/:@]{0,80}:)[^\s/@]{1,200}(?=@)")),
    _Rule(
        ("-----begin ",),
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^\x1e]*?(?:-----END [A-Z ]*PRIVATE KEY-----|(?=\n\x1e)|\Z)"),
    ),
)


def redact_all(texts: Sequence[str]) -> list[str]:
    """Redact many texts in one pass, which takes a fraction of the time for short ones."""
    found = redact(_BETWEEN.join(texts)).split(_BETWEEN)
    return found if len(found) == len(texts) else list(map(redact, texts))  # one of them holds the separator


def redact(text: str) -> str:
    """Return the text without what looks like a secret."""
    parts, done = [], 0
    for start, stop in sorted(_secrets(text)):
        if stop > done:
            parts += [text[done : max(start, done)], REDACTED if start >= done else ""]
            done = stop
    return "".join([*parts, text[done:]]) if parts else text


def _secrets(text: str) -> Iterable[tuple[int, int]]:
    """Where the secrets begin and end; they may overlap."""
    low = lowered(text)
    for rule in _RULES:
        for hint in rule.hints:
            at = low.find(hint)
            while at >= 0:
                match = rule.found.match(text, at)
                if match is None:
                    at = low.find(hint, at + 1)
                else:
                    yield match.end(1) if rule.found.groups else match.start(), match.end()
                    at = low.find(hint, match.end())
