"""Do the tests notice faults? `python -m tests.house.faults [COUNT] [SEED]` makes some, one at a time, and tells.

A fault is a small change of one place of the library: a comparison, a constant, a branch, an `await`, two arguments.
The tests that name its module run first, then those of its room, in a copy of the repository and for a minute at most.
What was not found is worth a look: a test may be missing, or the line may be needless. Nothing here is a test.
"""

import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Final

from tests.house.tree import LIBRARY, ROOT

_SECONDS: Final = 60
_PAIRS: Final = ((ast.Lt, ast.GtE), (ast.Gt, ast.LtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn))
_OPPOSITE: Final[dict[type, type]] = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
_OPPOSITE.update({ast.And: ast.Or, ast.Or: ast.And})
_UNCOPIED: Final = (".git", ".venv*", "node_modules", "__pycache__", ".pytest_cache", ".hypothesis")


def faults_of(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in place of a node."""
    other = deepcopy(node)
    match other:
        case ast.Compare(ops=[operator, *_]) if type(operator) in _OPPOSITE:
            other.ops[0] = _OPPOSITE[type(operator)]()
        case ast.BoolOp():
            other.op = _OPPOSITE[type(other.op)]()
        case ast.Constant(value=bool() as value):
            other.value = not value
        case ast.Constant(value=int() as value):
            other.value = value + 1
        case ast.UnaryOp(op=ast.Not()):
            other = other.operand
        case ast.If() | ast.While():
            other.test = ast.Constant(value=False)
        case ast.Expr(value=ast.Await() | ast.Call()) | ast.Raise() | ast.AugAssign():
            other = ast.Pass()
        case ast.Call(args=[first, second, *_]) if ast.unparse(first) != ast.unparse(second):
            other.args[:2] = [second, first]
        case _:
            return
    yield ast.copy_location(other, node)


class _Replaced(ast.NodeTransformer):
    def __init__(self, place: ast.AST, fault: ast.AST) -> None:
        self._place, self._fault = place, fault

    def visit(self, node: ast.AST) -> ast.AST:
        return self._fault if node is self._place else super().visit(node)


def chosen(count: int, seed: int) -> Iterator[tuple[Path, int, str, str]]:
    """Modules with a fault each: the line, what became of what, and the text; large modules are chosen more often."""
    chance = random.Random(seed)
    modules = sorted((ROOT / LIBRARY).rglob("*.py"))
    sizes = [path.stat().st_size for path in modules]
    while count:
        (path,) = chance.choices(modules, sizes)
        tree = ast.parse(path.read_text("utf-8"))
        functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        inside = [node for each in functions for part in each.body for node in ast.walk(part)]
        places = [(node, fault) for node in inside for fault in faults_of(node)]
        if not places:
            continue
        node, fault = chance.choice(places)
        was, is_now = (ast.unparse(each).partition("\n")[0][:60] for each in (node, fault))
        count -= 1
        line = getattr(node, "lineno", 0)
        yield path.relative_to(ROOT), line, f"{was} -> {is_now}", ast.unparse(_Replaced(node, fault).visit(tree))


def tests_of(module: Path) -> list[str]:
    """The test files that name the module or have its name, then the folders of its room."""
    dotted = ".".join(module.with_suffix("").parts[1:])
    room = {"mcp": "serve"}.get(module.parent.name, module.parent.name)
    named = re.compile(rf"\b{re.escape(dotted)}\b")
    files = sorted((ROOT / "tests" / "rooms").rglob("test_*.py"))
    first = [file for file in files if module.stem in file.stem or named.search(file.read_text("utf-8"))]
    folders = [each for each in (ROOT / "tests" / "rooms").iterdir() if each.name.startswith((room, module.stem))]
    found = [str(each.relative_to(ROOT)) for each in (*first, *folders)]
    return found or ["tests/stories/guide", "tests/stories/test_every_way.py"]


def verdict(copy: Path, module: Path, text: str) -> str:
    before = (copy / module).read_text("utf-8")
    (copy / module).write_text(text, "utf-8")
    limits = ["--timeout", str(_SECONDS), "--session-timeout", str(_SECONDS)]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *limits, *tests_of(module)]
    env = {**os.environ, "PYTHONPATH": str(copy / "src")}
    try:
        done = subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True, check=False)
    finally:
        (copy / module).write_text(before, "utf-8")
    if "session-timeout" in done.stdout:
        return "not in time"
    return "found" if done.returncode else "NOT FOUND"


def main(count: int = 200, seed: int = 1) -> None:
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "copy"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*_UNCOPIED))
        for number, (module, line, change, text) in enumerate(chosen(count, seed), start=1):
            print(f"{number:3} {verdict(copy, module, text):11} {module}:{line}: {change}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
