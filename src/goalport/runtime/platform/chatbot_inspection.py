"""Inspection of chatbots: whether somebody who writes is answered, each time, and nothing runs that nobody asked for.

Its mistakes are among those of `inspection`, and its remarks among the notes of `goalport check`. Nothing runs.
"""

from collections.abc import Iterator, Sequence

from goalport.agents.blackboard import fits
from goalport.agents.domain import Action, Agent, is_state
from goalport.base.errors import DeclarationError
from goalport.base.words import listed, type_name, with_article
from goalport.models.llm import UserMessage
from goalport.runtime.process import Scope

_ANSWERING = "@action(trigger=UserMessage, can_rerun=True)"


def chatbot_mistakes(agent: Agent, scope: Scope) -> Iterator[DeclarationError]:
    """The mistakes in a chatbot: `agent` as it was read, and its scope with the actions that others lend it."""
    if not any(_answers(each) for each in scope.actions.values()):
        yield DeclarationError(
            agent.source or f"Chatbot {agent.name}",
            expected="an action that answers what a person says",
            came="no action of this chatbot takes a message or has the trigger UserMessage, so nobody gets an answer",
            fix=f"Put {_ANSWERING} above the method that answers.",
        )
    for action in _own(agent, scope):
        if action.settings.trigger is None:
            yield from _endless(action)
        elif _answers_once(action, scope):
            yield action.origin.error(
                expected="to run again, for each message or event",
                came=f"it runs once in a conversation: after its first {action.settings.trigger.__name__} it is done",
                fix="Write `can_rerun=True` here, or return a state in which other actions go on.",
            )


def chatbot_remarks(agent: Agent, scope: Scope) -> Iterator[str]:
    """A sentence for each action that a chatbot runs without being asked, and one for all that others lend it."""
    for declared, action in zip(agent.actions, _own(agent, scope), strict=True):
        if not any(_endless(action)) and _begins_by_itself(action, scope):
            yield (
                f"{action.origin} has no trigger: the chatbot {agent.name} runs it as soon as what it takes is there,"
                " without being asked. If it is to answer, write `trigger=UserMessage, can_rerun=True`."
            )
        made = next((each for each in _made_by_others(action, scope) if not is_state(each)), None)
        if made is not None and declared.settings.trigger is not action.settings.trigger:
            yield (
                f"{action.origin} takes a message, which is its trigger: when another action has made"
                f" {with_article(made)}, it waits for the message after that. If it is to run at once, write"
                f" `trigger={type_name(made)}`."
            )
    own = {each.name for each in agent.actions}
    lent = [name for name in scope.actions if name not in own]
    if unasked := [name for name in lent if _begins_by_itself(scope.actions[name], scope)]:
        yield (
            f"The chatbot {agent.name} runs these actions of others as soon as what they take is there, without being"
            f" asked, since they have no trigger: {listed(unasked)}."
        )


def _own(agent: Agent, scope: Scope) -> Sequence[Action]:
    """The actions that are the chatbot's own, with the triggers that they have in it."""
    return [scope.actions[each.name] for each in agent.actions]


def _answers(action: Action) -> bool:
    return action.settings.trigger is not None and fits(UserMessage, action.settings.trigger)


def _endless(action: Action) -> Iterator[DeclarationError]:
    """An action that a chatbot would repeat until the budget of the turn is spent. One with conditions may stop."""
    if action.settings.can_rerun and not action.settings.pre:
        yield action.origin.error(
            expected="a trigger, since this is an action of a chatbot",
            came="without one, and with `can_rerun=True`, it runs again and again until the budget of a turn is spent",
            fix="Write `trigger=UserMessage` for what answers a message, or the type of the event that it reacts to.",
        )


def _answers_once(action: Action, scope: Scope) -> bool:
    """Whether an action with a trigger is done after the first time, and leads nowhere from where others go on."""
    ends = action.name in scope.goals or any(is_state(kind) for exit_ in action.outputs.exits for kind in exit_)
    return not (action.settings.can_rerun or ends or is_state(action.origin.owner))


def _begins_by_itself(action: Action, scope: Scope) -> bool:
    """Whether an action needs neither a trigger nor a condition, and nothing that another one makes."""
    return not (action.settings.trigger or action.settings.pre or any(_made_by_others(action, scope)))


def _made_by_others(action: Action, scope: Scope) -> Iterator[object]:
    """The types that an action needs and another one makes."""
    return (each.type for each in action.inputs if each.required and each.type not in scope.unmade)
