"""The steps of the agent by themselves, called as methods: what each asks of a model, and with what."""

from agents.star_news.agent import COLUMNIST, StarNewsFinder
from agents.star_news.horoscopes import Almanac
from agents.star_news.news import Horoscope, NewsStories, NewsStory, Writeup
from agents.star_news.people import StarPerson
from goalport import UserInput
from goalport.testing import FakeOperationContext

LYNDA = StarPerson(name="Lynda", sign="Scorpio")
HOROSCOPE = Horoscope(summary="Look up more often than down.")
STORIES = NewsStories(
    items=[NewsStory(url="https://news.example/kites", title="Kites are back", summary="Everybody looks up.")]
)
finder = StarNewsFinder(Almanac(), story_count=2)


async def test_the_person_is_asked_of_the_usual_model_and_may_be_nobody() -> None:
    context = FakeOperationContext()
    context.expect_response(LYNDA)
    context.expect_response(None)
    assert await finder.extract_star_person(UserInput("Lynda, born on 5 November"), context.ai) == LYNDA
    assert await finder.extract_star_person(UserInput("Somebody"), context.ai) is None
    asked, again = context.llm_invocations
    assert "Lynda, born on 5 November" in asked.prompt
    assert "Somebody" in again.prompt
    assert asked.interaction.llm.temperature is None
    assert asked.output is StarPerson


async def test_the_news_are_asked_for_by_sign_and_horoscope() -> None:
    context = FakeOperationContext()
    context.expect_response(STORIES)
    assert await finder.find_news(LYNDA, HOROSCOPE, context.ai) == STORIES
    (asked,) = context.llm_invocations
    for words in ("Lynda", "Scorpio", HOROSCOPE.summary, "find 2 relevant news stories"):
        assert words in asked.prompt


async def test_the_write_up_is_asked_of_a_columnist_with_a_temperature_of_0_9() -> None:
    context = FakeOperationContext()
    context.expect_response(Writeup(content="Look up, Lynda!"))
    writeup = await finder.write_up(LYNDA, STORIES, HOROSCOPE, context.ai)
    assert writeup.content == "Look up, Lynda!"
    (asked,) = context.llm_invocations
    assert "[Kites are back](https://news.example/kites): Everybody looks up." in asked.prompt
    assert (asked.interaction.llm.temperature, asked.interaction.llm.auto) == (0.9, True)
    assert asked.interaction.contributors == (COLUMNIST,)
    assert asked.interaction.tool_groups == ()


async def test_the_horoscope_is_asked_of_the_service_and_of_no_model() -> None:
    class Oracle:
        async def daily(self, sign: str, /) -> str:
            return f"Rain for every {sign}."

    assert (await StarNewsFinder(Oracle()).retrieve_horoscope(LYNDA)).summary == "Rain for every Scorpio."
