"""Faster start-up: packages that load their modules when they are first used, and no garbage collection meanwhile.

Such a package has `__getattr__ = lazy_exports(__name__, {...})`, and an `__init__.pyi` with the same names for type
checkers. This module imports nothing of goalport.
"""

import gc
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module


def lazy_exports(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """The `__getattr__` of a package; `modules` has the names to load from each of its modules."""
    module_of = {name: module for module, names in modules.items() for name in names}

    def load(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{package}.{module_of[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return load


def lazy_rooms(package: str, *rooms: str) -> Callable[[str], object]:
    """The `__getattr__` of a package with the exports of its rooms, loaded in this order until one has the name."""

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
def deferred_models() -> Generator[None]:
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
def gc_disabled() -> Generator[None]:
    """Collect no garbage in this block, until it ends or `collect_new_garbage_only` is called.

    Almost all objects of the start stay in use: collecting would take a fifth of its time and find nothing.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def collect_new_garbage_only() -> None:
    """Collect garbage from now on, but not among existing objects: that halves the latency of the slowest answers.

    Calls leave reference cycles of the SDK's objects behind. The thresholds collect them often enough that a pause is
    short, but not so often that the objects of open calls are scanned again and again. The little garbage of the start
    is never collected: finding it would take a tenth of the start's time.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(5_000, 50, 50)
