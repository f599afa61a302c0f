"""Keys and passwords leave no trace in a summary.

`redact` replaces what looks like a secret by `[redacted]`: the value beside a telling name (`API_KEY=…`,
`"password": "…"`, `--token …`), authorization headers, tokens of a known shape, private key blocks, and the password in
an address.  It looks closer only at lines that hold a telling word, so ordinary text costs next to nothing.
"""

from __future__ import annotations

import re

__all__ = ["REDACTED", "redact"]

REDACTED = "[redacted]"

_HINTS = (
    *("key", "token", "secret", "passw", "pwd", "authorization", "bearer", "credential", "cookie"),
    *("sk-", "sk_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat", "glpat-", "xox", "akia", "asia", "eyj", "aiza", "@"),
)
_BLOCK = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_RULES = (
    # Authorization: Bearer abc, "Authorization": "token abc", Cookie: a=b; c=d
    (re.compile(r"(?i)(\b(?:proxy-)?authorization\b[\\\"']*\s*[:=]\s*[\\\"']*)(?:(?:bearer|basic|token|digest)\s+)?[^\s\"'\\,;}]+"), rf"\1{REDACTED}"),
    (re.compile(r"(?i)(\b(?:set-)?cookie\b[\\\"']*\s*:\s*[\\\"']*)[^\"'\\\n]+"), rf"\1{REDACTED}"),
    (re.compile(r"(?i)(\bbearer\s+)(?!\[)[\w.~+/=-]{8,}"), rf"\1{REDACTED}"),
    # name = value, "name": "value", --name value; a name that ends in key, token, secret, password ...
    (
        re.compile(
            r"(?i)((?<![a-z])[\w.-]{0,60}?(?:api[_-]?key|access[_-]?key(?:[_-]?id)?|private[_-]?key|secret[_-]?key|auth[_-]?key|secret|"
            r"token|passwd|password|passphrase|pwd|credentials?)[\\\"']*\s*(?:=>|[:=])\s*[\\\"']*|--?(?:api-?key|token|secret|password|passphrase)[ =][\"']?)"
            r"(?!\[redacted)([^\s\"'\\,;&)}\]<]{4,})"
        ),
        rf"\1{REDACTED}",
    ),
    # shapes that are secrets wherever they stand
    (
        re.compile(
            r"\b(?:sk|pk|rk)[-_](?:[a-zA-Z]+[-_])*[A-Za-z0-9_-]{8,}|\bgh[pousr]_[A-Za-z0-9]{16,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}|"
            r"\bxox[abeprs]-[\w-]{8,}|\b(?:AKIA|ASIA)[A-Z0-9]{12,}|\bAIza[\w-]{30,}|\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"
        ),
        REDACTED,
    ),
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s/:@]{0,80}:)[^\s/@]{1,200}(?=@)"), rf"\1{REDACTED}"),
)  # fmt: skip


def redact(text: str) -> str:
    """Return the text without what looks like a secret."""
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS):
        return text
    if "private key-----" in lowered:
        text = _BLOCK.sub(REDACTED, text)
    return "\n".join([_line(line) if _suspect(line) else line for line in text.split("\n")])


def _suspect(line: str) -> bool:
    lowered = line.lower()
    return any(hint in lowered for hint in _HINTS)


def _line(line: str) -> str:
    for rule, instead in _RULES:
        line = rule.sub(instead, line)
    return line
