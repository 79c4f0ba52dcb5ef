"""A goal of three steps that needs no model: what the client tests call."""

from typing import Literal

import anyio
from pydantic import BaseModel, Field

from goalport import Export, achieves_goal, action, agent


class Saying(BaseModel):
    """What somebody says."""

    text: str = Field(description="The words to shout")
    times: int = Field(default=1, ge=1, le=5, description="How often to shout them")
    mood: Literal["glad", "angry"] = Field(default="glad", description="How it should sound")
    pause: float = Field(default=0, ge=0, le=1, description="Seconds that each step takes, to see them pass")


class Words(BaseModel):
    """A saying, cut into words."""

    items: list[str]
    ending: str
    pause: float


class LoudWords(BaseModel):
    """The words, loud."""

    items: list[str]
    ending: str
    pause: float


class Shout(BaseModel):
    """What is heard."""

    content: str
    words: int


@agent(description="Shouts what one says")
class Shouter:
    """Cuts a saying into words, raises them, and puts them together again."""

    @action
    async def listen(self, saying: Saying) -> Words:
        await anyio.sleep(saying.pause)
        ending = "!" if saying.mood == "glad" else "!!"
        return Words(items=saying.text.split() * saying.times, ending=ending, pause=saying.pause)

    @action
    async def raise_voice(self, words: Words) -> LoudWords:
        await anyio.sleep(words.pause)
        return LoudWords(items=[word.upper() for word in words.items], ending=words.ending, pause=words.pause)

    @achieves_goal(
        description="Shout a saying",
        export=Export(remote=True, name="shout", starting_input_types=[Saying], read_only=True),
    )
    @action
    async def shout(self, words: LoudWords) -> Shout:
        await anyio.sleep(words.pause)
        return Shout(content=" ".join(words.items) + words.ending, words=len(words.items))
