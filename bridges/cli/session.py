"""Reading a session file: chat-completions messages, one JSON object a line, assistant lines perhaps with `usage`.

A byte order mark, Windows line ends and blank lines are fine; blank lines count, so that line numbers are those of an
editor.  Everything else that is not as it should be is a `BadInput` that names file and line.  What is read is checked
whole before anything is done with it.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from attrs import frozen

from engines.messages import Messages, NotJSONError, Row
from engines.transcript import groups
from engines.transcript.rows import ROLES

from .errors import BadInput
from .shape import problem_in
from .terminal import clean

__all__ = ["Line", "Session", "parse_session", "read_session", "read_stdin", "reason_of", "shown", "stdin_descriptor"]

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_FIX = "correct the line or take it out"
_SPREAD = "a session file holds one message (a JSON object) a line, `jq -c '{}' FILE` makes that of it"


@frozen
class Line:
    """One message: its line number, the message, and what the provider reported with it."""

    number: int
    row: Row
    usage: Mapping[str, Any] | None = None

    @property
    def role(self) -> str:
        """Who speaks."""
        return str(self.row["role"])


@frozen
class Session:
    """A recorded session; `length` counts all lines of the file, blank ones too."""

    name: str
    lines: tuple[Line, ...]
    length: int

    @property
    def messages(self) -> Messages:
        """The whole recorded list."""
        return Messages.of([line.row for line in self.lines])

    @property
    def responses(self) -> int:
        """How many messages the model has written."""
        return sum(line.role == "assistant" for line in self.lines)


def read_session(path: Path) -> Session:
    """Read and check the file at `path`; raises `BadInput`."""
    file = shown(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise BadInput("there is no such file; give the path of a session file (JSON lines)", file=file) from None
    except IsADirectoryError:
        raise BadInput("is a directory; give the path of a session file (JSON lines) in it", file=file) from None
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot be read ({reason_of(error)}); give a file that can be", file=file) from None
    return parse_session(data, file=file, name=path.stem)


def read_stdin() -> Session:
    """Read and check what comes on stdin, which is called that; raises `BadInput`."""
    if sys.stdin is None:
        raise BadInput("is closed; give the path of a session file (JSON lines)", file="stdin")
    try:
        data = sys.stdin.buffer.read()
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot be read ({reason_of(error)}); give a file that can be", file="stdin") from None
    return parse_session(data, file="stdin", name="stdin")


def parse_session(data: bytes, *, file: str, name: str = "session") -> Session:
    """Check the contents of a session file; `file` is what errors call it, `name` names the conversation."""
    if not data.removeprefix(codecs.BOM_UTF8).strip():
        raise BadInput("the file is empty; a session file holds one message (a JSON object) a line", file=file)
    raw = data.removeprefix(codecs.BOM_UTF8).split(b"\n")
    lines = []
    for number, bytes_ in enumerate(raw, 1):
        if bytes_.strip():
            try:
                lines.append(_line(number, _text(bytes_)))
            except _Problem as problem:
                raise BadInput(str(problem), file=file, line=number) from None
    session = Session(name or "session", tuple(lines), len(raw) - (not raw[-1]))
    _check_results(session, file)
    return session


def shown(path: Path | str) -> str:
    """A path as it may stand in one line of text."""
    return clean(str(path), "?")


def stdin_descriptor() -> int | None:
    """The file descriptor of stdin, if it has one."""
    try:
        return sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):
        return None


def reason_of(error: Exception) -> str:
    """What the system says, without the name of the file that it says it of."""
    return getattr(error, "strerror", None) or str(error)


class _Problem(Exception):
    """What is wrong with one line."""


def _text(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _Problem(f"byte {error.start + 1} of the line is not UTF-8; save the file as UTF-8") from None


def _line(number: int, text: str) -> Line:
    value = _decoded(text)
    if not isinstance(value, dict):
        if isinstance(value, list):
            raise _Problem(f"is a whole array; {_SPREAD.format('.[]')}")
        named = "a text" if isinstance(value, str) else "a bare value"
        raise _Problem(f"is {named}, not an object; put one message (a JSON object) on each line")
    _check_surrogates(value, text)
    role = value.get("role")
    known = ", ".join(sorted(ROLES))
    if "role" not in value:
        if "messages" in value:
            raise _Problem(f"holds a whole conversation; {_SPREAD.format('.messages[]')}")
        raise _Problem(f"has no role; give the message one of: {known}")
    if not isinstance(role, str) or role not in ROLES:
        raise _Problem(f"has the role {_brief(role)}, which no provider knows; use one of: {known}")
    problem = problem_in(value)
    if problem is not None:
        raise _Problem(f"{problem}; {_FIX}")
    usage = value.pop("usage", None) if role == "assistant" else None
    try:
        return Line(number, Messages.of([value])[0], usage)
    except NotJSONError as error:
        raise _Problem(f"{error.path.removeprefix('messages[0]').lstrip('.')} {error.problem}; {_FIX}") from None


def _decoded(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        if text.lstrip().startswith("["):
            raise _Problem(f"begins an array; {_SPREAD.format('.[]')}") from None
        raise _Problem(f"is not JSON at column {error.colno} ({error.msg}); {_FIX}") from None
    except RecursionError:
        raise _Problem(f"is nested too deeply; {_FIX}") from None
    except ValueError as error:  # a number with thousands of digits
        raise _Problem(f"is not JSON that can be read ({error}); {_FIX}") from None


def _no_constant(name: str) -> NoReturn:
    raise _Problem(f"holds {name}, which JSON does not have; {_FIX}")


def _check_surrogates(value: Any, text: str) -> None:
    """JSON can spell half a character; such text cannot be sent to anybody, nor written."""
    if not _SURROGATE.search(text):
        return
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        half = f"\\u{ord(str(error.object)[error.start]):04x}"
        raise _Problem(f"holds {half}, half of a surrogate pair and no character; {_FIX}") from None


def _check_results(session: Session, file: str) -> None:
    for group in groups(session.messages):
        if group.orphan:
            line = session.lines[group.start]
            named = _brief(line.row.get("tool_call_id", line.row.get("name")))
            raise BadInput(
                f"is a tool result for {named}, which the assistant message before it did not call; put the call"
                " before it or take the line out",
                file=file,
                line=line.number,
            )


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
