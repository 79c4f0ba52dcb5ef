"""What a process that an action starts finds on its blackboard of what its parent knows.

It is to do its own work from what it was called with: what it could make itself, or what its parent stands in, does not
count as done. Pure. Above: the platform, which starts processes.
"""

from collections.abc import Sequence

from goalport.blackboard import Blackboard
from goalport.domain import is_state, promises_of
from goalport.plan import Holds
from goalport.process.scope import Scope

__all__ = ["lent"]


def lent(blackboard: Blackboard, scope: Scope, *, called_with_inputs: bool) -> Blackboard:
    """A copy of the parent's blackboard without what the child is to come to itself.

    States are not handed on, nor conditions that the child's actions post, nor objects of types that its actions make.
    One that is called without inputs takes them from its parent: then what some action needs stays all the same.
    """
    copy, actions = blackboard.spawn(), scope.actions.values()
    takers = () if called_with_inputs else actions
    made = [kind for action in actions for exit_ in action.outputs.exits for kind in exit_]
    for value in _own(copy, made, [each.type for action in takers for each in action.inputs]):
        copy.hide(value)
    posted = {name for action in actions for name in promises_of(action.settings.post)}
    needed = () if called_with_inputs else (each.condition for each in scope.facts if isinstance(each, Holds))
    for condition in posted.difference(needed):
        copy.conditions.pop(condition, None)
    return copy


def _own(blackboard: Blackboard, made: Sequence[object], taken: Sequence[object]) -> list[object]:
    return [
        entry.value
        for entry in blackboard.entries
        if is_state(type(entry.value)) or (any(map(entry.is_of, made)) and not any(map(entry.is_of, taken)))
    ]
