"""The repository's Python files as the rules of the house read them: where each is and what it imports.

It knows no rule. The rules beside it take the root of a repository and answer with complaints, one line each.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIBRARY = "src/goalport"
SHIPPED = (LIBRARY, "agents", "tools", "server")
WRITTEN = (*SHIPPED, "benchmarks", "docs", "tests")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class SourceFile:
    path: Path
    """Relative to the root of the repository."""
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        return tuple(ast.walk(self.tree))

    @property
    def package(self) -> tuple[str, ...]:
        """The dotted name of the folder, part by part; `src` is no part of it."""
        folders = self.path.parent.parts
        return folders[1:] if folders[:1] == ("src",) else folders

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        return tuple(node for node in self.nodes if isinstance(node, Function))

    @cached_property
    def classes(self) -> tuple[ast.ClassDef, ...]:
        return tuple(node for node in self.nodes if isinstance(node, ast.ClassDef))

    def at(self, line: int) -> str:
        return f"{self.path.as_posix()}:{line}"


@dataclass(frozen=True)
class Imported:
    name: str
    """Absolute and dotted, with the imported name at its end."""
    line: int


def sources(root: Path, *folders: str) -> Iterator[SourceFile]:
    """Every Python file below the folders; environments, caches and installed packages are not ours."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            relative = path.relative_to(root)
            if not any(part.startswith(".") or part in {"node_modules", "__pycache__"} for part in relative.parts):
                yield _source(relative, path.read_text("utf-8"))


@cache  # each rule reads all files, and parsing them is most of the work
def _source(path: Path, text: str) -> SourceFile:
    return SourceFile(path, text)


def imported(file: SourceFile, within: ast.AST | None = None) -> Iterator[Imported]:
    """What a file imports anywhere in it, inside functions and by `import_module("…")` too."""
    for node in ast.walk(within) if within else file.nodes:
        match node:
            case ast.Import(names=names):
                yield from (Imported(alias.name, node.lineno) for alias in names)
            case ast.ImportFrom(names=names):
                origin = _origin(file, node)
                yield from (Imported(f"{origin}.{alias.name}", node.lineno) for alias in names)
            case ast.Call(func=called, args=[ast.Constant(value=str(name)), *_]) if _imports(called):
                yield Imported(name, node.lineno)
            case _:
                pass


def _origin(file: SourceFile, node: ast.ImportFrom) -> str:
    above = file.package[: len(file.package) + 1 - node.level] if node.level else ()
    return ".".join((*above, *([node.module] if node.module else [])))


def _imports(called: ast.expr) -> bool:
    return (isinstance(called, ast.Name) and called.id in {"import_module", "__import__"}) or (
        isinstance(called, ast.Attribute) and called.attr == "import_module"
    )
