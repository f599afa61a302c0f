"""The reference page of the skills engine says what there is."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

import engines.skills
from engines.skills import LOOKING, SkillPolicy
from engines.skills.wording import LOADED, PRUNED, REQUIRED

PAGE = (Path(__file__).parent.parent / "docs" / "reference" / "skills.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", engines.skills.__all__)
def test_every_public_name_is_there(name: str) -> None:
    """What can be imported can be looked up."""
    assert re.search(rf"`[^`]*\b{name}\b", PAGE)


def test_every_field_of_the_policy_is_there_with_its_default() -> None:
    """One row each."""
    rows = dict(re.findall(r"^\| `(\w+)` \| `(.+?)` \|", PAGE, re.MULTILINE))
    told = {
        field.name: "LOOKING" if field.default == LOOKING else repr(field.default)
        for field in attrs.fields(SkillPolicy)
    }
    assert told == {name: default for name, default in rows.items() if name in told}


def test_what_is_never_held_back_is_there() -> None:
    """The allow-list, tool by tool."""
    assert {tool for tool in LOOKING if f"`{tool}`" in PAGE} == LOOKING


def test_the_words_are_there() -> None:
    """As a model reads them."""
    assert all(words in PAGE for words in (PRUNED, LOADED, REQUIRED))
