"""The services and settings that a workspace declares: found by type, created once, entered and left.

One `DeclaredServices` belongs to one load of a workspace. A service that is a context manager is entered and left in
one task of its own, whichever action needs it first. Below: the declarations. Above: the platform, which asks for the
arguments of constructors and actions.
"""

import asyncio
import inspect
import logging
from collections import defaultdict
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import Context
from dataclasses import dataclass, field
from traceback import walk_tb
from typing import Any, Final, TypeAlias, cast, get_args, get_origin

from goalport.base.errors import DeploymentError, GoalportError
from goalport.base.introspection import constructor
from goalport.base.type_expressions import alternatives
from goalport.base.words import error_summary, type_name
from goalport.workspace import Declaration
from goalport.workspace.settings import DeclaredSettings, Settings

Parameters: TypeAlias = "Mapping[str, tuple[object, bool]]"
"""The type of each parameter, and whether it has to be given."""
Extensions: TypeAlias = "Mapping[str, list[Any]]"
"""The extensions of a platform, such as listeners and guards, by the name of their decorator."""
_METHODS: Final = {
    "listener": ("on_event",),
    "guard": ("check_input", "check_output"),
    "argument_resolver": ("supports", "resolve"),
    "ranker": ("rank",),
}
_log = logging.getLogger(__name__)
_NO_SERVICES: Final = frozenset({"abc", "builtins", "collections", "contextlib", "pydantic", "typing"})
"""The modules of base classes that say nothing of what a service is for."""
_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def line_of(error: BaseException, declared: object) -> str:
    """The line of an error in the module of a class or function, such as `, in line 12`; empty: it is elsewhere."""
    module = getattr(declared, "__module__", None)
    lines = [line for frame, line in walk_tb(error.__traceback__) if frame.f_globals.get("__name__") == module]
    return f", in line {lines[-1]}" if lines else ""


def parameters_of(target: Callable[..., Any]) -> Parameters:
    """The parameters of a constructor or a function. Raises `DeclarationError` for a type that names nothing."""
    signature = constructor(target) if isinstance(target, type) else inspect.signature(target)
    found = {name: each for name, each in signature.parameters.items() if each.kind not in _VARIADIC}
    hints = Declaration(target, ()).hints() if found else dict[str, object]()
    return {name: (hints.get(name), each.default is inspect.Parameter.empty) for name, each in found.items()}


def classes_of(hint: object) -> Sequence[type]:
    """The classes of objects that a parameter accepts; none for builtins, such as `str`."""
    return [each for each in alternatives(hint) if isinstance(each, type) and each.__module__ != "builtins"]


@dataclass(eq=False)
class _Provider:
    """Settings, or a service: what it is, what it needs, and its object once it is there."""

    kind: type
    source: Declaration
    needs: Parameters = field(default_factory=dict[str, tuple[object, bool]])
    needs_entering: bool = False
    """Whether it, or a service that it needs, has to be entered or awaited."""
    value: Any = None
    """The object; None: it is not created, or not entered, yet."""
    problem: str = ""
    task: "asyncio.Task[None] | None" = None
    """The task that enters the service, and leaves it once `stop` is set."""
    opened: "asyncio.Future[None] | None" = None
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    def accepted(self, made: Any) -> Any:
        """The object that was created. Raises `TypeError` for None."""
        if made is None:
            raise TypeError(f"it gives None, and not a {self.kind.__name__}")
        return made

    def failure(self, error: Exception) -> DeploymentError:
        where = line_of(error, self.source.target)
        return DeploymentError(f"{self.source} could not be made: {error_summary(error)}{where}.")


