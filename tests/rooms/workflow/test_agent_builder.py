"""Agents made of functions and prompts: what they take, what becomes of them, and how mistakes are told."""

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_overloads

import anyio
import pytest

from goalport import ActionContext, AgentPlatform, Ai, Export, Provided, achieves_goal, action, agent, component
from goalport.agents.domain import Agent, State, WaitFor, When, condition, decorators, read_agent
from goalport.base.errors import DeclarationError
from goalport.models.llm import ModelCard
from goalport.models.prompts import Templates
from goalport.runtime.process import AgentProcess, Completed, Stuck
from goalport.runtime.workflow import AgentBuilder
from goalport.testing import ScriptedModel, ScriptedModels, client_of, contains
from tests.rooms.toy_domain import Draft, Order, Parcel, Receipt, Story


async def run(declared: object, *inputs: object, **how: Any) -> AgentProcess:
    with anyio.fail_after(60):
        async with AgentPlatform([declared], **how) as platform:
            return await platform.run(next(iter(platform.agents)).name, *inputs)


def test_an_action_of_a_builder_takes_every_setting_of_the_decorator() -> None:
    of_class, of_builder = (
        list(inspect.signature(get_overloads(each)[1]).parameters.values())
        for each in (decorators.action, AgentBuilder.action)
    )
    assert [each for each in of_builder if each.name not in {"self", "name"}] == of_class


def shop() -> AgentBuilder:
    builder = AgentBuilder("Shop", "Sells things")

    @builder.action(cost=0.3)
    def pack(order: Order, context: ActionContext) -> Parcel:
        return Parcel(f"{order.item} of {context.process.agent.name}")

    @builder.achieves_goal(description="Send it", export=Export(remote=True, name="send"))
    def send(parcel: Parcel) -> Receipt:
        return Receipt(parcel.text)

    assert pack.__name__ == "pack", "a decorator returns the function"
    return builder


async def test_functions_are_planned_as_methods_are() -> None:
    process = await run(shop().build(), Order("tea"))
    assert process.outcome == Completed(Receipt("tea of Shop"))
    assert [each.action for each in process.history] == ["Shop.pack", "Shop.send"]


def test_it_is_read_as_the_same_class_would_be() -> None:
    @agent(description="Sells things", name="Shop")
    class Shop:
        @action(cost=0.3)
        def pack(self, order: Order, context: ActionContext) -> Parcel:
            return Parcel(order.item)

        @achieves_goal(description="Send it", export=Export(remote=True, name="send"))
        def send(self, parcel: Parcel) -> Receipt:
            return Receipt(parcel.text)

    built, read = shop().build(), read_agent(Shop(), frozenset({ActionContext}))
    assert built.goals == read.goals
    parts = [(each.name, each.parameters, each.outputs, each.settings) for each in built.actions]
    assert parts == [(each.name, each.parameters, each.outputs, each.settings) for each in read.actions]


async def test_its_goal_is_published() -> None:
    async with AgentPlatform([shop().build()]) as platform, client_of(platform) as client:
        result = await client.call_tool("send", {"item": "tea"})
    assert result.structured_content == {"text": "tea of Shop"}


def half() -> float:
    return 0.5


def give(kind: Callable[[str], Any], text: str) -> Any:
    return kind(text)


async def test_functions_are_added_by_calls_too_and_one_serves_several_agents() -> None:
    async def tell(draft: Draft, ai: Ai) -> Story:
        return Story(await ai.generate_text(f"Tell {draft.text}"))

    one, other = AgentBuilder("One", "Tells"), AgentBuilder("Other", "Tells")
    for each in (one, other):
        each.achieves_goal(description="Told")(each.action(tell))
    other.cost(name="dear")(half)
    model = ScriptedModel(["Once …"])
    assert (await run(one.build(), Draft("it"), models=model)).outcome == Completed(Story("Once …"))
    assert [each.settings.cost for each in other.build().actions] == [0.0]


async def test_classes_and_components_are_mixed_with_built_agents() -> None:
    @component
    class Packs:
        @action
        def pack(self, order: Order) -> Parcel:
            return Parcel(order.item)

    seller = AgentBuilder("Seller", "Sells")
    seller.achieves_goal(description="Send it")(send_parcel)
    lender = AgentBuilder("Lender", component=True)

    @lender.action
    def write(parcel: Parcel) -> Draft:
        return Draft(parcel.text)

    @agent(description="Writes")
    class Writer:
        @achieves_goal(description="Write")
        def tell(self, draft: Draft) -> Story:
            return Story(draft.text)

    async with AgentPlatform([Packs, seller.build(), lender.build(), Writer]) as platform:
        assert (await platform.run("Seller", Order("tea"))).outcome == Completed(Receipt("tea"))
        assert (await platform.run("Writer", Order("ink"))).outcome == Completed(Story("ink"))


def send_parcel(parcel: Parcel) -> Receipt:
    return Receipt(parcel.text)


class Stage(State):
    pass


class Packing(Stage):
    item: str

    @action
    def pack(self) -> Parcel:
        return Parcel(self.item)


async def test_states_questions_services_and_computed_costs_work_in_functions() -> None:
    builder = AgentBuilder("Shop", "Sells things")

    @builder.cost
    def effort(order: Order | None) -> float:
        return 0.1

    @builder.action(cost_method="effort")
    def begin(order: Order, there: Annotated[Path, Provided]) -> Stage:
        return Packing(f"{order.item} in {there}")

    @builder.achieves_goal(description="Sold")
    def ask(parcel: Parcel) -> WaitFor[Receipt]:
        return WaitFor.confirmation(Receipt(parcel.text), "Really?")

    async with AgentPlatform([builder.build()], services=[Path("box")]) as platform:
        process = platform.start("Shop", Order("tea"))
        with anyio.fail_after(60):
            await process.wait()
            await platform.answer(process.id, response=True)
            assert await process.wait() == Completed(Receipt("tea in box"))


