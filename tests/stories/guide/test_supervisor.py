"""The user guide, section 3.18.2: actions of a component, orchestrated by a model towards a typed result."""

import pytest
from pydantic import BaseModel

from goalport import Ai, UserInput, achieves_goal, action, component
from goalport.errors import GoalportError
from goalport.runtime import AgentPlatform, SupervisorInvocation, UtilityInvocation
from goalport.testing import ScriptedModel, calls_tool

pytestmark = pytest.mark.anyio

ORDER = UserInput("Nina wants two pizzas")


class Cook(BaseModel):
    name: str
    age: int


class Order(BaseModel):
    dish: str
    quantity: int


class Meal(BaseModel):
    dish: str
    quantity: int
    ordered_by: str
    cooked_by: str


@component
class Stages:
    @action
    async def choose_cook(self, user_input: UserInput, ai: Ai) -> Cook:
        return await ai.create_object(f"From the following user input, choose a cook: {user_input.content}", Cook)

    @action
    async def take_order(self, user_input: UserInput, ai: Ai) -> Order:
        return await ai.create_object(f"From the following user input, take an order: {user_input.content}", Order)

    @achieves_goal(description="Cook the meal according to the order")
    @action
    async def prepare_meal(self, cook: Cook, order: Order, user_input: UserInput, ai: Ai) -> Meal:
        prompt = f"Cook: {cook.name}, age {cook.age}. Order: {order.quantity} x {order.dish}. {user_input.content}"
        return await ai.create_object(prompt, Meal)


MEAL = Meal(dish="pizza", quantity=2, ordered_by="Nina", cooked_by="Antonio")
STEPS = [
    calls_tool("choose_cook"),
    Cook(name="Antonio", age=44),
    calls_tool("take_order"),
    Order(dish="pizza", quantity=2),
    MEAL,
]


async def test_the_meal_is_prepared_from_the_actions_of_an_instance() -> None:
    model = ScriptedModel(STEPS)
    async with AgentPlatform(models=model) as platform:
        meal = await SupervisorInvocation.on(platform).returning(Meal).with_scope(Stages()).invoke(ORDER)
    assert meal == MEAL
    assert "Antonio" in str(model.calls[2].messages[-1]), "the supervisor sees who was chosen"


async def test_without_a_scope_it_has_the_whole_platform() -> None:
    async with AgentPlatform([Stages()], models=ScriptedModel(STEPS)) as platform:
        assert await SupervisorInvocation.on(platform).returning(Meal).invoke(ORDER) == MEAL


async def test_utility_runs_the_same_actions_without_a_supervisor() -> None:
    replies = [each for each in STEPS if isinstance(each, BaseModel)]
    async with AgentPlatform(models=ScriptedModel(replies)) as platform:
        assert await UtilityInvocation.on(platform).returning(Meal).with_scope(Stages()).invoke(ORDER) == MEAL


async def test_a_result_that_nothing_gives_is_an_error_that_says_what_there_is() -> None:
    async with AgentPlatform(models=ScriptedModel()) as platform:
        with pytest.raises(GoalportError, match=r"gives str. They give: Cook, Order, Meal"):
            await SupervisorInvocation.on(platform).returning(str).with_scope(Stages()).invoke(ORDER)


async def test_an_action_that_no_goal_names_is_a_goal_when_its_result_is_wanted() -> None:
    replies = [calls_tool("choose_cook"), Cook(name="Antonio", age=44)]
    async with AgentPlatform(models=ScriptedModel(replies)) as platform:
        cook = await SupervisorInvocation.on(platform).returning(Cook).with_scope(Stages()).invoke(ORDER)
    assert cook.name == "Antonio"
