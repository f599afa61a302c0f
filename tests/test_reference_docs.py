"""The reference says what there is: every public name, every fact with every field, every event and option."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import attrs
import pytest

from dataspace import Crashed, Facet, Observe, Statistics
from dataspace._runtime import AsyncDataspace
from engines.compressor import Limits
from engines.facts import FACTS, MESSAGES
from engines.loop import Policy, events
from engines.loop.actor import Loop
from engines.shim import Context

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"


def page(name: str) -> str:
    """The text of one page."""
    return (REFERENCE / f"{name}.md").read_text(encoding="utf-8")


def sections(text: str) -> dict[str, str]:
    """The third-level sections of a page whose heading is one name in code style."""
    parts = re.split(r"^###? (.*)$", text, flags=re.MULTILINE)
    titles, bodies = parts[1::2], parts[2::2]
    return {title.strip("`"): body for title, body in zip(titles, bodies, strict=True) if title.startswith("`")}


def cells(line: str) -> list[str]:
    """The cells of one row of a table; a bar inside of one is written with a backslash."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def table(text: str) -> list[list[str]]:
    """The rows of the tables in a text, without their headings."""
    rows = [cells(line) for line in text.splitlines() if line.startswith("|")]
    return [row for row in rows if row[0].startswith("`")]


def default_of(attribute: attrs.Attribute[Any]) -> str:
    """A field's default as the reference writes it; empty where there is none."""
    default: Any = attribute.default
    if default is attrs.NOTHING:
        return ""
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        default = default.factory()
    return f"`{default.__name__ if callable(default) else repr(default)}`"


@pytest.mark.parametrize(
    ("module", "where"),
    [
        ("dataspace", "dataspace"),
        ("dataspace.trace", "dataspace"),
        ("dataspace.wire", "dataspace"),
        ("engines", "engines"),
    ],
)
def test_every_public_name_has_a_section(module: str, where: str) -> None:
    """What can be imported can be looked up."""
    names = set(import_module(module).__all__)
    assert set() == names - sections(page(where)).keys()


def test_no_section_is_of_something_that_is_gone() -> None:
    """What can be looked up can be imported."""
    there = set[str]()
    for module in ("dataspace", "dataspace.trace", "dataspace.wire"):
        there |= set(import_module(module).__all__)
    assert set() == sections(page("dataspace")).keys() - there
    there = set(import_module("engines").__all__) | {
        "blocking",
        "swap",
        "supervised",
        "Patience",
        "compressor",
        "Limits",
    }
    for module in ("engine", "named", "skills", "snapshotter", "telemetry"):
        if find_spec(f"engines.{module}"):
            there |= set(import_module(f"engines.{module}").__all__)
    assert set() == sections(page("engines")).keys() - there


@pytest.mark.parametrize("cls", [Facet, AsyncDataspace, Context, Loop])
def test_every_public_method_is_told(cls: type) -> None:
    """A method without an underscore stands in a table of the reference."""
    text = page("dataspace" if cls in (Facet, AsyncDataspace) else "engines")
    called = set(re.findall(r"`(?:await )?(?:me|ds|ctx|loop)\.(\w+)", text))
    methods = {name for name, value in vars(cls).items() if not name.startswith("_") and is_public(value)}
    assert set() == methods - called


def is_public(value: object) -> bool:
    """Functions and properties; slots are the machinery's."""
    return callable(value) or isinstance(value, property)


def test_every_error_is_told() -> None:
    """Each error of the library is a row of the table, with the builtin that it also is."""
    rows = {row[0].strip("`"): row[1] for row in table(page("errors"))}
    for module in ("dataspace.errors", "dataspace.wire"):
        found = import_module(module)
        for name in found.__all__:
            error = getattr(found, name)
            if isinstance(error, type) and issubclass(error, Exception):
                builtins = [base.__name__ for base in error.__bases__ if base.__module__ == "builtins"]
                assert ", ".join(f"`{base}`" for base in builtins) == rows[name]


@pytest.mark.parametrize("cls", [*FACTS.values(), Crashed, Observe])
def test_every_fact_with_every_field(cls: Any) -> None:
    """Fields in order, with what they are to equality, their type and their default."""
    body = sections(page("facts"))[cls.__name__]
    expected = [
        [
            f"`{field.name}`",
            "identity" if field.eq else "reading",
            f"`{cls.__annotations__[field.name]}`",  # as written: what attrs keeps may have been resolved meanwhile
            default_of(field),
        ]
        for field in attrs.fields(cls)
    ]
    rows = table(body)
    assert expected == [row[:4] for row in rows]
    assert all(row[4] for row in rows)


def test_facts_are_told_in_the_order_of_the_vocabulary() -> None:
    """The page follows `FACTS`, messages are called messages, and it tells of nothing else."""
    told = sections(page("facts"))
    assert [*FACTS, "Crashed", "Observe"] == list(told)
    assert {cls.__name__ for cls in MESSAGES} == {
        name for name, body in told.items() if body.startswith("\n\nA message")
    }


@pytest.mark.parametrize(("cls", "where"), [(Policy, "engines"), (Limits, "engines")])
def test_every_option_with_its_default(cls: Any, where: str) -> None:
    """The options are those that there are, with the defaults that they have."""
    rows = table(sections(page(where))[cls.__name__])
    assert [[f"`{field.name}`", default_of(field)] for field in attrs.fields(cls)] == [row[:2] for row in rows]


def test_every_figure_of_the_statistics() -> None:
    """Each field of `Statistics` is explained."""
    rows = table(sections(page("dataspace"))["Statistics"])
    assert [f"`{field.name}`" for field in attrs.fields(Statistics)] == [row[0] for row in rows]


def test_every_event_with_its_fields() -> None:
    """Each event is a row, which names what it takes beside conversation and time."""
    rows = {row[0].strip("`"): row[1] for row in table(page("engines"))}
    kinds = [getattr(events, name) for name in events.__all__]
    for kind in kinds:
        if isinstance(kind, type) and kind is not events.Event:
            told = re.findall(r"`(\w+)", rows[kind.__name__])
            assert {field.name for field in attrs.fields(kind)} - {"sid", "at"} == set(told)
