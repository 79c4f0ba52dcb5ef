"""Expressions over objects: `expr: order.total > 100 and 'gift' in tags`, in Jinja's sandbox, never `eval`.

As a precondition an expression is a condition like any other: a name, and a function that evaluates it. A name in it
means the object of that binding, else the newest object whose class has that name (`PurchaseOrder`, also spelt
`purchaseOrder` or `purchase_order`). While such an object is missing the expression is false; if its evaluation fails,
it is unknown. (User guide, section 3.18.1.)

`@action(access="finance:write")` names the scopes that a caller needs; `@action(access="expr:
caller.has('finance:write') and order.total < 100")` says more. Access is decided each time that the action is about to
run, with its arguments, and never while planning: if it is denied, no other way to the goal is tried.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, cast

from jinja2 import StrictUndefined, TemplateSyntaxError, UndefinedError, nodes, pass_context
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import Context
from jinja2.utils import missing

from goalport.agents.blackboard import Blackboard
from goalport.agents.domain.agents import Condition
from goalport.agents.domain.signature import Injected, Parameter, inputs_among
from goalport.base.caller import Caller, require_scopes
from goalport.base.errors import BadInput
from goalport.base.introspection import Origin
from goalport.models.prompts.templates import BoundedSandbox

EXPRESSION = "expr:"
_FOREIGN_PREFIX = "spel:"
_NUMBERS = (int, float, Decimal)
_MOST_BITS = 10_000
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class UnsetName(UndefinedError):
    """An expression uses a name for which there is no object."""


class _Unset(StrictUndefined):
    """The value of an undefined name. A missing object makes an expression false; a missing attribute is an error."""

    def __init__(
        self,
        hint: str | None = None,
        obj: Any = missing,
        name: str | None = None,
        exc: type[Exception] = UndefinedError,
    ) -> None:
        unset = obj is missing and name is not None and hint is None
        super().__init__(hint, obj, name, UnsetName if unset else exc)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression and the names in it. Use `Expression.of`."""

    source: str
    names: frozenset[str]
    compiled: Callable[..., object]

    @staticmethod
    @lru_cache(maxsize=4096)
    def of(text: str) -> "Expression":
        """The expression in a text such as `expr: order.total > 100`. Raises jinja2's `TemplateSyntaxError`."""
        source = text.removeprefix(EXPRESSION).strip()
        compiled = _sandbox.compile_expression(source, undefined_to_none=False)
        tree = _sandbox.parse(f"{{{{ {source}\n}}}}")
        for found in tree.find_all(nodes.Getattr):
            if found.attr.startswith("_"):
                raise TemplateSyntaxError(f"{found.attr} is private", found.lineno)
        return Expression(source, frozenset(find_undeclared_variables(tree)), compiled)

    @property
    def condition(self) -> Condition:
        """The expression as a condition for the planner."""
        return Condition(f"{EXPRESSION} {self.source}", self.answer, (Injected("blackboard", Blackboard),))

    async def answer(self, blackboard: Blackboard) -> bool:
        """Whether it holds for the objects on a blackboard. Raises the errors of its evaluation."""
        found: dict[str, object] = {}
        for name in self.names:
            named = (each for each in reversed(blackboard.objects) if name in spellings(type(each)))
            value = bound if (bound := blackboard.get(name)) is not None else next(named, None)
            if value is not None:
                found[name] = value
        try:
            answer = self.compiled(found)
            bool(answer)  # an expression that is only an unset name raises no earlier
        except UnsetName:
            return False
        if not isinstance(answer, bool):
            raise TypeError(f"Expected a yes or no, but {self.source!r} gave {answer!r}. Compare it with something.")
        return answer


def canonical(origin: Origin, names: Iterable[str]) -> tuple[str, ...]:
    """The names of conditions as the planner knows them. Raises `DeclarationError` for an invalid expression."""
    found: list[str] = []
    for name in names:
        if name.startswith(_FOREIGN_PREFIX):
            raise origin.error(
                expected="an expression in the syntax of Jinja",
                came=f"{name!r} is one of Spring's",
                fix=f"Write `{EXPRESSION} …`, for example `{EXPRESSION} order.total > 100 and order.items | size > 0`.",
            )
        try:
            found.append(Expression.of(name).condition.name if is_expression(name) else name)
        except TemplateSyntaxError as error:
            raise origin.error(
                expected="an expression that can be compiled",
                came=f"{name!r} cannot: {error.message}",
                fix=f"Write a Jinja expression: `{EXPRESSION} order.total > 100 and 'gift' in tags`.",
            ) from None
    return tuple(found)


def is_expression(name: str) -> bool:
    """Whether the name of a condition is an expression."""
    return name.startswith(EXPRESSION)


