"""Rules about failing: where everything may be caught, and what a test may not do to pass."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house.tree import SHIPPED, SourceFile, imported, sources

BROAD = frozenset({"Exception", "BaseException"})
EDGES = {
    "src/goalport/runtime/process/": (
        None,
        "actions and listeners of users raise anything, and the process must end or go on",
    ),
    "src/goalport/runtime/ai/": (
        2,
        "a user's guard may raise anything, and the text must not pass then; a reference too, and it stays as it was",
    ),
    "src/goalport/tools/upstream/": (
        1,
        "another's server, and the library that speaks to it, may raise anything, and only its own tools may suffer",
    ),
    "src/goalport/tools/": (
        2,
        "a user's tool may raise anything, in a thread too, and the model must read what went wrong",
    ),
    "src/goalport/models/llm/": (
        1,
        "a provider's library raises anything when a server answers strangely, and a typed error must come of it",
    ),
    "src/goalport/knowledge/rag/": (
        2,
        "a user's embedding service or listener may raise anything: an error names the service, and the search goes on",
    ),
    "src/goalport/knowledge/references/": (
        1,
        "a user's class may raise anything, and the other entries must be read",
    ),
    "src/goalport/store/layouts": (
        1,
        "an author's `upcast` or default may raise anything, and must not look like our bug",
    ),
    "src/goalport/server/publish/": (1, "a user's type may raise anything when it is read, and must become a problem"),
    "src/goalport/server/doors/mcp/": (1, "a bug in one request must become an answer"),
    "src/goalport/server/web/": (1, "a bug in one request must become an answer"),
    "src/goalport/server/doors/agui/": (1, "a bug in one run must become the event that ends it"),
    "src/goalport/server/doors/a2a/": (
        2,
        "a bug in one request must become an error of the protocol, and one in a notification must leave the others",
    ),
    "src/goalport/server/auth/": (1, "a verifier that fails in any way must let nobody pass, and others be served"),
    "src/goalport/server/site/": (
        1,
        "a changed file may break loading in any way, and what was loaded before must be served",
    ),
    "src/goalport/runtime/platform/": (
        9,
        "what an author wrote, a cost method, a service, a repository too, may raise anything, and nobody may wait",
    ),
    "src/goalport/cli/": (1, "a person at a terminal gets one line and the fix; --debug shows the traceback"),
    "src/goalport/runtime/workflow/": (1, "a branch may raise anything, and the others may be enough"),
    "src/goalport/base/words": (1, "an author's exception may raise where it is asked for its message"),
    "src/goalport/workspace": (1, "a user's module may raise anything when imported, and the others must load"),
}
"""The only places that may catch everything: how often (None: it is their work), and why it is right there."""


def only_the_edges_catch_everything(root: Path) -> Iterator[str]:
    caught: dict[str, list[str]] = {}
    for file in sources(root, *SHIPPED, "benchmarks"):
        edge = next((each for each in EDGES if file.path.as_posix().startswith(each)), "")
        caught.setdefault(edge, []).extend(file.at(node.lineno) for node in _broad_catches(file))
    for edge, places in caught.items():
        allowed = EDGES[edge][0] if edge else 0
        for place in places[allowed:] if allowed is not None else ():
            yield f"{place}: catches everything; name the exception (allowed here: {allowed}, tests/house/failures.py)"


def _broad_catches(file: SourceFile) -> Iterator[ast.ExceptHandler | ast.Call]:
    for node in file.nodes:
        match node:
            case ast.ExceptHandler(type=None):
                yield node
            case ast.ExceptHandler(type=ast.expr() as kind) if _is_broad(kind):
                yield node
            case ast.Call(func=ast.Name(id="suppress") | ast.Attribute(attr="suppress"), args=args):
                if any(map(_is_broad, args)):
                    yield node
            case _:
                pass


def _is_broad(kind: ast.expr) -> bool:
    names = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(ast.unparse(name).rpartition(".")[2] in BROAD for name in names)


def tests_take_no_short_cuts(root: Path) -> Iterator[str]:
    """A mock tests itself, an expected failure fails nobody, and a sleep is too short on a slow day."""
    for file in sources(root, "tests"):
        for each in imported(file):
            if each.name.split(".")[:2] == ["unittest", "mock"] or each.name.partition(".")[0] == "mock":
                yield f"{file.at(each.line)}: a mock; use the real thing, or a scripted model"
        for node in file.nodes:
            match node:
                case ast.Attribute(attr="xfail") if ast.unparse(node) in {"pytest.mark.xfail", "pytest.xfail"}:
                    yield f"{file.at(node.lineno)}: an expected failure; mend it, or test what it does do"
                case ast.Call(func=ast.Attribute(ast.Name("time"), "sleep")):
                    yield f"{file.at(node.lineno)}: a sleep; wait for the event itself, within a bound"
                case _:
                    pass
