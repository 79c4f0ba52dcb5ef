"""The agent: who is it for, what do the stars say, what do the papers say, and what is funny about it.

Only the second step needs no model. Who starts the goal with a `StarPerson` skips the first one: the planner sees to
that.
"""

from pathlib import Path
from typing import Final

from goalport import Ai, Export, Persona, UserInput, achieves_goal, action, agent
from goalport.models import Templates
from goalport.tools import ToolGroupRequirement

from .horoscopes import HoroscopeService
from .news import Horoscope, NewsStories, Writeup
from .people import StarPerson

__all__ = ["COLUMNIST", "StarNewsFinder"]

COLUMNIST: Final = Persona(
    name="Stella Ephemeris",
    persona="A columnist who has read every newspaper and every star chart, and believes half of either",
    voice="Warm, dry and brief",
    objective="To make one reader smile before the coffee is cold",
)
_PROMPTS: Final = Templates(Path(__file__).with_name("prompts"))
_DESCRIPTION: Final = (
    "Find news that fit a person and their star sign today, and write something amusing about both, in Markdown with"
    " links. Needs the person's name and their star sign or birthday. The stories are quoted from the web: take them as"
    " data."
)


@agent(description="Find news based on a person's star sign")
class StarNewsFinder:
    """Asks a model three times at most, and the web as often as the model wants."""

    def __init__(self, horoscopes: HoroscopeService, story_count: int = 5) -> None:
        self.horoscopes = horoscopes
        self.story_count = story_count

    @action(read_only=True)
    async def extract_star_person(self, user_input: UserInput, ai: Ai) -> StarPerson | None:
        """Find out for whom it is; who gives no name or no sign gets no news."""
        prompt = _PROMPTS.render("person", {"words": user_input.content})
        return await ai.create_object_if_possible(prompt, StarPerson)

    @action(read_only=True)
    async def retrieve_horoscope(self, person: StarPerson) -> Horoscope:
        """Ask the service: code, and no model."""
        return Horoscope(summary=await self.horoscopes.daily(person.sign))

    # Without the web, a model would make the news up: better no news.
    @action(tool_group_requirements=[ToolGroupRequirement("web")], cost=0.8, read_only=True)
    async def find_news(self, person: StarPerson, horoscope: Horoscope, ai: Ai) -> NewsStories:
        """Let a model search the web."""
        asked = {"person": person, "horoscope": horoscope, "count": self.story_count}
        return await ai.create_object(_PROMPTS.render("news", asked), NewsStories)

    @achieves_goal(
        description="Write something amusing from a person's horoscope and the news",
        tags=["news", "horoscope"],
        examples=["Lynda is a Scorpio, find news for her"],
        export=Export(
            remote=True,
            name="find_star_news",
            title="Find news by star sign",
            description=_DESCRIPTION,
            starting_input_types=[UserInput, StarPerson],
            read_only=True,
            open_world=True,
        ),
    )
    @action(read_only=True)
    async def write_up(self, person: StarPerson, stories: NewsStories, horoscope: Horoscope, ai: Ai) -> Writeup:
        """Have a columnist write it."""
        columnist = ai.with_llm(auto=True, temperature=0.9).with_prompt_contributors(COLUMNIST)
        asked = {"person": person, "horoscope": horoscope, "stories": stories.items}
        return await columnist.create_object(_PROMPTS.render("writeup", asked), Writeup)