def tokens_of(text: str) -> tuple[str, ...]:
    """The tokens of an expression, spaces among them. Raises jinja2's `TemplateSyntaxError`."""
    _, *inner, _ = _sandbox.lex(f"{{{{{text.removeprefix(EXPRESSION)}\n}}}}")
    return tuple(value for _, _, value in inner)


@lru_cache(maxsize=4096)
def spellings(cls: type) -> frozenset[str]:
    """The names that an expression may use for an object: those of its class and of the bases, in each spelling."""
    names = [each.__name__ for each in cls.__mro__ if each.__module__ != "builtins"]
    return frozenset(
        spelt for name in names for spelt in (name, name[0].lower() + name[1:], _HUMP.sub("_", name).lower())
    )


def _size(values: Iterable[object]) -> int:
    return len(values) if isinstance(values, Sized) else sum(1 for _ in values)


@pass_context
def _any(context: Context, values: Iterable[object], *test: object) -> bool:
    return any(True for _ in _filter("selectattr", context, values, test)) if test else any(values)


@pass_context
def _all(context: Context, values: Iterable[object], *test: object) -> bool:
    return not any(True for _ in _filter("rejectattr", context, values, test)) if test else all(values)


def _filter(name: str, context: Context, values: Iterable[object], test: tuple[object, ...]) -> Iterable[object]:
    filters: dict[str, Any] = dict(context.environment.filters)
    return filters[name](context, values, *test)


def _instance_of(value: object, name: str) -> bool:
    return any(each.__name__ == name for each in type(value).__mro__)


class _Sandbox(BoundedSandbox):
    """A sandbox that limits operators which could take excessive time or memory."""

    intercepted_binops = frozenset({"**", "*", "%"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if not (isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS)):
            raise TypeError(f"Expected numbers on both sides of {operator}, but got {left!r:.40} and {right!r:.40}.")
        if operator == "**" and isinstance(left, int) and left.bit_length() * right > _MOST_BITS:
            raise ValueError(f"Expected a number of {_MOST_BITS} bits at most, but got {left!r:.40} ** {right!r:.40}.")
        return super().call_binop(context, operator, left, right)


_sandbox = _Sandbox(undefined=_Unset)
_sandbox.globals.clear()
cast("dict[str, object]", _sandbox.filters).update(
    {"size": _size, "length": _size, "count": _size, "any": _any, "all": _all}
)
cast("dict[str, object]", _sandbox.tests)["instance_of"] = _instance_of
_CALLER = "caller"


class AccessDenied(BadInput):
    """The caller of a process may not run an action. The action is not tried again, and no other runs in its place."""

    def __init__(self, action: str, lacking: str) -> None:
        super().__init__(f"{action} was not run, because it needs {lacking}. Whoever runs this server can grant more.")
        self.action = action


@dataclass(frozen=True, slots=True)
class AccessRule:
    """One access rule of an action; all its rules must hold."""

    text: str
    """The rule as it was written."""
    scopes: Sequence[str] = ()
    """The scopes that a caller needs, if the rule names scopes."""
    expression: Expression | None = None

    @classmethod
    def of(cls, origin: Origin, text: str, parameters: Sequence[Parameter]) -> "AccessRule":
        """The rule of a text, for an action with these parameters. Raises `DeclarationError`."""
        expression = None
        try:
            if is_expression(text):
                expression = Expression.of(text)
            else:
                require_scopes("access", text.split())
        except (TemplateSyntaxError, TypeError) as error:
            raise origin.error(
                expected="access to be scopes, or an expression that can be compiled",
                came=f"it is {text!r}: {error}",
                fix=f"""Write access="finance:write", or access="{EXPRESSION} {_CALLER}.has('finance:write')".""",
            ) from None
        if expression is None:
            return cls(text, tuple(text.split()))
        known = {_CALLER, *(each.name for each in inputs_among(parameters))}
        if unknown := sorted(expression.names - known):
            raise origin.error(
                expected=f"access to look at {_CALLER} and at the inputs of the action",
                came=f"{text!r} names {', '.join(unknown)}",
                fix=f"Use one of: {', '.join(sorted(known))}.",
            )
        return cls(text, expression=expression)

    def lacking(self, caller: Caller, arguments: Mapping[str, object]) -> str:
        """What is missing for the rule to hold, in words; empty if it holds. Raises the errors of its expression."""
        if self.expression is None:
            missing = [each for each in self.scopes if not caller.has(each)]
            return f"{'the scope' if len(missing) == 1 else 'the scopes'} {' and '.join(missing)}" if missing else ""
        values = {_CALLER: caller, **{name: arguments[name] for name in self.expression.names - {_CALLER}}}
        return "" if self.expression.compiled(values) is True else f"that {self.text!r} holds"
