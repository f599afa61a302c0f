"""The page of rules: all of them, in order, each with tests that exist and bear its number."""

from __future__ import annotations

import ast
import re

import pytest

from tests.conftest import CHECKOUT

PAGE = (CHECKOUT / "docs" / "reference" / "ordering.md").read_text(encoding="utf-8")
RULES = dict(re.findall(r"^\*\*R(\d+)\.\*\* (.*?)(?=^\*\*R\d+\.\*\*|^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))
NUMBERS = [str(n) for n in range(1, 22)]


def names_in(path: str) -> set[str]:
    """The names of the tests in a file."""
    tree = ast.parse((CHECKOUT / path).read_text(encoding="utf-8"))
    return {
        node.name
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_")
    }


def test_all_rules_are_there_in_order() -> None:
    """R1 to R21, each once."""
    assert list(RULES) == NUMBERS
    assert re.findall(r"\*\*R(\d+)\.", PAGE) == NUMBERS


@pytest.mark.parametrize("number", NUMBERS)
def test_each_rule_names_tests_that_exist(number: str) -> None:
    """A rule says something, and names at least one test; all it names exist and have its number in their names."""
    sentence, *listed = RULES[number].split("\n\n- ", maxsplit=1)
    assert sentence.strip().endswith(".")
    named = re.findall(r"^(?:- )?`(tests/\w+\.py)::(\w+)`$", "".join(listed), re.MULTILINE)
    assert named
    assert len(named) == RULES[number].count("::")
    for path, name in named:
        assert name in names_in(path)
        assert re.match(rf"test_r0?{number}_", name)


@pytest.mark.parametrize("path", re.findall(r"`(tests/bisim/\w+\.py)`", PAGE))
def test_the_model_is_where_the_page_says(path: str) -> None:
    """The files that the page sends its readers to exist."""
    assert (CHECKOUT / path).is_file()


def test_every_test_of_a_rule_bears_the_number_of_one() -> None:
    """A test whose name begins like that of a rule's test is one of R1 to R21, so no number is a slip."""
    slips = [
        f"{path.name}::{name}"
        for path in sorted((CHECKOUT / "tests").rglob("test_*.py"))
        if "project" not in path.parts
        for name in names_in(str(path.relative_to(CHECKOUT)))
        if (match := re.match(r"test_r(\d+)_", name)) and str(int(match[1])) not in NUMBERS
    ]
    assert slips == []
