"""How much of a conversation can still be found after it was compacted: the measure, not part of any engine.

    python -m engines.recall BEFORE.jsonl AFTER.jsonl

`BEFORE` is the whole recorded list, `AFTER` what was left at the end, however many compactions lie between.  A row of
`BEFORE` that stands unchanged in `AFTER` (same role, content and calls) is *kept*, any other is *removed*.

*Identifiers* are the distinct tokens of these kinds: URLs; file paths (with a directory, or a name with a known
ending); names of functions and errors (`name(`, `snake_case`, `CamelCase`, `...Error`); numbers of four digits or more;
hashes (hexadecimal with a digit and a letter, seven characters or more, `0x` or not); commands (the first line of what
a tool call asks a shell to run).  A token is *found* in a text where it stands whole: not as a part of a longer one.

* `recall`: of the identifiers in removed rows, the share found in `AFTER`.
* `recall(summary_only=True)`: of the identifiers in removed rows and in no kept row, the share found in the summary.
* `requests_found`: for every user message of `BEFORE` whether something is found in `AFTER` that is particular to
  it: three (or all, if it has fewer) of its words that stand in no other user message, or where it has none of those,
  three words in a row that do not.

The expressions below are the measure's own.  The compressor has its own lexer (`engines.compressor.lexer`), written for
ranking, and neither imports the other: what this tool finds is what stands in the text.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from .messages import Messages, NotJSONError
from .transcript import calls_of, is_bridge, is_real_user, is_summary, role_of, text_of

__all__ = ["Figures", "RequestFound", "figures", "identifiers", "main", "recall", "requests_found"]

_ENDINGS = "py|pyi|js|jsx|ts|tsx|c|h|cc|cpp|hpp|rs|go|rb|java|kt|pl|sh|md|rst|txt|json|jsonl|toml|ya?ml|cfg|ini|sql|html|css|csv|log|so"
_KINDS: Mapping[str, re.Pattern[str]] = {
    "url": re.compile(r"\bhttps?://[^\s\"'<>)\]`\\]+[^\s\"'<>)\]`\\.,;:!?]"),
    "path": re.compile(rf"(?<![\w/.:@-])(?:[~.]{{0,2}}/)?(?:[\w.@+-]+/)+[\w.@+-]*\w|(?<![\w/.-])[\w-]+\.(?:{_ENDINGS})\b(?![/\w])"),
    "name": re.compile(r"\b[A-Za-z_]\w{2,}(?=\()|\b[A-Za-z]\w*_\w+\b|\b[A-Z][a-z0-9]+[A-Z]\w*\b|\b\w+(?:Error|Exception|Warning)\b"),
    "number": re.compile(r"(?<![\w.])\d{4,}(?!\w|\.\d)"),
    "hash": re.compile(r"\b(?:0x[0-9a-f]{4,}|(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64})\b"),
}  # fmt: skip
_ENOUGH = 3
_SHELL_KEYS = ("command", "cmd", "script")
_WORD = re.compile(r"\w+(?:[./:'-]\w+)*")


@frozen
class RequestFound:
    """One user message: its row, whether anything particular to it was found, and what."""

    row: int
    found: bool
    by: str


@frozen
class Figures:
    """The figures of one compacted list; recalls are shares from 0 to 1, 1 where nothing was removed."""

    requests: int
    requests_found: int
    identifiers: int
    recall: float
    only_removed: int
    recall_by_summary: float


def identifiers(text: str) -> frozenset[str]:
    """Return the distinct identifiers in a text (commands apart, which only tool calls have)."""
    return frozenset(token for kind in _KINDS.values() for token in kind.findall(text))


def recall(before: Iterable[Any], after: Iterable[Any], *, summary_only: bool = False) -> float:
    """Return the share of removed identifiers that is still found; see the top of the module."""
    wanted, text = _wanted(Messages.of(before), Messages.of(after), summary_only)
    return _share(wanted, text)


def requests_found(before: Iterable[Any], after: Iterable[Any]) -> tuple[RequestFound, ...]:
    """Say for every user message of `before` whether it is found in `after` by what is particular to it."""
    text = "\n".join(_says(row) for row in Messages.of(after))
    words, folded = frozenset(_WORD.findall(text)), " ".join(_WORD.findall(text))
    asked = [(at, _WORD.findall(text_of(row))) for at, row in enumerate(Messages.of(before)) if is_real_user(row)]
    spread = Counter(word for _, said in asked for word in set(said))
    triples = Counter(triple for _, said in asked for triple in set(_triples(said)))
    found = []
    for at, said in asked:
        own = list(dict.fromkeys(word for word in said if spread[word] == 1))
        there = [word for word in own if word in words]
        by = " ".join(there[:5]) if len(there) >= min(_ENOUGH, len(own)) else ""
        if not own:
            rows = [" ".join(triple) for triple in _triples(said) if triples[triple] == 1] or [" ".join(said)]
            by = next((row for row in rows if row in folded), "")
        found.append(RequestFound(at, bool(by), by))
    return tuple(found)


def figures(before: Iterable[Any], after: Iterable[Any]) -> Figures:
    """Reckon all figures at once."""
    before, after = Messages.of(before), Messages.of(after)
    requests = requests_found(before, after)
    wanted, text = _wanted(before, after, summary_only=False)
    lost, summary = _wanted(before, after, summary_only=True)
    return Figures(
        requests=len(requests),
        requests_found=sum(request.found for request in requests),
        identifiers=len(wanted),
        recall=_share(wanted, text),
        only_removed=len(lost),
        recall_by_summary=_share(lost, summary),
    )


def _wanted(before: Messages, after: Messages, summary_only: bool) -> tuple[frozenset[str], str]:
    """Return the identifiers to look for, and the text to look in."""
    kept = {_identity(row) for row in after}
    removed = frozenset().union(*[_tokens(row) for row in before if _identity(row) not in kept and not _made(row)])
    if not summary_only:
        return removed, "\n".join(_says(row) for row in after)
    standing = frozenset().union(*[_tokens(row) for row in after if not is_summary(row)])
    return removed - standing, "\n".join(_says(row) for row in after if is_summary(row))


def _share(wanted: frozenset[str], text: str) -> float:
    return sum(_stands(token, text) for token in wanted) / len(wanted) if wanted else 1.0


def _stands(token: str, text: str) -> bool:
    """Whether a token stands whole in a text."""
    at = text.find(token)
    while at >= 0:
        end = at + len(token)
        if not (_joins(text[at - 1 : at], token[0]) or _joins(text[end : end + 1], token[-1])):
            return True
        at = text.find(token, at + 1)
    return False


def _joins(outer: str, inner: str) -> bool:
    return bool(outer) and (outer.isalnum() or outer == "_") and (inner.isalnum() or inner == "_")


def _tokens(row: Mapping[str, Any]) -> frozenset[str]:
    return identifiers(_says(row)) | {command for call in calls_of(row) for command in _commands(call.arguments)}


def _says(row: Mapping[str, Any]) -> str:
    """What a row says, the arguments of calls as the values they are, not as escaped JSON."""
    return "\n".join([text_of(row), *[f"{call.name}\n{_values(_loaded(call.arguments))}" for call in calls_of(row)]])


def _values(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(map(_values, value.values()))
    return "\n".join(map(_values, value)) if isinstance(value, list) else str(value)


def _commands(arguments: str) -> Iterable[str]:
    loaded = _loaded(arguments)
    for key in _SHELL_KEYS if isinstance(loaded, dict) else ():
        said = loaded.get(key)
        if isinstance(said, str) and said.strip():
            yield said.strip().splitlines()[0].strip()


def _loaded(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _identity(row: Mapping[str, Any]) -> Any:
    return (role_of(row), row.get("content"), calls_of(row))


def _made(row: Mapping[str, Any]) -> bool:
    return is_summary(row) or is_bridge(row)


def _triples(words: Sequence[str]) -> Iterable[tuple[str, ...]]:
    return zip(words, words[1:], words[2:], strict=False)


class _UnreadableError(Exception):
    """A file that is no recorded list, or none at all; the text says what to do about it."""


def _read(name: str) -> Messages:
    rows = []
    try:
        for number, line in enumerate(Path(name).read_text(encoding="utf-8").splitlines(), 1):
            if line.strip():
                try:
                    rows.append(json.loads(line))
                except (ValueError, RecursionError) as error:
                    raise _UnreadableError(f"{name}:{number}: not JSON: {error}") from None
        return Messages.of(rows)
    except OSError as error:
        raise _UnreadableError(f"{name}: cannot be read: {error.strerror or error}") from None
    except (UnicodeDecodeError, NotJSONError, RecursionError) as error:
        raise _UnreadableError(f"{name}: {error}") from None


def main(argv: Sequence[str] | None = None) -> None:
    """Print the figures for two JSONL files; ends with one line on stderr (exit 2) where one cannot be read."""
    names = sys.argv[1:] if argv is None else argv
    try:
        if len(names) != 2:
            raise _UnreadableError("usage: python -m engines.recall BEFORE.jsonl AFTER.jsonl")
        before, after = map(_read, names)
    except _UnreadableError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from None
    found = figures(before, after)
    lines = [
        f"requests found: {found.requests_found} of {found.requests}",
        f"identifiers in removed rows: {found.identifiers}, found: {found.recall:.1%}",
        f"of them in no kept row: {found.only_removed}, found in the summary: {found.recall_by_summary:.1%}",
        *[f"  row {each.row}: {each.by if each.found else 'NOT FOUND'}" for each in requests_found(before, after)],
    ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
