"""A goal that asks a person, and tells when it went on."""

import time
from dataclasses import dataclass

from goalport import Export, UserInput, WaitFor, achieves_goal, action, agent


@dataclass(frozen=True)
class Word:
    word: str


@dataclass(frozen=True)
class Begun:
    at: float
    """The time at which the action after the answer began, in seconds since 1970."""


@agent(description="Asks")
class Asking:
    @action
    def which(self, user_input: UserInput) -> WaitFor[Word]:
        return WaitFor.form_submission("Which word?", Word)

    @achieves_goal(description="What follows an answer", export=Export(remote=True, name="ask"))
    async def go_on(self, word: Word) -> Begun:
        return Begun(time.time())
