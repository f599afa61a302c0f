"""Mutants: small faults put into the core and the loop one at a time, each of which some test must notice.

    python -m tests.mutants --seed 7 --count 240     draws mutants and tries them; shows each that survives
    python -m tests.mutants dataspace/_text.py:31    tries this one again, perhaps with a new test

The operators are mutmut's, which brings much along and is no dependency: `pip install mutmut==3.8.1`, perhaps into an
environment of its own; `--python` then names the one of the project.  Left out is what only readers and checkers see:
strings with a space in them, annotations, `__all__`, type variables and casts.
"""

import argparse
import difflib
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
CORE = "turns observers facts lifetimes patterns changes slips bounds text wire trace runtime* threads budgets space"
LOOP = "loop_question loop_offer loop_[!s]* engine shim swap supervisor slips loop_scale loop"
# Whose tests are named after something else than the module.
NEAR = {"wire_values": "wire", "trace_lines": "trace", "turn_data": "trace", "values": "facts", "paths": "pattern"}
NEAR |= {"stream": "changes", "trio": "runtime", "tasks": "runtime"}


def mutations(source: str) -> list[Callable[[], Any]]:
    """All mutants of a module, in the order of its text, each made when called."""
    import libcst as cst
    import libcst.matchers as m
    from mutmut.mutation.mutators import mutation_operators

    left_out = m.Call(func=m.Name("TypeVar") | m.Name("cast") | m.Name("len") | m.Name("isinstance"))
    left_out |= m.Annotation() | m.Assign(targets=[m.AssignTarget(target=m.Name("__all__"))])
    left_out |= m.SimpleString(value=m.MatchRegex("(?s).* .*"))
    module = cst.parse_module(source)
    found: list[Callable[[], Any]] = []

    class Visitor(cst.CSTVisitor):
        def on_visit(self, node: cst.CSTNode) -> bool:
            if m.matches(node, left_out):
                return False
            for kind, operator in mutation_operators:
                if isinstance(node, kind):
                    found.extend(partial(module.deep_replace, node, mutant) for mutant in operator(node))
            return True

    module.visit(Visitor())
    return found


def fate(tree: Path, path: str, python: str, seconds: float) -> str:
    """What the tests of a module make of it."""
    names = LOOP if path.startswith("engines") else CORE
    found = dict.fromkeys(file for name in names.split() for file in sorted(tree.glob(f"tests/**/test_{name}.py")))
    stem = Path(path).stem.strip("_")
    likely = (f"test_{NEAR.get(stem, stem)}", f"test_loop_{stem}")
    near = [file for file in found if file.stem.startswith(likely)] or list(found)[:2]  # most die in these
    for files in (near, [file for file in found if file not in near]):
        command = [python, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *map(str, files)]
        environ = os.environ | {"HYPOTHESIS_PROFILE": "dev", "PYTHONPATH": str(tree)}
        try:
            subprocess.check_call(command, cwd=tree, env=environ, stdout=subprocess.DEVNULL, timeout=seconds)
        except subprocess.CalledProcessError:
            return "killed"
        except subprocess.TimeoutExpired:
            return "timed out"
    return "survived"


def main() -> int:
    """Draw, try, tell; exit status 1 when one survives."""
    parser = argparse.ArgumentParser(description="Small faults, each of which some test must notice.")
    parser.add_argument("mutants", nargs="*", help="file:number; without any, they are drawn")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--count", type=int, default=240)
    parser.add_argument("--python", type=os.path.abspath, default=sys.executable, help="what runs the tests")
    asked = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))  # bytes; a mutant that loops would take all there is
    modules = sorted([*CHECKOUT.glob("dataspace/*.py"), *CHECKOUT.glob("engines/loop/*.py")])
    sources = {str(module.relative_to(CHECKOUT)): module.read_text(encoding="utf-8") for module in modules}
    try:
        pool = {f"{path}:{n}": made for path in sources for n, made in enumerate(mutations(sources[path]))}
    except ImportError as error:
        parser.exit(2, f"{error.name} is missing: pip install mutmut==3.8.1\n")
    if not pool.keys() >= set(asked.mutants):
        parser.exit(2, "there is no such mutant; they are numbered anew when a module changes\n")
    drawn = asked.mutants or random.Random(asked.seed).sample(list(pool), asked.count)
    print(f"seed {asked.seed}: {len(drawn)} of {len(pool)} mutants", flush=True)
    counts = Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(shutil.copytree(CHECKOUT, f"{folder}/checkout", ignore=shutil.ignore_patterns(".*", "__pycache__")))
        begun = time.monotonic()
        if {"survived"} != {fate(tree, package, asked.python, 600) for package in ("dataspace", "engines")}:
            parser.exit(2, "the tests fail as it is\n")
        patience = 30 + 2 * (time.monotonic() - begun)
        for name in drawn:
            path = name.rpartition(":")[0]
            source, mutant = sources[path], pool[name]().code
            (tree / path).write_text(mutant, encoding="utf-8")
            counts.update([outcome := fate(tree, path, asked.python, patience)])
            (tree / path).write_text(source, encoding="utf-8")
            print(f"{name} {outcome}", flush=True)
            if outcome == "survived":
                print(*difflib.unified_diff(source.splitlines(), mutant.splitlines(), lineterm="", n=2), sep="\n")
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    return int(counts["survived"] > 0)


if __name__ == "__main__":
    sys.exit(main())
