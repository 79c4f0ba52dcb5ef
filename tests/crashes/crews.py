"""A crew whose work has everything that a crash may interrupt, and what it did to the world, outside of every store.

What has an effect adds a line to a file: an action that begins or is about to end, a model that is paid, a tool that is
called. Two runs of one process write lines that can be compared, whatever the ids of their processes are.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from goalport import (
    ActionContext,
    AgentPlatform,
    Ai,
    Export,
    UserInput,
    WaitFor,
    achieves_goal,
    action,
    agent,
    run_subagent,
    tool,
)
from goalport.models.llm import ModelCall, ToolReply
from goalport.store import ProcessStore
from goalport.testing.scripted import ScriptedModel, calls_tool
from goalport.tools import ToolGroup

__all__ = ["WORDS", "Effects", "Film", "effects_of", "studio"]

WORDS: Final = ("rain", "night")


class Effects:
    """The lines of a file that several programs write, one after another or at once."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def add(self, *words: object) -> None:
        place = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(place, f"{' '.join(map(str, words))}\n".encode())
        os.close(place)

    @property
    def lines(self) -> list[str]:
        return self.file.read_text().splitlines() if self.file.exists() else []


def effects_of(lines: Sequence[str]) -> list[str]:
    """The same lines with the processes numbered in the order in which they are first named."""
    numbers: dict[str, str] = {}
    written: list[str] = []
    for line in lines:
        *words, key = line.split(" ")
        process, colon, number = key.partition(":")
        written.append(" ".join([*words, f"{numbers.setdefault(process, f'p{len(numbers)}')}{colon}{number}"]))
    return written


@dataclass(frozen=True)
class Script:
    text: str


@dataclass(frozen=True)
class Research:
    text: str


@dataclass(frozen=True)
class Budgeted:
    text: str


@dataclass(frozen=True)
class Music:
    text: str


@dataclass(frozen=True)
class Taste:
    text: str


@dataclass(frozen=True)
class Film:
    text: str


@dataclass(frozen=True)
class Library:
    effects: Effects

    @tool
    async def look_up(self, word: str, context: ActionContext) -> str:
        """Look a word up."""
        self.effects.add("tool", word, context.key)
        return f"{word} is wet"


class _Begun:
    """What an action does to the world when it begins and before it ends."""

    def __init__(self, effects: Effects, context: ActionContext, name: str) -> None:
        self._effects, self._context, self._name = effects, context, name
        effects.add("begin", name, context.key)

    def end(self) -> None:
        self._effects.add("end", self._name, self._context.key)


@agent(description="Makes music, after a question")
class Composer:
    def __init__(self, effects: Effects) -> None:
        self.effects = effects

    @action
    async def hum(self, script: Script, context: ActionContext) -> WaitFor[Taste]:
        _Begun(self.effects, context, "hum").end()
        return WaitFor.form_submission(f"Which music for {script.text}?", Taste)

    @achieves_goal(description="Music")
    async def compose(self, script: Script, taste: Taste, context: ActionContext) -> Music:
        _Begun(self.effects, context, "compose").end()
        return Music(f"{taste.text} music for {script.text}")


@agent(description="Makes a film")
class Director:
    def __init__(self, effects: Effects) -> None:
        self.effects, self.composer = effects, Composer(effects)

    @action
    async def write(self, user_input: UserInput, context: ActionContext) -> Script:
        begun = _Begun(self.effects, context, "write")
        context.spend(cost=0.5)
        begun.end()
        return Script(user_input.content)

    @action
    async def research(self, script: Script, ai: Ai, context: ActionContext) -> Research:
        begun = _Begun(self.effects, context, "research")
        found = await ai.with_tool_groups("library").generate_text(f"Research {script.text}.")
        begun.end()
        return Research(found)

    @action
    async def budget(self, research: Research, context: ActionContext) -> Budgeted:
        begun = _Begun(self.effects, context, "budget")
        euros = await context.ask(f"How much for {research.text}?", int)
        begun.end()
        return Budgeted(f"{euros} euros")

    @achieves_goal(description="A film", export=Export(durable=True))
    @action
    async def shoot(self, script: Script, budget: Budgeted, context: ActionContext) -> Film:
        begun = _Begun(self.effects, context, "shoot")
        music = await run_subagent(self.composer, Music, script)
        begun.end()
        return Film(f"{script.text} for {budget.text} with {music.text}")


class Actors(ScriptedModel):
    """Its replies depend on what it is told, as those of a model do, so that any program may ask it at any time."""

    def __init__(self, effects: Effects) -> None:
        super().__init__()
        self.effects = effects

    def script(self, call: ModelCall) -> Any:
        turn = sum(isinstance(each, ToolReply) for each in call.messages)
        key = ActionContext.current().key
        self.effects.add("model", f"turn-{turn}", key)
        return calls_tool("look_up", word=WORDS[turn]) if turn < len(WORDS) else "night rain is wet"


def studio(store: ProcessStore, effects: Effects, **settings: Any) -> AgentPlatform:
    director = Director(effects)
    return AgentPlatform(
        [director, director.composer],
        store=store,
        models=Actors(effects),
        tool_groups=[ToolGroup.of("library", Library(effects))],
        **settings,
    )
