"""What makes a start short: packages that load their modules when they are first used, and no search for garbage.

Such a package has `__getattr__ = lazy_exports(__name__, {...})`, and an `__init__.pyi` beside it that tells type
checkers the same names. Nothing of the library is below.
"""

import gc
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module


def lazy_exports(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """The `__getattr__` of a package; `modules` says by module of the package which names are loaded from it."""
    module_of = {name: module for module, names in modules.items() for name in names}

    def load(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{package}.{module_of[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return load


def lazy_rooms(package: str, *rooms: str) -> Callable[[str], object]:
    """The `__getattr__` of a package that offers what its rooms do; they are loaded in this order until one has it."""

    def load(name: str) -> object:
        modules = (import_module(f"{package}.{each}") for each in rooms)
        if name == "__all__":
            return [offered for each in modules for offered in each.__all__]
        for each in modules if not name.startswith("_") else ():
            if name in each.__all__:
                found = getattr(each, name)
                setattr(sys.modules[package], name, found)
                return found
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load


@contextmanager
def models_built_late() -> Generator[None]:
    """Pydantic models of modules that are imported in the block get their validators when they are first used.

    The MCP SDK has 500 of them, and a server needs a few.
    """
    from pydantic import BaseModel

    BaseModel.model_config["defer_build"] = True
    try:
        yield
    finally:
        del BaseModel.model_config["defer_build"]


@contextmanager
def without_collection() -> Generator[None]:
    """Look for no garbage in this context, until it ends or `collect_among_calls` is called.

    Almost all that a start makes is kept, so looking would take a fifth of its time and find nothing.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def collect_among_calls() -> None:
    """Look for garbage from now on, but not among what exists now: that halves the latency of the slowest answers.

    Calls leave reference cycles of the SDK's objects behind. The thresholds collect them often enough that a pause is
    short, but not so often that the objects of open calls are scanned again and again. The little garbage of the start
    is frozen too: looking for it would take a tenth of the time that a start takes.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(5_000, 50, 50)
