"""The arrows between the packages, and what the pure core may import."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT

BELOW = {"dataspace": set(), "engines": {"dataspace"}, "bridges": {"dataspace", "engines"}}
IMPURE = {"asyncio", "cattrs", "click", "logging", "random", "rich", "socket", "time", "trio"}
# The edge of `dataspace`: its modules less the leading underscore, and what each of them may import of that.
EDGES = {
    "runtime": {"logging", "trio"},
    "stream": {"trio"},
    "testing": {"random"},
    "threads": {"logging", "trio"},
    "trio": {"logging", "trio"},
    "wire": {"cattrs"},
}


def modules(package: str) -> list[Path]:
    """The source files of one of our packages."""
    return sorted((CHECKOUT / package).rglob("*.py"))


def imports(node: ast.AST, *, for_types_too: bool) -> Iterator[str]:
    """The top-level names of everything that is imported, wherever in a module; imports for type checkers on request."""
    children: Iterable[ast.AST] = ast.iter_child_nodes(node)
    if isinstance(node, ast.Import):
        yield from (alias.name.split(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.level == 0:
        yield str(node.module).split(".")[0]
    elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not for_types_too:
        children = node.orelse
    for child in children:
        yield from imports(child, for_types_too=for_types_too)


def imported(path: Path, *, for_types_too: bool) -> set[str]:
    """The top-level names a source file imports."""
    return set(imports(ast.parse(path.read_text(encoding="utf-8")), for_types_too=for_types_too))


@pytest.mark.parametrize("package", sorted(BELOW))
def test_imports_go_one_way(package: str) -> None:
    """Imports go bridges -> engines -> dataspace, for type checkers too, and nothing of ours imports the tests."""
    forbidden = (set(BELOW) | {"tests", "benchmarks"}) - BELOW[package] - {package}
    found = {path.name: bad for path in modules(package) if (bad := imported(path, for_types_too=True) & forbidden)}
    assert modules(package)
    assert {} == found


def test_a_relative_import_stays_in_its_package() -> None:
    """No relative import climbs out of the package its file lies in, so the arrows above see everything."""
    climbing = [
        f"{path.name}:{node.lineno}"
        for package in BELOW
        for path in modules(package)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.level >= len(path.relative_to(CHECKOUT).parts)
    ]
    assert [] == climbing


def test_the_core_is_pure() -> None:
    """Only the modules at the edge of dataspace import a clock, threads, logging, cattrs or trio."""
    found = {}
    for path in modules("dataspace"):
        stem = path.relative_to(CHECKOUT / "dataspace").parts[0].removesuffix(".py").lstrip("_")
        if bad := (imported(path, for_types_too=False) & IMPURE) - EDGES.get(stem, set()):
            found[path.name] = bad
    assert {} == found


def test_the_vocabulary_needs_attrs_only() -> None:
    """engines.facts imports attrs and the standard library's typing, nothing else and nothing of ours."""
    names = imported(CHECKOUT / "engines" / "facts.py", for_types_too=True)
    assert names <= {"__future__", "attrs", "collections", "typing"}


def test_importing_us_does_not_import_trio() -> None:
    """Who only registers the plugin, or works without an event loop, does not pay for trio, cattrs or rich."""
    program = "import sys, dataspace, engines; print(*sorted({'trio', 'cattrs', 'rich', 'click'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert "" == done.stdout.strip()


@pytest.mark.parametrize(
    ("source", "always", "with_types"),
    [
        ("import a.b, c\nfrom d.e import f", {"a", "c", "d"}, {"a", "c", "d"}),
        ("from . import a\nfrom .b import c", set(), set()),
        ("def f():\n    try:\n        import a\n    except ImportError:\n        pass", {"a"}, {"a"}),
        ("if TYPE_CHECKING:\n    import a\nelse:\n    import b", {"b"}, {"a", "b"}),
    ],
)
def test_imports_are_seen_wherever_they_stand(source: str, always: set[str], with_types: set[str]) -> None:
    """The helper above sees imports in functions and branches, and tells those for type checkers apart."""
    tree = ast.parse(source)
    assert always == set(imports(tree, for_types_too=False))
    assert with_types == set(imports(tree, for_types_too=True))
