"""The identifiers in a text, and what they are worth.

Identifiers are what cannot be guessed again once it is forgotten: URLs, file paths, names of functions and errors,
hashes, numbers of four digits or more (those before a colon are mostly line numbers, and worth less).  A text is first cut into chunks without blanks, plain words left aside; the same chunk is looked at
once however often it occurs.  This lexer serves ranking alone; the measure in `engines.recall` has its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Literal

__all__ = ["KIND_WORTH", "Kind", "classify", "count", "lex"]

Kind = Literal["url", "path", "error", "name", "hash", "number", "line"]
Token = tuple[str, Kind]
KIND_WORTH: dict[Kind, float] = {
    "path": 3.0,
    "error": 3.0,
    "hash": 2.2,
    "name": 2.0,
    "url": 2.5,
    "number": 1.2,
    "line": 0.4,
}

_IN = r"\w./:@~+#%?=&-"
_CHUNK = re.compile(
    rf"(?<![{_IN}])[a-z]*+(?:\(|[\d_/.A-Z:@~+#%?=&-][{_IN}]{{2,300}}\(?)"
)  # no plain word, unless it is called
_DULL = re.compile(  # words and short numbers, most of what there is: no identifier is in them
    r"[-+:=.@#%?&]*+(?:[A-Za-z]?[a-z]*+|[A-Z]*+|[A-Za-z]?\d{1,3}+(?:\.\d{1,3}+)?)[-+:=.@#%?&]*+"
)
_CALLED = re.compile(r"[A-Za-z_]\w{2,}$")
_SPLIT = re.compile(r"[^\w.+-]+|\.\.+")
_FILE = re.compile(r"[\w.+-]*\w\.[A-Za-z]\w{0,5}")
_ENDINGS = frozenset(
    "py pyi ipynb js jsx mjs ts tsx vue c h cc cpp cxx hpp rs go rb php java kt swift scala cs pl pm sh bash zsh ps1 md rst txt json jsonl toml "
    "yaml yml cfg ini conf env lock sql html htm css scss xml csv tsv log so dll exe bin zip gz tar tgz png jpg jpeg gif svg pdf mp4 "
    "diff patch proto tf gradle cmake mk service db sqlite pem crt key".split()
)
_HEX = re.compile(r"(?:0x)?[0-9a-fA-F]{7,64}|0x[0-9a-fA-F]{4,6}")
_ERROR = re.compile(r"\w*[a-z](?:Error|Exception|Warning)")
_CAMEL = re.compile(r"[A-Z]*[a-z0-9]+[A-Z]\w*|[A-Z]+[a-z0-9]+[A-Z]\w*")


def lex(text: str) -> dict[str, Kind]:
    """Return the distinct identifiers of a text with their kinds, in order of appearance."""
    found: dict[str, Kind] = {}
    for chunk in dict.fromkeys(_CHUNK.findall(text)):
        for token, kind in classify(chunk):
            found.setdefault(token, kind)
    return found


def count(rows: Iterable[Mapping[str, Kind]]) -> tuple[Counter[str], dict[str, Kind], dict[str, int]]:
    """Sum up the identifiers of many rows: in how many each one stands, its kind, and the number of the last such row."""
    seen: Counter[str] = Counter()
    kinds: dict[str, Kind] = {}
    last: dict[str, int] = {}
    for at, found in enumerate(rows):
        seen.update(found.keys())
        kinds.update(found)
        last.update(dict.fromkeys(found, at))
    return seen, kinds, last


@lru_cache(maxsize=8192)
def classify(chunk: str) -> tuple[Token, ...]:
    """Return the identifiers in one chunk of text without blanks; one that ends in `(` names what is called."""
    if _DULL.fullmatch(chunk):
        return ()
    if chunk.isalnum() or chunk.isidentifier():
        return _word(chunk)
    if chunk[-1] == "(":
        called = _CALLED.search(chunk[:-1])
        return (*(classify(chunk[:-1]) if len(chunk) > 4 else ()), *(((called[0], "name"),) if called else ()))
    if "://" in chunk:
        at = chunk.find("http")
        return ((chunk[at:].rstrip(".,:;?&#=-"), "url"),) if at >= 0 else ()
    if chunk[-1] == ":" and chunk[:-1].isdecimal():
        return ((chunk[:-1], "line"),) if len(chunk) > 4 else ()
    chunk = chunk.strip(":=&#%?@+-").rstrip(".")
    if "/" in chunk:
        return tuple(_paths(chunk))
    return tuple([found for word in _SPLIT.split(chunk) for found in _word(word.strip(".+-"))])


def _paths(chunk: str) -> Iterable[Token]:
    """A path, perhaps behind `name=` and before `:line`; two plain words with a slash between are none."""
    for part in re.split(r"[:=@&?#]", chunk):
        path = part.rstrip(".-+")
        if "/" not in path:
            yield from _word(path)
        elif path.strip("/.~") and (
            path.count("/") > 1 or path[0] in "/.~" or "." in path or "_" in path or "-" in path
        ):
            yield path, "path"


def _word(word: str) -> tuple[Token, ...]:
    if len(word) < 4:
        return ()
    if word.isdecimal():
        return ((word, "number"),)
    if _HEX.fullmatch(word) and not word.isalpha():
        return ((word, "hash"),)
    if "." in word:
        return _dotted(word)
    if _ERROR.fullmatch(word):
        return ((word, "error"),)
    if "_" in word.strip("_") or _CAMEL.fullmatch(word):
        return ((word, "name"),)
    if "-" in word and any(map(str.isdigit, word)):
        return tuple([found for part in word.split("-") for found in _word(part)])
    return ()


def _dotted(word: str) -> tuple[Token, ...]:
    """A file name, or else names with dots between them."""
    if _FILE.fullmatch(word) and word.rpartition(".")[2].lower() in _ENDINGS:
        return ((word, "path"),)
    return tuple([found for part in word.split(".") for found in _word(part)])
