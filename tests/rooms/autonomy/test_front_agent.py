"""The front agent in process: what it says of results and failures, and that it is no candidate itself."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from goalport.agents.domain import Export, PlannerType, UserInput, WaitFor, achieves_goal, action, agent
from goalport.base.caller import Caller
from goalport.base.errors import NoAgentFound, NoGoalFound, ProcessStuck
from goalport.runtime.autonomy import Achieved, FrontAgent
from goalport.runtime.platform import AgentPlatform, SupervisorInvocation
from goalport.runtime.process import AgentProcess, Completed, Failed
from goalport.store.sqlite import SqliteProcessStore
from goalport.testing import ScriptedModel
from tests.rooms.toy_domain import Draft, Parcel, Person

pytestmark = pytest.mark.anyio

SAID = UserInput("Something, please")


def named(name: str) -> Export:
    return Export(remote=True, name=name)


@dataclass(frozen=True)
class Story:
    content: str


@agent(description="Gives all kinds of results")
class Shop:
    @achieves_goal(description="Tell a story", export=named("tell"))
    def tell(self, user_input: UserInput) -> Story:
        return Story("Once …")

    @achieves_goal(description="Say hello", export=named("greet"))
    def greet(self, user_input: UserInput) -> str:
        return "Hello"

    @achieves_goal(description="List drafts", export=named("drafts"))
    def drafts(self, user_input: UserInput) -> list[Draft]:
        return [Draft("one")]

    @achieves_goal(description="Find somebody or something", export=named("find"))
    def find(self, user_input: UserInput) -> Person | Parcel:
        return Parcel("a book")

    @achieves_goal(description="Ring the bell", export=named("ring"))
    def ring(self, user_input: UserInput) -> None: ...

    @achieves_goal(description="Break something", export=named("fall"))
    def fall(self, user_input: UserInput) -> float:
        raise ValueError("it fell down")


def rates(**confidence: float) -> dict[str, object]:
    return {"ratings": [{"name": name, "confidence": each} for name, each in confidence.items()]}


def platform(*replies: object) -> AgentPlatform:
    open_ = AgentPlatform([Shop()], models=ScriptedModel(replies))
    open_.deploy(FrontAgent(open_.autonomy))
    return open_


@pytest.mark.parametrize(
    ("goal", "content", "result"),
    [
        ("tell", "Once …", {"content": "Once …"}),
        ("greet", "Hello", "Hello"),
        ("drafts", '[\n  {\n    "text": "one"\n  }\n]', [{"text": "one"}]),
        ("find", '{\n  "text": "a book"\n}', {"text": "a book"}),
        ("ring", "Done.", None),
    ],
)
async def test_every_kind_of_result_is_told(goal: str, content: str, result: object) -> None:
    async with platform(rates(**{goal: 0.9})) as open_:
        process = await open_.run("FrontAgent", SAID)
    why = f"{goal} was chosen with a confidence of 0.90, and nothing else fits."
    assert process.outcome == Completed(Achieved(content=content, goal=goal, why=why, result=result))
    assert process.ledger.requests == 1


async def test_a_goal_that_is_not_reached_is_named_with_the_reason() -> None:
    async with platform(rates(fall=0.9, ring=0.3)) as open_:
        process = await open_.run("FrontAgent", SAID)
    assert isinstance(process.outcome, Failed)
    assert process.outcome.reason == (
        "FrontAgent.achieve failed: fall was chosen with a confidence of 0.90, before ring (0.30): Ring the bell. It"
        " was not reached. Shop.fall failed: ValueError: it fell down"
    )


async def test_the_front_agent_never_chooses_itself() -> None:
    async with AgentPlatform(models=ScriptedModel()) as empty:
        empty.deploy(FrontAgent(empty.autonomy))
        with pytest.raises(NoAgentFound, match="There is no agent"):
            await empty.autonomy.choose_agent(SAID)
        with pytest.raises(NoGoalFound, match="There is no goal"):
            await empty.autonomy.choose_goal(SAID)
        assert empty.autonomy.plans_for(SAID) == []
    async with platform(rates(achieve=0.9), rates(ring=0.9)) as open_:
        assert (await open_.autonomy.choose_goal(SAID)).name == "ring"


async def test_it_lends_its_action_to_nobody() -> None:
    @agent(description="Sends", planner=PlannerType.SUPERVISOR)
    class Sender:
        @action
        def pack(self, user_input: UserInput) -> Draft:
            return Draft("")

        @achieves_goal(description="Send")
        def send(self, draft: Draft) -> Parcel:
            return Parcel("")

    model = ScriptedModel(["No.", "No."])
    async with AgentPlatform([Sender()], models=model) as open_:
        open_.deploy(FrontAgent(open_.autonomy))
        with pytest.raises(ProcessStuck):
            await SupervisorInvocation.on(open_).returning(Parcel).invoke(SAID)
    assert [each.name for each in model.calls[0].tools] == ["pack"]


@agent(description="Sends things to people")
class Clerk:
    @action
    def ask(self, user_input: UserInput) -> WaitFor[Person]:
        return WaitFor.form_submission("For whom?", Person)

    @achieves_goal(description="Send a parcel", export=named("send"))
    def send(self, person: Person) -> Parcel:
        return Parcel(person.name)

    @achieves_goal(description="Write a draft", export=named("write"))
    def write(self, person: Person) -> Draft:
        return Draft(person.name)


@asynccontextmanager
async def program(file: Path, *replies: object, open_mode: bool) -> AsyncGenerator[AgentPlatform]:
    async with SqliteProcessStore(file) as store:
        open_ = AgentPlatform([Clerk()], models=ScriptedModel(replies), store=store, lease_seconds=1)
        open_.deploy(FrontAgent(open_.autonomy, open_mode=open_mode))
        async with open_:
            yield open_


async def asked(process: AgentProcess) -> AgentProcess:
    with anyio.fail_after(60):
        while not process.open_questions:
            await process.changed()
    return process


@pytest.mark.parametrize("open_mode", [False, True])
async def test_a_choice_that_waits_goes_on_in_another_program(tmp_path: Path, *, open_mode: bool) -> None:
    """An agent that was assembled cannot be stored: its question is asked anew, and nobody is asked to choose again."""
    file, ranking = tmp_path / "processes.db", rates(send=0.9)
    async with program(file, ranking, open_mode=open_mode) as one:
        process = await asked(one.start("FrontAgent", SAID))
    async with program(file, open_mode=open_mode) as other:
        again = await asked(await other.process(process.id))
        await other.answer(process.id, response={"name": "Nina"})
        with anyio.fail_after(60):
            outcome = await again.wait()
    assert isinstance(outcome, Completed)
    assert isinstance(outcome.value, Achieved)
    assert outcome.value.result == {"text": "Nina"}
    assert again.ledger.requests == 1


async def test_it_chooses_only_among_the_goals_that_its_caller_may_start() -> None:
    async with platform() as open_:
        open_.may_start = lambda caller, goal: caller.id == "ann" and goal.short_name == "greet"
        # The only candidate is chosen without asking a model, and this one would have no reply.
        process = await open_.run("FrontAgent", SAID, caller=Caller("ann"))
        assert process.result_of_type(Achieved).content == "Hello"
        nothing = await open_.run("FrontAgent", SAID, caller=Caller("bob"))
    assert isinstance(nothing.outcome, Failed)
    assert nothing.outcome.caller_mistake
