"""A choice asks a model before there is a process: its prompt, its span and its cost are seen nevertheless."""

from collections.abc import Generator
from dataclasses import dataclass, field

import pytest

from goalport.agents.domain import UserInput, achieves_goal, agent
from goalport.base.errors import NoAgentFound
from goalport.base.events import Event, ModelCalled, ModelReplied
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import Budget, Completed, ProcessOptions, Terminated, spending_outside
from goalport.testing import ScriptedModel
from tests.rooms.toy_domain import Draft, Receipt
from tests.spans import Spans, recorded_spans

pytestmark = pytest.mark.anyio

SAID = UserInput("Write a draft")
RANKING = {"ratings": [{"name": "Writer", "confidence": 0.9}, {"name": "Cashier", "confidence": 0.1}]}


@agent(description="Writes drafts")
class Writer:
    @achieves_goal(description="Write a draft")
    def write(self, user_input: UserInput) -> Draft:
        return Draft(user_input.content)


@agent(description="Writes receipts")
class Cashier:
    @achieves_goal(description="Write a receipt")
    def receipt(self, user_input: UserInput) -> Receipt:
        return Receipt(user_input.content)


@dataclass
class Heard:
    events: list[Event] = field(default_factory=list[Event])

    def on_event(self, event: Event) -> None:
        self.events.append(event)


@pytest.fixture
def spans() -> Generator[Spans]:
    with recorded_spans() as recorded:
        yield recorded


async def test_the_prompt_and_the_reply_are_events_of_the_platform() -> None:
    heard = Heard()
    async with AgentPlatform([Writer(), Cashier()], models=ScriptedModel([RANKING])) as platform:
        leave = platform.subscribe(heard)
        await platform.autonomy.choose_agent(SAID)
        leave()
    called, replied = heard.events
    assert isinstance(called, ModelCalled)
    assert isinstance(replied, ModelReplied)
    assert "Write a draft" in called.prompt
    assert '"Writer"' in replied.reply
    assert {called.interaction, replied.interaction} == {"ranking"}
    assert {called.process_id, replied.process_id} == {""}


async def test_the_request_has_a_span(spans: Spans) -> None:
    async with AgentPlatform([Writer(), Cashier()], models=ScriptedModel([RANKING])) as platform:
        await platform.autonomy.choose_agent(SAID)
    told = spans.attributes("chat scripted")
    assert told["gen_ai.prompt.name"] == "ranking"
    assert (told["gen_ai.operation.name"], told["gen_ai.usage.input_tokens"]) == ("chat", 100)


async def test_its_cost_is_that_of_the_process_that_it_starts() -> None:
    async with AgentPlatform([Writer(), Cashier()], models=ScriptedModel([RANKING] * 2)) as platform:
        process = await platform.autonomy.choose_and_run_agent(SAID)
        assert process.outcome == Completed(Draft("Write a draft"))
        assert (process.ledger.requests, process.usage.cost) == (1, pytest.approx(0.001))
        assert {each.process_id for each in process.ledger.entries} == {process.id}
        poor = ProcessOptions(budget=Budget(cost=0.0005))
        process = await platform.autonomy.choose_and_run_agent(SAID, options=poor)
    assert isinstance(process.outcome, Terminated)
    assert "budget" in process.outcome.reason


async def test_a_choice_says_what_it_cost_to_whoever_runs_it() -> None:
    async with AgentPlatform([Writer(), Cashier()], models=ScriptedModel([RANKING])) as platform:
        choice = await platform.autonomy.choose_agent(SAID)
        (paid,) = choice.spent
        assert (paid.model, paid.usage.input_tokens) == ("scripted", 100)
        process = await platform.run(choice.agent, SAID, goals=choice.goals, spent=choice.spent)
    assert process.usage == paid.usage


async def test_what_is_asked_outside_of_processes_can_be_counted() -> None:
    nothing = {"ratings": [{"name": "Writer", "confidence": 0.1}]}
    async with AgentPlatform([Writer(), Cashier()], models=ScriptedModel([nothing, "Hello"])) as platform:
        with spending_outside() as spent:
            with pytest.raises(NoAgentFound):
                await platform.autonomy.choose_agent(SAID)
            await platform.ai.generate_text("Say hello")
    assert [each.usage.cost for each in spent] == [0.001, 0.001]
