"""Somebody else's YAML: read, changed in a few places, and written so that the rest stays as its user has typed it.

Comments, order, quotes and indentation survive.  A comment hangs on the value before it, also one that means the lines that
follow; so whatever is put in or taken out here looks after the comment that hangs there.
"""

from __future__ import annotations

import io
from collections.abc import MutableMapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from .errors import BadInput

__all__ = ["dumped", "exchange", "keep_flow", "load", "prune", "put", "put_before", "remark"]

_STYLES = ((2, 2, 0), (2, 4, 2), (4, 2, 0), (4, 4, 2), (4, 6, 4), (3, 2, 0), (8, 2, 0), (2, 3, 1), (4, 4, 0))
"""How far mappings and lists are indented, and where the dash stands; the habit of most files first."""


def load(text: str) -> Any:
    """What a text holds, with its comments; raises whatever the parser does, and `BadInput` where there is none."""
    return _yaml().load(text)


def dumped(data: MutableMapping[str, Any], text: str = "") -> str:
    """`data` as YAML in the style of `text`, from which it was made; no comment line of that is lost."""
    old = text.splitlines(keepends=True)
    if data:
        style = _style_of(text)
        made = _merged(text, style, _written(data, style))
        if load(text) is None:  # nothing but comments, which hang on nothing
            made = "".join(line if line.endswith("\n") else f"{line}\n" for line in old) + made
    else:
        made = ""
    kept = {line.strip() for line in made.splitlines()}
    lost = [line.strip() for line in old if line.lstrip().startswith("#") and line.strip() not in kept]
    return made + "".join(f"{line}\n" for line in lost)


def put(block: MutableMapping[str, Any], name: str, value: Any) -> None:
    """Set a value; what follows it on its line keeps its distance."""
    token, before = _token(block, name), _width(block.get(name))
    block[name] = value
    if token is not None:
        token.column = max(0, token.column + _width(block[name]) - before)  # quotes are kept, so it is looked at


def put_before(block: MutableMapping[str, Any], other: str, name: str, value: Any) -> None:
    """Set a value, above that of `other` if that is there: what follows the last line of a block is often of the next."""
    insert = getattr(block, "insert", None)
    if insert is None or other not in block:
        block[name] = value
    else:
        insert(list(block).index(other), name, value)


def remark(block: MutableMapping[str, Any], name: str) -> bool:
    """Whether a comment hangs on a value."""
    token = _token(block, name)
    return token is not None and "#" in token.value


def exchange(names: list[Any], old: Sequence[Any], new: Sequence[Any]) -> None:
    """Take some names out of a list and put others in, where the first of them stood, or else at an end of it."""
    keep_flow(names)
    places = [at for at, name in enumerate(names) if name in old]
    if not places:
        last = len(names) - 1
        # What hangs on the last one is likely to be of what follows the list.
        places, start = [], 0 if last in _comments(names) else len(names)
        for name in reversed(new):
            names.insert(start, name)
        return
    for at, name in zip(places, new, strict=False):
        names[at] = name
    for name in reversed(new[len(places) :]):
        names.insert(places[-1] + 1, name)
    for at in reversed(places[len(new) :]):
        comments = _comments(names)
        hanging = comments.pop(at, None)
        del names[at]
        if hanging is not None and max(at - 1, 0) not in comments:
            comments[max(at - 1, 0)] = hanging


def keep_flow(found: Any) -> None:
    """Let a block or list in which nothing is yet be written as it was typed, in `{}` or `[]`, with what comes into it."""
    style = getattr(found, "fa", None)
    if style is not None and not len(found):
        style.set_flow_style()


def prune(block: MutableMapping[str, Any], name: str, *, ours: bool = False) -> None:
    """Take a block or list out in which nothing is left; one in `{}` or `[]` stays, as its user has typed it, unless it is `ours`."""
    found = block.get(name)
    if found is None or len(found) or not isinstance(found, (MutableMapping, list)):
        return
    style, hanging = getattr(found, "fa", None), _comments(found).pop(0, None)
    if hanging is not None and "#" in hanging[0].value:  # a comment needs something to hang on
        keep_flow(found)
        _comments(block)[name] = [None, None, hanging[0], None]
    elif ours or style is None or not style.flow_style():
        del block[name]


# -- inside -----------------------------------------------------------------------------------------------------------


def _token(block: MutableMapping[str, Any], name: str) -> Any:
    """The comment that hangs on a value."""
    found = _comments(block).get(name)
    return found[2] if found and len(found) > 2 else None


def _comments(block: Any) -> dict[Any, Any]:
    held = getattr(block, "ca", None)
    items: dict[Any, Any] = {} if held is None else held.items
    return items


def _width(value: Any) -> int:
    """How many characters a word takes, with its quotes."""
    return len(str(value)) + (2 if "Quoted" in type(value).__name__ else 0)


def _style_of(text: str) -> tuple[int, int, int]:
    """The style in which a text comes out as it was, or most like it."""

    def likeness(style: tuple[int, int, int]) -> float:
        made = _written(load(text), style)
        return 2.0 if made == text else SequenceMatcher(None, made.splitlines(), text.splitlines()).ratio()

    if not load(text):
        return _STYLES[0]
    best, most = _STYLES[0], 0.0
    for style in _STYLES:
        like = likeness(style)
        if like > most:
            best, most = style, like
        if like > 1.0:
            break
    return best


def _merged(text: str, style: tuple[int, int, int], made: str) -> str:
    """`made`, with the lines of `text` that nobody has changed as they were typed; `made` itself where that cannot be."""
    before = load(text)
    old, normal, new = (
        one.splitlines(keepends=True) for one in (text, "" if before is None else _written(before, style), made)
    )
    if [line.split() for line in old] != [line.split() for line in normal]:
        return made
    lines: list[str] = []
    for what, start, end, at, to in SequenceMatcher(None, normal, new, autojunk=False).get_opcodes():
        if what == "equal":
            lines += old[start:end]
        else:
            lines += [_moved(line, _shift(old, normal, start, new[at])) for line in new[at:to]]
    merged = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
    try:
        return merged if load(merged) == load(made) else made
    except Exception:  # noqa: BLE001 - lines of two indentations may be no YAML
        return made


def _shift(old: list[str], normal: list[str], at: int, line: str) -> int:
    """How much further in the lines around a place were typed than they are written, those as deep as `line`."""
    near = [n for n in (at, at - 1) if 0 <= n < len(old) and _depth(normal[n]) == _depth(line)]
    return _depth(old[near[0]]) - _depth(normal[near[0]]) if near else 0


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _moved(line: str, columns: int) -> str:
    return line if not line.strip() else " " * (_depth(line) + columns) + line.lstrip(" ")


def _written(data: Any, style: tuple[int, int, int] = _STYLES[0]) -> str:
    yaml, text = _yaml(), io.StringIO()
    yaml.indent(mapping=style[0], sequence=style[1], offset=style[2])
    yaml.dump(data, text)
    return text.getvalue()


def _yaml() -> Any:
    try:
        from ruamel.yaml import YAML  # noqa: PLC0415 - only few subcommands need it
    except ImportError:
        raise BadInput("reading config.yaml needs ruamel.yaml; in a checkout: pip install '.[cli]'") from None
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096  # long lines stay lines
    return yaml
