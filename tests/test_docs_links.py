"""Every relative link in the documentation leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

CHECKOUT = Path(__file__).parent.parent
PAGES = sorted([*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/**/*.md"), CHECKOUT / "tests" / "README.md"])
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^()\s]*)\)")
_HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)


def anchors(text: str) -> set[str]:
    """The names under which the headings of a page can be linked to, as GitHub makes them."""
    titles = _HEADING.findall(re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def leads_somewhere(page: Path, path: str, anchor: str) -> bool:
    """Whether a file, and a heading in it, are there; a link out of the checkout works for nobody else."""
    target = (page.parent / path).resolve() if path else page
    if not target.exists() or not target.is_relative_to(CHECKOUT):
        return False
    return not anchor or anchor in anchors(target.read_text(encoding="utf-8"))


def broken(page: Path, text: str) -> list[str]:
    """The links of a page that lead nowhere: to no file, or to no heading of it."""
    found = []
    for link in _LINK.findall(_CODE.sub("`code`", text)):
        if re.match(r"[a-z]+:", link):
            continue
        if not leads_somewhere(page, *unquote(link).partition("#")[::2]):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(CHECKOUT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    """No link of a page is broken."""
    assert [] == broken(page, page.read_text(encoding="utf-8"))


def test_every_page_is_on_the_map() -> None:
    """Whoever begins at docs/README.md can reach every page."""
    home = CHECKOUT / "docs" / "README.md"
    linked = {
        (home.parent / link.partition("#")[0]).resolve() for link in _LINK.findall(home.read_text(encoding="utf-8"))
    }
    assert {home.parent / "README.md"} == set(home.parent.glob("**/*.md")) - linked


def test_broken_links_are_found() -> None:
    """A file or heading that is not there is told; links in code and to other sites are left alone."""
    page = CHECKOUT / "docs" / "README.md"
    text = "[a](nowhere.md) [b](README.md#no-such-heading) [c](README.md#documentation) [d](https://example.org) `[e](f.md)`"
    assert ["nowhere.md", "README.md#no-such-heading"] == broken(page, text)