async def test_a_prompt_is_an_action() -> None:
    builder = AgentBuilder("Teller", "Tells")
    builder.prompted("Draft {input.item}", takes=Order, gives=Draft, llm="small")
    tell = builder.prompted("Tell {draft.text} of {order.item} {{so}}", takes=(Draft, Order), gives=Story, name="tell")
    builder.achieves_goal(description="Told")(tell)
    models = ScriptedModels()
    models.when_create_object(contains("Draft tea"), Draft).then_return(Draft("leaves"))
    models.when_create_object(contains("Tell leaves of tea {so}"), Story).then_return(Story("Once …"))
    process = await run(builder.build(), Order("tea"), models=models)
    assert process.outcome == Completed(Story("Once …"))
    assert [each.action for each in process.history] == ["Teller.to_draft", "Teller.tell"]


async def test_a_template_is_an_action(tmp_path: Path) -> None:
    (tmp_path / "draft.jinja").write_text("Draft {{ order.item }} and {{ input.item }}")
    builder = AgentBuilder("Teller", "Tells")
    builder.achieves_goal(description="d")(builder.prompted("draft", takes=Order, gives=Draft, template=True))
    model = ScriptedModel([Draft("leaves")], card=ModelCard(name="m", provider="test"))
    process = await run(builder.build(), Order("tea"), models=model, templates=Templates(tmp_path))
    assert process.outcome == Completed(Draft("leaves"))
    assert "Draft tea and tea" in str(model.calls[0].messages[-1])


ANSWERS: dict[str, bool | None] = {"yes": True, "no": False, "unknown": None}
yes, no, unknown = When("yes"), When("no"), When("unknown")


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        (yes & yes, True),
        (yes & no, False),
        (yes & unknown, False),
        (no | yes, True),
        (no | unknown, False),
        (unknown | yes, True),
        (~no, True),
        (~unknown, False),
        (~~unknown, False),
        (unknown | ~unknown, False),
        (~(no & unknown), True),
        (~(no | unknown), False),
        (~(no | ~yes) & (unknown | yes), True),
        ("yes" & ~no, True),
        ("no" | unknown, False),
        (yes & "expr: order.item == 'tea'", True),
        (~When("expr: order.item == 'tea'") | no, False),
        (~When("expr: order.price > 3"), False),
    ],
    ids=str,
)
async def test_conditions_are_combined_in_three_valued_logic(when: When, *, holds: bool) -> None:
    builder = AgentBuilder("Shop", "Sells")
    for name in ANSWERS:
        builder.condition(name=name)(named_condition(name))

    @builder.achieves_goal(description="Sold")
    @builder.action(pre=[when])
    def sell(order: Order) -> Receipt:
        return Receipt(order.item)

    process = await run(builder.build(), Order("tea"))
    assert process.outcome == Completed(Receipt("tea")) if holds else isinstance(process.outcome, Stuck)


def named_condition(name: str) -> Callable[[], bool | None]:
    def answer() -> bool | None:
        return ANSWERS[name]

    return answer


def test_the_function_of_a_condition_stands_for_its_name() -> None:
    @condition(name="paid")
    def is_paid() -> bool:
        return True

    def known() -> bool:
        return True

    assert When(is_paid) & ~When(known) == "paid and (not known)"


def built(*added: Callable[[AgentBuilder], object]) -> Agent:
    builder = AgentBuilder("Shop", "Sells")
    for add in added:
        add(builder)
    return builder.build()


def goal(function: Callable[..., object]) -> Callable[[AgentBuilder], object]:
    return lambda builder: builder.achieves_goal(description="Sold")(function)


def untyped(order):  # pyright: ignore  # noqa: ANN001, ANN201, PGH003
    return Receipt("x")


MISTAKES: dict[str, Callable[[], object]] = {
    "at least one goal": built,
    "a description of the agent": lambda: AgentBuilder("Shop").build(),
    "a return annotation|a type for the parameter": lambda: built(goal(untyped)),  # pyright: ignore[reportUnknownArgumentType]
    "a function with a name": lambda: built(goal(lambda: Receipt("x"))),
    "two are called 'give'": lambda: built(
        lambda each: each.action(give), lambda each: each.action(name="give")(partial(give))
    ),
    "placeholders of what it takes: input, order": lambda: built(
        lambda each: each.prompted("{parcel.text}", takes=Order, gives=Draft)
    ),
    "a prompt that can be filled": lambda: built(lambda each: each.prompted("{order", takes=Order, gives=Draft)),
    "a method marked with @cost": lambda: built(lambda each: each.action(cost_method="no")(send_parcel)),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_names_what_to_write(mistake: str) -> None:
    with pytest.raises(DeclarationError, match=mistake):
        MISTAKES[mistake]()


async def test_a_prompt_may_take_nothing() -> None:
    jokes = AgentBuilder("Jokes", "Tells jokes")
    jokes.achieves_goal(description="A joke")(jokes.prompted("Tell a joke", takes=(), gives=Draft))
    async with AgentPlatform([jokes.build()], models=ScriptedModel([Draft("Moo")])) as platform:
        assert (await platform.run("Jokes")).outcome == Completed(Draft("Moo"))


def test_types_of_one_name_are_not_taken_for_each_other_in_a_prompt() -> None:
    with pytest.raises(DeclarationError, match="types of different names to take, but they are Draft, Draft"):
        AgentBuilder("Jokes").prompted("Tell a joke about {draft}", takes=(Draft, Draft), gives=Parcel)