class DeclaredServices:
    """The services and settings of one load; `others` finds those of a program or of the platform itself, by type."""

    def __init__(
        self,
        others: Callable[[type], object | None],
        settings: DeclaredSettings | None = None,
        declarations: Iterable[Declaration] = (),
    ) -> None:
        self._others = others
        self.problems: list[str] = []
        """A sentence for each service that cannot be created, and for each that has the type of an earlier one."""
        self._by_type: defaultdict[type, list[_Provider]] = defaultdict(list)
        self._by_target: dict[Callable[..., Any], _Provider] = {}
        self._awaiting_init: dict[int, object] = {}
        """By `id`, the agents whose constructors wait for services that have to be entered."""
        self._entered: list[_Provider] = []
        found = settings or DeclaredSettings()
        given = [_Provider(type(each), Declaration(type(each), ()), value=each) for each in found.tables.values()]
        given += [_Provider(kind, Declaration(kind, ()), problem=each) for kind, each in found.failed.items()]
        for each in given:
            self._add(each)
        for each in declarations:
            try:
                self._declare(each)
            except GoalportError as error:
                self.problems.append(str(error))
        for each in self._by_target.values():
            try:
                self._resolve(each)
            except GoalportError as error:
                self.problems.append(str(error))
        self.types = frozenset(self._by_type)
        """The types that are injected wherever a parameter has them."""

    @property
    def needs_entering(self) -> bool:
        """Whether anything has to be entered before actions can run."""
        return bool(self._awaiting_init) or any(each.needs_entering for each in self._by_target.values())

    def find(self, kind: type) -> object | None:
        """The service of that type, created if necessary; None: there is none, or it was not entered yet.

        Raises `DeploymentError` if it cannot be created, or if there are several.
        """
        provider = self._provider(kind)
        return None if provider is None else self._object_of(provider)

    def extensions(self, declarations: Iterable[Declaration]) -> Extensions:
        """Create the extensions of the platform, such as listeners; for each that cannot be used, extend `problems`."""
        made = {role: list[Any]() for role in _METHODS}
        for each, role in ((one, role) for one in declarations for role in one.roles if role in _METHODS):
            provider = self._by_target.get(each.target)
            if provider is None:
                continue  # its problem was noted before
            if provider.needs_entering:
                self.problems.append(
                    f"{each} is made when the workspace is loaded, so neither it nor what it needs can be entered or"
                    " awaited. Take what has to be entered in a service."
                )
                continue
            try:
                found = self._object_of(provider)
            except GoalportError as error:
                self.problems.append(str(error))
                continue
            if lacking := [name for name in _METHODS[role] if not callable(getattr(found, name, None))]:
                self.problems.append(f"{each} is a {role.replace('_', ' ')}, but lacks {' and '.join(lacking)}.")
            else:
                made[role].append(found)
        return made

    def instance(self, kind: type) -> object | None:
        """An agent whose constructor `prepare` runs later, if it needs services that have to be entered; else None."""
        if not any(each.needs_entering for each in self._providers_of(parameters_of(kind))):
            return None
        made = cast("object", object.__new__(kind))
        self._awaiting_init[id(made)] = made
        return made

    async def prepare(self, kinds: Iterable[type], owner: object) -> None:
        """Enter the services of these types, and those of the constructor of an agent, if that still has to run.

        Raises `DeploymentError` for one that fails to start.
        """
        needs = {str(place): (each, True) for place, each in enumerate(kinds)}
        waits = id(owner) in self._awaiting_init
        for each in self._providers_of({**needs, **parameters_of(type(owner))} if waits else needs):
            await self._enter(each)
        if waits and self._awaiting_init.pop(id(owner), None) is not None:  # another action may have come first
            cast("Any", owner).__init__(**self.arguments(parameters_of(type(owner))))

    async def close(self) -> None:
        """Leave the services that were entered, newest first; one that is needed again is entered again.

        A service that takes longer than `shutdown_seconds`, or than a second if that is longer, is cancelled.
        """
        while self._entered:
            each = self._entered.pop()
            if each.task is not None and not each.task.done() and each.task.get_loop() is asyncio.get_running_loop():
                each.stop.set()
                patience = max(1.0, cast("Settings", self._others(Settings)).shutdown_seconds)
                if (await asyncio.wait([each.task], timeout=patience))[1]:
                    _log.warning("%s did not end within %g seconds, and is cancelled.", each.source, patience)
                    each.task.cancel()

    def _declare(self, declared: Declaration) -> None:
        """Register what a declaration provides. Raises `DeclarationError` if the type it returns is no class."""
        target = declared.target
        kind: object = target if isinstance(target, type) else declared.hints().get("return")
        if (origin := get_origin(kind)) and issubclass(origin, Iterable | AsyncIterable):
            kind = get_args(kind)[0]
        if not isinstance(kind, type) or kind.__module__ == "builtins":
            raise declared.origin.error(
                expected="a class as the return annotation, which is the type of what it gives",
                came="there is none" if kind is None else f"it is {type_name(kind)}",
                fix="Write `-> Horoscopes`, or `-> AsyncIterator[Horoscopes]` where it has a `yield`.",
            )
        provider = _Provider(kind, declared, parameters_of(target), _is_entered(target))
        twin = next((each for each in self._by_type[kind] if each.kind is kind), None)
        if "service" in declared.roles and twin is not None:
            raise DeploymentError(
                f"{declared} gives a {kind.__name__}, as does {twin.source}, which is used. Give one of them a type of"
                " its own."
            )
        self._by_target[target] = provider
        if "service" in declared.roles:
            self._add(provider)

    def _add(self, provider: _Provider) -> None:
        for each in provider.kind.__mro__:
            if each is provider.kind or each.__module__.partition(".")[0] not in _NO_SERVICES:
                self._by_type[each].append(provider)

    def _resolve(self, provider: _Provider, way: tuple[_Provider, ...] = ()) -> None:
        """Find out if a service needs entering. Raises `DeploymentError` if it needs itself, or a missing service."""
        if provider in way:
            circle = [*way[way.index(provider) :], provider]
            told = f"{', which needs '.join(str(each.source) for each in circle)}: a circle. Break it at one of them."
            for each in circle:
                each.problem = told
            raise DeploymentError(told)
        for name, (hint, required) in provider.needs.items():
            found = list(self._providers_of({name: (hint, required)}))
            for each in found:
                if not each.problem:
                    self._resolve(each, (*way, provider))
                provider.needs_entering = provider.needs_entering or each.needs_entering
                provider.problem = provider.problem or each.problem
            if required and not found and not provider.problem and not self.arguments({name: (hint, True)}):
                provider.problem = (
                    f"{provider.source} needs {type_name(hint)} for {name!r}, which nothing gives. Mark what does with"
                    " @service, or give the parameter a default."
                )
                raise DeploymentError(provider.problem)

    def _provider(self, kind: type) -> _Provider | None:
        found = self._by_type.get(kind, [])
        found = [each for each in found if each.kind is kind] or found
        if found[1:]:
            raise DeploymentError(
                f"A {kind.__name__} is given by {' and by '.join(str(each.source) for each in found)}. Ask for the type"
                " of one of them."
            )
        return found[0] if found else None

    def _providers_of(self, parameters: Parameters) -> Iterator[_Provider]:
        """The declared providers of parameters, except where a program passed a service in their place."""
        for hint, _ in parameters.values():
            if all(self._others(kind) is None for kind in classes_of(hint)):
                yield from (found for kind in classes_of(hint) if (found := self._provider(kind)) is not None)

    def arguments(self, parameters: Parameters) -> dict[str, object]:
        """The available objects for parameters, created if necessary. Raises `DeploymentError`."""
        arguments = dict[str, object]()
        for name, (hint, _) in parameters.items():
            found = (each(kind) for kind in classes_of(hint) for each in (self._others, self.find))
            if (made := next((each for each in found if each is not None), None)) is not None:
                arguments[name] = made
        return arguments

    def _object_of(self, provider: _Provider) -> Any:
        if provider.value is None and not provider.needs_entering:
            provider.value = self._called(provider)
        return provider.value

    def _called(self, provider: _Provider) -> Any:
        """The result of calling a declaration, before it is entered. Raises `DeploymentError`."""
        if provider.problem:
            raise DeploymentError(provider.problem)
        arguments = self.arguments(provider.needs)
        try:
            return provider.accepted(provider.source.target(**arguments))
        except Exception as error:
            raise provider.failure(error) from error

    async def _enter(self, provider: _Provider) -> None:
        """Enter a service that needs it, unless it was entered before. Raises `DeploymentError`."""
        if not provider.needs_entering or provider.value is not None:
            return
        if provider.opened is None or provider.opened.done():
            provider.opened, provider.stop = asyncio.get_running_loop().create_future(), asyncio.Event()
            # The service outlives the action that needs it first, and must not share its context or its cancellation.
            provider.task = asyncio.create_task(self._keep(provider, provider.opened), context=Context())
        await asyncio.shield(provider.opened)

    async def _keep(self, provider: _Provider, opened: "asyncio.Future[None]") -> None:
        """Enter a service, and leave it when it is to stop."""
        target = provider.source.target
        try:
            for each in self._providers_of(provider.needs):
                await self._enter(each)
            async with AsyncExitStack() as stack:
                made, is_class = self._called(provider), isinstance(target, type)
                if inspect.iscoroutinefunction(target):
                    made = await made
                elif inspect.isasyncgenfunction(target) or hasattr(target, "__aenter__"):
                    entered = made if is_class else asynccontextmanager(lambda: made)()
                    made = await stack.enter_async_context(entered)
                elif _is_entered(target):
                    made = stack.enter_context(made if is_class else contextmanager(lambda: made)())
                provider.value = provider.accepted(made)
                self._entered.append(provider)
                opened.set_result(None)
                await provider.stop.wait()
        except Exception as error:
            if opened.done():
                _log.warning("%s failed when it was left: %s", provider.source, error_summary(error))
            else:
                opened.set_exception(error if isinstance(error, GoalportError) else provider.failure(error))
                opened.exception()  # marks it as retrieved, since whoever waited for it may be gone
        finally:
            provider.value = None
            opened.cancel()


def _is_entered(target: Callable[..., Any]) -> bool:
    if isinstance(target, type):
        return hasattr(target, "__aenter__") or hasattr(target, "__enter__")
    kinds = inspect.isasyncgenfunction, inspect.isgeneratorfunction, inspect.iscoroutinefunction
    return any(each(target) for each in kinds)
