"""The guide's complete example (sections 1.4 and 3.2.2): a plan inferred from types, carried out and made anew."""

from dataclasses import dataclass

from goalport import ActionContext, AgentPlatform, AgentProcess, ToolGroup, UserInput, achieves_goal, action, agent
from goalport.events import Event, PlanFormulated
from goalport.runtime import Completed, ProcessStatus
from goalport.testing import plan_of


@dataclass(frozen=True)
class StarPerson:
    name: str
    sign: str


@dataclass(frozen=True)
class Horoscope:
    summary: str


@dataclass(frozen=True)
class RelevantNewsStories:
    items: tuple[str, ...]


@dataclass(frozen=True)
class Writeup:
    content: str


class HoroscopeService:
    """The ordinary service of the example, with no model in it."""

    def daily(self, sign: str) -> str:
        return {"Leo": "shine", "Virgo": "tidy up"}[sign]


def search(topic: str) -> str:
    """Find a story on the web."""
    return f"https://news.test/{topic.replace(' ', '-')}"


WEB = ToolGroup.of("web", search)
LYNDA = UserInput("Lynda the Leo")


@agent(description="Finds news for a person by their star sign")
class StarNewsFinder:
    def __init__(self, horoscopes: HoroscopeService) -> None:
        self.horoscopes = horoscopes

    @action
    async def extract_star_person(self, user_input: UserInput) -> StarPerson | None:
        name, _, sign = user_input.content.partition(" the ")
        return StarPerson(name, sign) if sign else None

    @action
    def retrieve_horoscope(self, star_person: StarPerson) -> Horoscope:
        return Horoscope(self.horoscopes.daily(star_person.sign))

    @action(tool_groups=["web"])
    async def find_news_stories(
        self, person: StarPerson, horoscope: Horoscope, context: ActionContext
    ) -> RelevantNewsStories:
        found = [(await tool.call({"topic": horoscope.summary})).text for tool in context.tools]
        return RelevantNewsStories(tuple(found))

    @achieves_goal(description="Write something amusing from a horoscope and the news")
    @action
    async def writeup(self, person: StarPerson, stories: RelevantNewsStories, horoscope: Horoscope) -> Writeup:
        return Writeup(f"{person.name}: {horoscope.summary}; {', '.join(stories.items) or 'no news'}")


IN_ORDER = ["extract_star_person", "retrieve_horoscope", "find_news_stories", "writeup"]


def ran(process: AgentProcess) -> list[str]:
    return [each.action.rpartition(".")[2] for each in process.history]


def test_the_whole_plan_is_inferred_from_the_signatures() -> None:
    assert plan_of(StarNewsFinder(HoroscopeService()), given=[UserInput]) == IN_ORDER


def test_each_step_is_there_for_the_types_that_later_steps_take() -> None:
    why = AgentPlatform([StarNewsFinder(HoroscopeService())]).explain("writeup", [UserInput])
    assert [{(supply.what, supply.step) for supply in step.supplies} for step in why.steps[:3]] == [
        {("a StarPerson", 2), ("a StarPerson", 3), ("a StarPerson", 4)},
        {("a Horoscope", 3), ("a Horoscope", 4)},
        {("a RelevantNewsStories", 4)},
    ]


def test_the_input_of_the_user_must_be_provided() -> None:
    why_not = AgentPlatform([StarNewsFinder(HoroscopeService())]).explain("writeup")
    assert why_not.plan is None
    assert "needs a UserInput" in why_not.summary()


async def test_the_steps_run_in_the_order_of_the_data_and_the_last_output_is_the_result() -> None:
    platform = AgentPlatform([StarNewsFinder(HoroscopeService())], tool_groups=[WEB])
    process = await platform.run("StarNewsFinder", LYNDA)
    assert process.outcome == Completed(Writeup("Lynda: shine; https://news.test/shine"))
    assert ran(process) == IN_ORDER
    assert [type(each) for each in process.blackboard.objects] == [
        UserInput,
        StarPerson,
        Horoscope,
        RelevantNewsStories,
        Writeup,
    ]


async def test_the_tools_of_a_named_group_are_there_for_its_action_and_without_them_it_runs_too() -> None:
    process = await AgentPlatform([StarNewsFinder(HoroscopeService())]).run("StarNewsFinder", LYNDA)
    assert process.outcome == Completed(Writeup("Lynda: shine; no news"))


class Plans:
    """Hears each plan."""

    def __init__(self) -> None:
        self.made: list[list[str]] = []

    def on_event(self, event: Event) -> None:
        if isinstance(event, PlanFormulated):
            self.made.append([step.rpartition(".")[2] for step in event.steps])


async def test_a_plan_is_made_anew_after_each_action() -> None:
    heard = Plans()
    platform = AgentPlatform([StarNewsFinder(HoroscopeService())], listeners=[heard])
    await platform.run("StarNewsFinder", LYNDA)
    assert heard.made == [IN_ORDER, IN_ORDER[1:], IN_ORDER[2:], IN_ORDER[3:]]


async def test_with_part_of_the_data_there_only_the_rest_is_planned() -> None:
    platform = AgentPlatform([StarNewsFinder(HoroscopeService())])
    process = await platform.run("StarNewsFinder", StarPerson("Cy", "Virgo"), Horoscope("rest"))
    assert process.outcome == Completed(Writeup("Cy: rest; no news"))
    assert ran(process) == ["find_news_stories", "writeup"]


@agent(description="Knows two sources of horoscopes")
class WithAnAlmanac(StarNewsFinder):
    @action(cost=0.5)
    async def look_up_almanac(self, star_person: StarPerson) -> Horoscope:
        return Horoscope(f"what {star_person.sign} is told every year")


async def test_of_two_producers_of_a_type_the_cheaper_is_chosen() -> None:
    process = await AgentPlatform([WithAnAlmanac(HoroscopeService())]).run("WithAnAlmanac", LYNDA)
    assert ran(process) == IN_ORDER


async def test_when_a_step_goes_wrong_another_way_to_the_goal_is_found() -> None:
    process = await AgentPlatform([WithAnAlmanac(HoroscopeService())]).run("WithAnAlmanac", UserInput("Mo the Crab"))
    assert process.outcome == Completed(Writeup("Mo: what Crab is told every year; no news"))
    assert ran(process) == [*IN_ORDER[:2], "look_up_almanac", *IN_ORDER[2:]]
    assert process.failure
    assert process.failure.action == "WithAnAlmanac.retrieve_horoscope"


async def test_what_is_not_understood_gives_no_person_and_leaves_the_process_stuck() -> None:
    process = await AgentPlatform([StarNewsFinder(HoroscopeService())]).run("StarNewsFinder", UserInput("hello"))
    assert process.status is ProcessStatus.STUCK
    assert ran(process) == ["extract_star_person"]
