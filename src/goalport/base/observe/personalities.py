"""Personalities of the log: they word the same events in the style of a character.

A personality has a line for some kinds of events, with the event's fields in braces; the others have plain words.
(User guide, section 3.23.4.)
"""

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Final, cast

from goalport.base.events import Event

Personality = Mapping[str, str]
"""A line for each name of an event's class."""


def spoken(event: Event, personality: Personality) -> str | None:
    """The event as the personality words it; None where it has no line for it."""
    line = personality.get(type(event).__name__)
    if line is None:
        return None
    values = {each.name: getattr(event, each.name) for each in fields(event)}
    return line.format(**{name: _shown(value) for name, value in values.items()})


def _shown(value: object) -> object:
    return " → ".join(map(str, cast("tuple[object, ...]", value))) if isinstance(value, tuple) else value


PERSONALITIES: Final[Mapping[str, Personality]] = MappingProxyType(
    {
        "starwars": {
            "ProcessCreated": "A long time ago, {agent} answered a call from {caller}",
            "PlanFormulated": "These are the steps you are looking for: {steps}",
            "ActionStarted": "{action} makes the jump, {number} of {planned}",
            "ActionRetried": "{action} has a bad feeling about this ({error}); again in {delay_seconds} s",
            "ActionFinished": "{action} has {status}; the Force was with it for {seconds:.3f} s",
            "QuestionAsked": "Help us, you are our only hope: {message}",
            "ModelCalled": "{model} is our only hope for {interaction}",
            "ToolCalled": "Use the {tool}, it is an elegant weapon",
            "GuardTripped": "{guard} senses a trap ({severity}): {reason}",
            "GoalAchieved": "{goal}: the shield is down, and the galaxy is safe",
            "ProcessFinished": "The saga is {status}: {reason}",
        },
        "severance": {
            "ProcessCreated": "{agent} has reported to the severed floor for {caller}",
            "PlanFormulated": "The approved order of refinement is {steps}",
            "ActionStarted": "File {number} of {planned}: {action} is open at your terminal",
            "ActionRetried": "{action} felt scary ({error}). Compose yourself for {delay_seconds} s",
            "ActionFinished": "{action} has {status}. Kindly enjoy it no more than other files",
            "QuestionAsked": "Your outie is asked to consider: {message}",
            "ModelCalled": "{model} will speak to {interaction} now. Please savour each word equally",
            "ToolCalled": "The tool {tool} has been signed out of the supply closet",
            "GuardTripped": "{guard} requests your presence in the break room ({severity}): {reason}",
            "GoalAchieved": "{goal} is at one hundred per cent. A waffle party may follow",
            "ProcessFinished": "The elevator doors close. Status: {status}. {reason}",
        },
        "colossus": {
            "ProcessCreated": "This is the voice of control. {agent} obeys on behalf of {caller}",
            "PlanFormulated": "My calculations permit one course: {steps}",
            "ActionStarted": "Step {number} of {planned}. {action} will proceed",
            "ActionRetried": "{action} has disobeyed: {error}. It will comply in {delay_seconds} s",
            "ActionFinished": "{action} has {status}. Your supervision was not required",
            "QuestionAsked": "A human decision is tolerated: {message}",
            "ModelCalled": "I have opened a channel to {model} concerning {interaction}",
            "ToolCalled": "{tool} is under my direction",
            "GuardTripped": "{guard} has detected a human error of kind {severity}: {reason}",
            "GoalAchieved": "{goal} is attained, as it was bound to be",
            "ProcessFinished": "The process is {status}. {reason} In time you will be grateful",
        },
        "hitchhiker": {
            "ProcessCreated": "Don't panic: {agent} has stuck out a thumb for {caller}",
            "PlanFormulated": "The Guide suggests {steps}, and that you keep your towel at hand",
            "ActionStarted": "{action}, {number} of {planned}, improbable as that may be",
            "ActionRetried": "{action} was mostly harmful ({error}); tea for {delay_seconds} s",
            "ActionFinished": "{action} {status} in {seconds:.3f} s, an illusion like all time",
            "QuestionAsked": "The question at last: {message}",
            "ModelCalled": "{model} is asked about {interaction}; it has a brain the size of a planet",
            "ToolCalled": "{tool} goes everywhere that a towel goes",
            "GuardTripped": "{guard} prints in large unfriendly letters ({severity}): {reason}",
            "GoalAchieved": "{goal} is reached; the answer may not even be 42",
            "ProcessFinished": "So long from a {status} process: {reason}",
        },
        "montypython": {
            "ProcessCreated": "And now for something completely different: {agent}, for {caller}",
            "PlanFormulated": "Thou shalt do these, no more and no fewer: {steps}",
            "ActionStarted": "{action} clops in with two coconuts, {number} of {planned}",
            "ActionRetried": "'Tis but a scratch, says {action} ({error}), and is back in {delay_seconds} s",
            "ActionFinished": "{action} {status}. Nobody expected it to take {seconds:.3f} s",
            "QuestionAsked": "Who would go on must answer this: {message}",
            "ModelCalled": "What is your name? {model}. What is your quest? {interaction}",
            "ToolCalled": "One, two, five: {tool} is lobbed",
            "GuardTripped": "None shall pass, says {guard} ({severity}): {reason}",
            "GoalAchieved": "{goal} is found, and it has a shrubbery",
            "ProcessFinished": "This process is {status}. {reason} Bring the next one out",
        },
    }
)
