"""What deployed agents make, take or start from and no store can write, so that their processes end with the program.

`goalport check`, deploying and the start-up report say it; a process that holds such an object runs as any other. What
lets itself be written only now and then is seen when it is written, and is an event then. Below: `storable`.
"""

from collections.abc import Iterable, Iterator, Sequence

from goalport.agents.blackboard import alternatives
from goalport.agents.domain import Action, Agent, is_state
from goalport.agents.domain.wait_for import promised
from goalport.base.words import type_name
from goalport.store import StoredTypes, storable


def unstorable_in(agents: Iterable[Agent], *, sealed: bool) -> tuple[str, ...]:
    """A sentence for each type whose objects surely cannot be written: where it is from, why, and the fix.

    `sealed`: whether there is a key that encrypts secrets.
    """
    types, found = StoredTypes(), dict[object, str]()
    for kind, by, verb in (each for agent in agents for each in _kinds(agent)):
        if kind not in found:
            why = storable(kind, types, sealed=sealed)
            found[kind] = f"{by} {verb} {type_name(kind)}, so its process ends with the program: {why}" if why else ""
            if why and isinstance(kind, type) and is_state(kind):
                found[kind] += " Take services as parameters of its methods: `Annotated[Service, Provided]`."
    return tuple(filter(None, found.values()))


def _kinds(agent: Agent) -> Iterator[tuple[object, object, str]]:
    """The types of what an agent's processes hold, each with where it is from; those that actions make come first."""
    for action in agent.actions:
        yield from ((kind, action.origin, "makes") for exit_ in action.outputs.exits for kind in exit_)
        yield from ((kind, action.origin, "asks") for kind in _questions(action))
    for action in agent.actions:
        yield from ((each.type, action.origin, "takes") for each in action.inputs)
    for goal in agent.goals:
        starts = goal.export.starting_input_types
        if isinstance(starts, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance] - reported when it is published
            yield from ((kind, f"The goal {goal.name}", "starts from") for kind in starts)


def _questions(action: Action) -> Iterator[object]:
    """The types of the questions that an action declares to ask, which may have fields of their own."""
    if action.outputs.may_wait:
        declared = alternatives(action.origin.hints()["return"])
        yield from (each for each in declared if promised(each) is not None)
