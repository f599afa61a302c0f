"""The commands that README and the pages show are run, in order, in an empty directory, and show something."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from bridges.cli import app, main
from tests.conftest import CHECKOUT

PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").glob("**/*.md"))]
_OURS = {"demo", "replay", "trace", "experiment"}  # those that need no host


def blocks(page: str, *languages: str) -> list[str]:
    """The fenced blocks of a page in these languages; the empty one is that of blocks without a name."""
    found: list[str] = []
    language: str | None = None
    for line in (CHECKOUT / page).read_text(encoding="utf-8").splitlines(keepends=True):
        if line.startswith("```"):
            language = line[3:].strip() if language is None else None
            found += [""] if language in languages else []
        elif language in languages:
            found[-1] += line
    return found


def commands(page: str) -> list[list[str]]:
    """What a page tells its reader to type, without prompts, remarks and what reads the output."""
    lines = [line.removeprefix("$ ") for block in blocks(page, "console", "") for line in block.splitlines()]
    typed = [shlex.split(re.sub(r"\s#.*", "", line)) for line in lines if line.startswith("hermes-dataspace ")]
    return [words[1 : words.index("|") if "|" in words else None] for words in typed if words[1] in _OURS]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/how-to/replay-a-session.md"])
def test_what_a_page_shows_can_be_typed(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From top to bottom with nothing but what the page makes; whatever replays a session compacts it, or the page says why not."""
    monkeypatch.chdir(tmp_path)
    found = commands(page)
    assert {"demo", "replay"} <= {words[0] for words in found}
    for words in found:
        code = main(words)
        out, err = capsys.readouterr()
        assert (0, "") == (code, err), words
        compacted = re.search(r'compactions(=|": )[1-9]', out)
        assert words[0] in {"trace", "experiment"} or "--save" in words or compacted, words
        assert out.count("\n") > 0, words


def test_a_page_that_writes_can_be_run_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the same reader in the same directory, in which it leaves nothing."""
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        names: dict[str, object] = {}
        for block in blocks("docs/how-to/see-who-did-what.md", "python"):
            exec(block, names)
    assert [] == list(tmp_path.iterdir())


def test_it_is_installed_in_one_way() -> None:
    """From a checkout: no page and no message names a package that no index has."""
    sources = [path for top in ("dataspace", "engines", "bridges") for path in (CHECKOUT / top).glob("**/*.py")]
    wrong = re.compile(r"pip install ['\"]?hermes-dataspace")
    assert [] == [path for path in [*PAGES, *sources] if wrong.search(path.read_text(encoding="utf-8"))]


def test_summaries_of_subcommands_are_whole() -> None:
    """`--help` cuts off what is longer than its line."""
    groups = [app.command, *(one for one in app.command.commands.values() if hasattr(one, "commands"))]
    for group in groups:
        for name, one in group.commands.items():  # type: ignore[attr-defined]
            assert not one.get_short_help_str(58).endswith("..."), name
