"""`AgentBuilder`: an agent that a program builds from functions and prompts, without a class.

The functions become methods of a generated class, which is read as any other class. So they take and return what
methods take and return, without `self`. (User guide, section 3.7.)
"""

import inspect
import re
import string
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar, cast, overload

from goalport.agents.domain import (
    Agent,
    Export,
    GroupRequirement,
    PlannerType,
    Resolver,
    RetryPolicy,
    decorators,
    read_agent,
)
from goalport.base.errors import DeclarationError
from goalport.base.words import listed, type_label
from goalport.models.llm import LlmOptions
from goalport.runtime.ai import Ai
from goalport.runtime.process import SERVICE_TYPES
from goalport.tools import snake

F = TypeVar("F", bound=Callable[..., Any])
G = TypeVar("G")
_INPUT = "input"
_ROOT = re.compile(r"[.\[]")


class AgentBuilder:
    """`jokes = AgentBuilder("Jokes", "Tells jokes")`, then `@jokes.action` above functions, and `jokes.build()`.

    Each decorator returns the function unchanged, and can be called with a function as well. With `component=True` it
    builds a component, whose actions and conditions every agent may use. `planner`, `opaque`, `provider` and `version`
    are those of `@agent`; `resolvers` fill the parameters that they support.
    """

    def __init__(
        self,
        name: str,
        description: str = "",
        *,
        component: bool = False,
        planner: PlannerType = PlannerType.GOAP,
        opaque: bool = False,
        provider: str = "",
        version: str = "0.1.0",
        resolvers: Sequence[Resolver] = (),
    ) -> None:
        self.name = name
        self._marking: Callable[[type], type] = (
            decorators.component(name=name, description=description)
            if component
            else decorators.agent(
                name=name, description=description, planner=planner, opaque=opaque, provider=provider, version=version
            )
        )
        self._resolvers = resolvers
        self._members: dict[str, staticmethod[..., Any]] = {}
        self._built = False

    @overload
    def action(self, function: F, /) -> F: ...
    @overload
    def action(
        self,
        /,
        *,
        name: str = "",
        description: str = "",
        pre: Sequence[str] = (),
        post: Sequence[str] = (),
        can_rerun: bool = False,
        clear_blackboard: bool = False,
        cost: float = 0.0,
        value: float = 0.0,
        cost_method: str = "",
        value_method: str = "",
        tool_groups: Sequence[str] = (),
        required_tool_groups: Sequence[str] = (),
        tool_group_requirements: Sequence[GroupRequirement] = (),
        output_binding: str = "",
        trigger: type | None = None,
        read_only: bool = False,
        repeatable: bool = True,
        retry: RetryPolicy | None = None,
        access: str | None = None,
    ) -> Callable[[F], F]: ...
    def action(self, function: Callable[..., Any] | None = None, /, *, name: str = "", **settings: Any) -> Any:
        """Add a function as an action; the settings are those of `@action`, and `name` defaults to the function's."""
        return self._add(decorators.action(**settings), function, name)

    def achieves_goal(
        self,
        *,
        description: str,
        name: str = "",
        value: float = 0.0,
        tags: Sequence[str] = (),
        examples: Sequence[str] = (),
        export: Export | None = None,
    ) -> Callable[[F], F]:
        """Add a function as an action whose completion achieves a goal; see the decorator of the same name."""
        goal: dict[str, Any] = {"description": description, "tags": tags, "examples": examples, "export": export}
        return self._add(decorators.achieves_goal(value=value, **goal), None, name)

    @overload
    def condition(self, function: F, /) -> F: ...
    @overload
    def condition(self, /, *, name: str = "", cost: float = 0.0) -> Callable[[F], F]: ...
    def condition(self, function: Callable[..., Any] | None = None, /, *, name: str = "", cost: float = 0.0) -> Any:
        """Add a function that returns whether a condition holds; None means that it is unknown."""
        return self._add(decorators.condition(name=name, cost=cost), function, name)

    @overload
    def cost(self, function: F, /) -> F: ...
    @overload
    def cost(self, /, *, name: str = "") -> Callable[[F], F]: ...
    def cost(self, function: Callable[..., Any] | None = None, /, *, name: str = "") -> Any:
        """Add a function that computes a cost or a value, for `cost_method=` and `value_method=`."""
        return self._add(decorators.cost(name=name), function, name)

    def prompted(
        self,
        prompt: str,
        /,
        *,
        takes: type | Sequence[type],
        gives: type[G],
        name: str = "",
        llm: str | LlmOptions | None = None,
        template: bool = False,
        **settings: Any,
    ) -> Callable[..., Awaitable[G]]:
        """Add an action that is made of a prompt, such as `"A joke about {topic.content}"`; it returns its function.

        The object that it takes is `{input}` in the prompt; it is also available by the name of its class, `{topic}`,
        which is needed if it takes several objects. With `template=True` the prompt is the name of a template with
        these variables. `llm` is what `Ai.with_llm` takes. `name` defaults to `to_` and the name of the result's class;
        `settings` are those of `@action`. Raises `DeclarationError` for an unknown name in the prompt.
        """
        kinds = (takes,) if isinstance(takes, type) else tuple(takes)
        named = {snake(type_label(each)): each for each in kinds}
        if len(named) < len(kinds):
            raise self._mistake(
                "types of different names to take", f"they are {listed(map(type_label, kinds))}", "Take each once."
            )
        if not template:
            _check_placeholders(f"{self.name}.prompted", prompt, {_INPUT, *named} if named else set())

        async def ask(*, ai: Ai, **given: object) -> G:
            asked = ai if llm is None else ai.with_llm(llm)
            variables = {_INPUT: next(iter(given.values()), None), **given}
            if template:
                return await asked.with_template(prompt).create_object(gives, variables)
            return await asked.create_object(prompt.format_map(variables), gives)

        filled = {**named, "ai": Ai}
        parameters = [inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY) for each in filled]
        ask.__name__ = ask.__qualname__ = name or f"to_{snake(type_label(gives))}"
        ask.__annotations__ = {**filled, "return": gives}
        cast("Any", ask).__signature__ = inspect.Signature(parameters)
        settings.setdefault("description", "" if template else prompt)
        return self.action(**settings)(ask)

    def build(self) -> Agent:
        """The agent or component, to be deployed as any other. Raises `DeclarationError` as for a class."""
        self._built = True
        modules = (each.__func__.__module__ for each in self._members.values())
        module = next((each for each in modules if each != __name__), __name__)
        made = type(self.name, (), {**self._members, "__module__": module})
        return read_agent(self._marking(made)(), SERVICE_TYPES, self._resolvers)

    def __goalport_unserved__(self) -> str:
        """Why a workspace does not serve it, if that is probably a mistake; else an empty text."""
        return "" if self._built else f"the builder of {self.name} was never asked to build its agent. Write .build()."

    def _add(self, mark: Callable[[Any], Any], function: Callable[..., Any] | None, name: str) -> Any:
        if function is None:
            return partial(self._add, mark, name=name)
        if not callable(function):
            raise TypeError(f"Expected a function, but got {function!r}. Write settings by their names.")
        known = next((key for key, each in self._members.items() if each.__func__ is function), "")
        own = known or name or getattr(function, "__name__", "")
        if not own.isidentifier() or own.startswith("__"):
            raise self._mistake("a function with a name", f"it is {own!r}", 'Write name="…".')
        # The staticmethod is marked, not the function, so that several builders can use the function.
        member = self._members.setdefault(own, staticmethod(function))
        if member.__func__ is not function:
            raise self._mistake("functions of different names", f"two are called {own!r}", 'Write name="…" for one.')
        mark(member)
        return function

    def _mistake(self, expected: str, came: str, fix: str) -> DeclarationError:
        return DeclarationError(f"The builder of the agent {self.name!r}", expected=expected, came=came, fix=fix)


def _check_placeholders(where: str, prompt: str, known: set[str]) -> None:
    """Raise `DeclarationError` if a placeholder of the prompt names no known object."""
    fix = "Write braces that are no placeholder twice: {{."
    try:
        fields = [name for _, name, _, _ in string.Formatter().parse(prompt) if name is not None]
    except ValueError as error:
        raise DeclarationError(where, expected="a prompt that can be filled", came=str(error), fix=fix) from None
    for each in fields:
        if _ROOT.split(each)[0] not in known:
            expected = f"placeholders of what it takes: {listed(sorted(known))}"
            raise DeclarationError(where, expected=expected, came=f"{each!r} is none", fix=fix)
