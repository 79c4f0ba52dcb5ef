"""Choosing an agent or a goal by what somebody said: one request to a model, and nothing runs before that."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from goalport.agents.domain import Export, UserInput, achieves_goal, action, agent, component
from goalport.base.errors import BadInput, GoalNotApproved, InvalidModelOutput, NoAgentFound, NoGoalFound
from goalport.models.llm import AssistantMessage, ModelCall, ModelCard, UserMessage
from goalport.runtime.autonomy import Autonomy, Choice
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import Completed
from goalport.testing import ScriptedModel
from goalport.testing.scripted import Script

pytestmark = pytest.mark.anyio

STARS = UserInput("Lynda is a Scorpio, find news for her")


@dataclass(frozen=True)
class Person:
    name: str


@dataclass(frozen=True)
class News:
    text: str


@dataclass(frozen=True)
class Facts:
    text: str


@agent(description="Finds news by star sign")
class StarNews:
    @action
    def read_person(self, user_input: UserInput) -> Person:
        return Person(user_input.content.split()[0])

    @achieves_goal(description="Find star news", examples=["Bo is a Leo"], export=Export(name="find_star_news"))
    @action
    def find(self, person: Person) -> News:
        return News(f"News for {person.name}")


@agent(description="Checks facts")
class FactChecker:
    @achieves_goal(description="Check facts", export=Export(name="check_facts"))
    @action
    def check(self, user_input: UserInput) -> Facts:
        return Facts(user_input.content)


def rates(**confidence: float) -> dict[str, object]:
    return {"ratings": [{"name": name, "confidence": each} for name, each in confidence.items()]}


def platform(replies: Sequence[Script] = (), *agents: object) -> tuple[AgentPlatform, ScriptedModel]:
    model = ScriptedModel(list(replies))
    return AgentPlatform(agents or [StarNews(), FactChecker()], models=model), model


def prompt(call: ModelCall) -> str:
    return "\n".join(each.content for each in call.messages if isinstance(each, UserMessage))


async def test_the_agent_that_fits_best_runs_alone() -> None:
    open_, model = platform([rates(StarNews=0.93, FactChecker=0.2)])
    async with open_:
        process = await open_.autonomy.choose_and_run_agent(STARS)
    assert process.outcome == Completed(News("News for Lynda"))
    assert process.agent.name == "StarNews"
    assert len(model.calls) == 1
    assert "Bo is a Leo" in prompt(model.calls[0])


async def test_a_choice_says_why() -> None:
    open_, _ = platform([rates(StarNews=0.93, FactChecker=0.2)])
    async with open_:
        choice = await open_.autonomy.choose_agent(STARS)
    assert choice.why == ("StarNews was chosen with a confidence of 0.93, before FactChecker (0.20): Checks facts.")
    assert choice.ranking.pairs == (("StarNews", 0.93), ("FactChecker", 0.2))


async def test_in_open_mode_a_goal_is_reached_with_the_actions_of_all() -> None:
    @agent(description="Greets")
    class Greeter:
        @achieves_goal(description="Greet a person")
        @action
        def greet(self, person: Person) -> Facts:
            return Facts(f"Hello {person.name}")

    open_, _ = platform([rates(greet=0.9, find_star_news=0.1)], StarNews(), Greeter())
    async with open_:
        process = await open_.autonomy.choose_and_accomplish_goal(STARS)
    assert process.outcome == Completed(Facts("Hello Lynda"))
    assert [each.action for each in process.history] == ["StarNews.read_person", "Greeter.greet"]
    assert {each.name for each in process.agent.actions} == {"StarNews.read_person", "Greeter.greet"}, "it is pruned"


async def test_a_goal_that_one_action_reaches_is_left_with_that_action() -> None:
    open_, _ = platform([rates(check_facts=0.9)])
    async with open_:
        choice = await open_.autonomy.choose_goal(STARS)
    assert [each.name for each in choice.agent.actions] == ["FactChecker.check"]


async def test_the_model_that_a_caller_has_chosen_ranks() -> None:
    first, second = ScriptedModel([]), ScriptedModel([rates(StarNews=0.9)], ModelCard(name="second", provider="test"))
    async with AgentPlatform([StarNews(), FactChecker()], models=[first, second]) as open_:
        assert (await open_.autonomy.choose_agent(STARS, ai=open_.ai.with_llm("second"))).name == "StarNews"


async def test_an_opaque_agent_lends_nothing() -> None:
    @agent(description="Reads people", opaque=True)
    class Reader:
        @achieves_goal(description="Read a person")
        @action
        def read(self, user_input: UserInput) -> Person:
            return Person("secret")

    @agent(description="Greets")
    class Greeter:
        @achieves_goal(description="Greet a person")
        @action
        def greet(self, person: Person) -> Facts:
            return Facts(f"Hello {person.name}")

    open_, _ = platform([rates(greet=0.9)], Reader(), Greeter())
    async with open_:
        process = await open_.autonomy.choose_and_accomplish_goal(STARS)
    assert "it needs a Person" in str(process.outcome)


async def test_below_the_cut_off_nothing_runs_and_the_nearest_are_named() -> None:
    open_, _ = platform([rates(StarNews=0.6, FactChecker=0.2)])
    async with open_:
        with pytest.raises(NoAgentFound, match=r"nearest are StarNews \(0.60\): Finds news by star sign") as raised:
            await open_.autonomy.choose_agent(STARS)
    assert raised.value.ranking == (("StarNews", 0.6), ("FactChecker", 0.2))


async def test_the_cut_off_can_be_set() -> None:
    open_, _ = platform([rates(find_star_news=0.5)])
    async with open_:
        autonomy = Autonomy(platform=open_, goal_confidence_cut_off=0.4)
        assert (await autonomy.choose_goal(STARS)).name == "find_star_news"
    with pytest.raises(ValueError, match="from 0 to 1"):
        Autonomy(platform=open_, goal_confidence_cut_off=1.5)


async def test_one_candidate_or_none_costs_no_model() -> None:
    open_, model = platform([], FactChecker())
    async with open_:
        choice = await open_.autonomy.choose_agent(STARS)
        assert choice.why == "FactChecker was chosen: there is nothing else."
    empty = AgentPlatform(models=model)
    async with empty:
        with pytest.raises(NoAgentFound, match="There is no agent to choose from"):
            await empty.autonomy.choose_agent(STARS)
        with pytest.raises(NoGoalFound, match="There is no goal to choose from"):
            await empty.autonomy.choose_goal(STARS)
    assert not model.calls


async def test_a_name_that_is_no_candidate_is_asked_about_again() -> None:
    open_, model = platform([rates(Astrologer=0.9), rates(StarNews=0.9)])
    async with open_:
        assert (await open_.autonomy.choose_agent(STARS)).name == "StarNews"
    assert "There is no Astrologer" in prompt(model.calls[1])


async def test_a_model_that_only_invents_names_is_asked_so_often_as_set() -> None:
    open_, model = platform([rates(Astrologer=0.9)] * 2)
    async with open_:
        with pytest.raises(InvalidModelOutput, match="Astrologer"):
            await Autonomy(platform=open_, max_attempts=2).choose_agent(STARS)
    assert len(model.calls) == 2


@pytest.mark.parametrize("said", [[UserInput("  ")], [""], []])
async def test_nothing_said_is_the_callers_mistake(said: list[object]) -> None:
    open_, model = platform()
    async with open_:
        with pytest.raises(BadInput, match="the text is empty"):
            await open_.autonomy.choose_agent(*said)
    assert not model.calls


async def test_any_object_can_be_what_is_wanted() -> None:
    open_, model = platform([rates(StarNews=0.9)])
    async with open_:
        process = await open_.autonomy.choose_and_run_agent(Person("Bo"))
    assert process.outcome == Completed(News("News for Bo"))
    assert '"name":"Bo"' in prompt(model.calls[0])


async def test_what_was_said_before_is_part_of_the_request() -> None:
    open_, model = platform([rates(StarNews=0.9)])
    before = [UserMessage("Lynda is a Scorpio"), AssistantMessage("Nice to know.")]
    async with open_:
        await open_.autonomy.choose_agent(UserInput("Find news for her"), conversation=before)
    assert "Lynda is a Scorpio" in prompt(model.calls[0])


async def test_a_goal_that_is_not_approved_is_not_pursued() -> None:
    asked: list[Choice] = []

    async def refuse(choice: Choice) -> bool:
        asked.append(choice)
        return False

    open_, _ = platform([rates(find_star_news=0.9)])
    async with open_:
        with pytest.raises(GoalNotApproved, match="find_star_news"):
            await Autonomy(platform=open_, approver=refuse).choose_and_accomplish_goal(STARS)
    assert [each.intent for each in asked] == [STARS.content]


async def test_the_plans_that_can_be_made_at_once_are_listed() -> None:
    @component
    class Guesser:
        @action
        def guess(self, facts: Facts) -> Person:
            return Person(facts.text)

    open_, _ = platform([], StarNews(), FactChecker(), Guesser())
    async with open_:
        plans = open_.autonomy.plans_for(Person("Bo"))
        assert [(each.agent.name, [step.action for step in each.plan.steps]) for each in plans] == [
            ("StarNews", ["StarNews.find"])
        ]
        assert {each.goal.short_name for each in open_.autonomy.plans_for("words")} == {"find", "check"}
        assert open_.autonomy.plans_for(bindings={"someone": Facts("Bo")})[0].goal.short_name == "find"
