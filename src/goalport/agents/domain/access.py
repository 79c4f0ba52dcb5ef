"""Who may run an action: scopes, or an expression over the caller and the action's arguments.

`@action(access="finance:write")` names scopes, `@action(access="expr: caller.has('finance:write') and order.total <
100")` says more. Access is decided each time that the action is about to run, with its arguments, and never while
planning: who may not run an action is told so, and no other way to the goal is taken in its place. Above: the reader,
which checks what is written, and the execution of actions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jinja2 import TemplateSyntaxError

from goalport.agents.domain.expressions import EXPRESSION, Expression, is_expression
from goalport.agents.domain.signature import Parameter, inputs_among
from goalport.base.caller import Caller, require_scopes
from goalport.base.errors import BadInput
from goalport.base.introspection import Origin

_CALLER = "caller"


class AccessDenied(BadInput):
    """The caller of a process may not run an action. It is not tried again, and nothing is run in its place."""

    def __init__(self, action: str, lacking: str) -> None:
        super().__init__(f"{action} was not run, because it needs {lacking}. Whoever runs this server can grant more.")
        self.action = action


@dataclass(frozen=True, slots=True)
class AccessRule:
    """One rule that an action has; several hold together."""

    text: str
    """As it is written."""
    scopes: Sequence[str] = ()
    """The scopes that a caller needs, if the rule names scopes."""
    expression: Expression | None = None

    @classmethod
    def of(cls, origin: Origin, text: str, parameters: Sequence[Parameter]) -> "AccessRule":
        """The rule that is written for an action with these parameters. Raises `DeclarationError`."""
        try:
            return cls._of_expression(origin, text, parameters) if is_expression(text) else cls._of_scopes(text)
        except (TemplateSyntaxError, TypeError) as error:
            raise origin.error(
                expected="access to be scopes, or an expression that can be compiled",
                came=f"it is {text!r}: {error}",
                fix=f"""Write access="finance:write", or access="{EXPRESSION} {_CALLER}.has('finance:write')".""",
            ) from None

    @classmethod
    def _of_scopes(cls, text: str) -> "AccessRule":
        scopes = text.split()
        require_scopes("access", scopes)
        return cls(text, tuple(scopes))

    @classmethod
    def _of_expression(cls, origin: Origin, text: str, parameters: Sequence[Parameter]) -> "AccessRule":
        expression = Expression.of(text)
        known = {_CALLER, *(each.name for each in inputs_among(parameters))}
        if unknown := sorted(expression.names - known):
            raise origin.error(
                expected=f"access to look at {_CALLER} and at the inputs of the action",
                came=f"{text!r} names {', '.join(unknown)}",
                fix=f"Use one of: {', '.join(sorted(known))}.",
            )
        return cls(text, expression=expression)

    def lacking(self, caller: Caller, arguments: Mapping[str, object]) -> str:
        """What is missing for the rule to hold, in words; empty if it holds. Raises what its expression raises."""
        if self.expression is None:
            missing = [each for each in self.scopes if not caller.has(each)]
            return f"{'the scope' if len(missing) == 1 else 'the scopes'} {' and '.join(missing)}" if missing else ""
        values = {_CALLER: caller, **{name: arguments[name] for name in self.expression.names - {_CALLER}}}
        return "" if self.expression.compiled(values) is True else f"that {self.text!r} holds"
