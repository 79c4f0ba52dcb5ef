"""Tools that may have to wait for a person, by what is called and by what the process lacks; nothing is done twice."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from goalport import AgentPlatform, UserInput, WaitFor, achieves_goal, action, agent, tool
from goalport.runtime.ai import Ai
from goalport.runtime.process import ActionContext, AgentProcess, Completed, Waiting, require_type, with_awaiting
from goalport.testing import ScriptedModel, calls_tool
from goalport.tools import Tool, ToolGroup
from tests.rooms.toy_domain import Text


@dataclass(frozen=True)
class Account:
    iban: str


@dataclass
class Bank:
    """Pays, and counts what it did."""

    done: list[str] = field(default_factory=list[str])
    decided: list[float] = field(default_factory=list[float])

    @tool
    async def pay(self, euros: float, process: AgentProcess) -> str:
        """Pay a bill."""
        account = process.last(Account)
        self.done.append(f"{euros:g} from {account.iban if account else 'cash'}")
        return self.done[-1]

    def large_ones(self, given: Mapping[str, Any], context: ActionContext) -> WaitFor[Account] | None:
        self.decided.append(given["euros"])
        assert context.process.agent.name in {"Payer", "Asked"}
        return (
            WaitFor.form_submission(f"From which account, No. {len(self.decided)}?", Account)
            if (given["euros"] > 100)
            else None
        )


@agent(description="Pays by itself")
class Payer:
    @achieves_goal(description="Pay")
    @action(tool_groups=["bank"])
    async def settle(self, user_input: UserInput, context: ActionContext) -> Text:
        sums = map(float, user_input.content.split())
        results = [await context.tool("pay").call({"euros": each}) for each in sums]
        if "!" in str(results[-1].text):
            await context.ask("Sure?", bool)
        return Text("; ".join(each.text for each in results))


@agent(description="Has a model pay")
class Asked:
    @achieves_goal(description="Pay")
    @action(tool_groups=["bank"])
    async def settle(self, user_input: UserInput, ai: Ai) -> Text:
        return Text(await ai.generate_text(user_input.content))


def platform_of(payment: Tool, model: ScriptedModel | None = None) -> AgentPlatform:
    return AgentPlatform([Payer, Asked], models=model, tool_groups=[ToolGroup.of("bank", payment)])


def only(bank: Bank) -> Tool:
    (payment,) = Tool.from_instance(bank)
    return payment


async def answered(platform: AgentPlatform, process: AgentProcess, response: object, **said: str) -> object:
    await platform.answer(process.id, response=response, **said)
    with anyio.fail_after(60):
        return await process.wait()


async def test_a_tool_asks_before_the_calls_that_want_it_and_what_was_answered_is_on_the_blackboard() -> None:
    bank = Bank()
    platform = platform_of(with_awaiting(only(bank), bank.large_ones))
    process = await platform.run("Payer", UserInput("5 500 7 700"))
    assert isinstance(process.outcome, Waiting)
    assert bank.done == ["5 from cash"]
    assert [each.message for each in process.open_questions] == ["From which account, No. 2?"]

    assert isinstance(await answered(platform, process, {"iban": "DE1"}), Waiting)
    assert bank.done == ["5 from cash", "500 from DE1", "7 from DE1"]

    end = await answered(platform, process, {"iban": "DE2"})
    assert end == Completed(Text("5 from cash; 500 from DE1; 7 from DE1; 700 from DE2"))
    assert bank.done == ["5 from cash", "500 from DE1", "7 from DE1", "700 from DE2"]
    assert bank.decided == [5, 500, 7, 700]
    assert process.blackboard.all(Account) == [Account("DE1"), Account("DE2")]


async def test_after_a_no_the_tool_does_not_run_and_the_model_reads_it() -> None:
    bank = Bank()
    model = ScriptedModel([calls_tool("pay", euros=500), "Then not."])
    platform = platform_of(with_awaiting(only(bank), bank.large_ones), model)
    process = await platform.run("Asked", UserInput("Pay"))
    assert isinstance(process.outcome, Waiting)
    assert await answered(platform, process, None, declined="Not today") == Completed(Text("Then not."))
    assert bank.done == []
    assert "Not today" in str(model.calls[1].messages[-1].content)
    assert len(model.calls) == 2


async def test_a_tool_that_requires_a_type_has_a_person_asked_for_it_once() -> None:
    bank = Bank()
    platform = platform_of(require_type(only(bank), Account))
    process = await platform.run("Payer", UserInput("5 500"))
    (question,) = process.open_questions
    assert (question.message, question.response_type) == ("The tool 'pay' needs an Account.", Account)
    assert await answered(platform, process, {"iban": "DE1"}) == Completed(Text("5 from DE1; 500 from DE1"))

    process = await platform.run("Payer", UserInput("9"), Account("DE7"))
    assert process.outcome == Completed(Text("9 from DE7"))


async def test_the_object_is_there_once_when_the_tool_itself_asks_too() -> None:
    @tool
    async def pay(euros: float, board: AgentProcess) -> str:
        """Pay."""
        agreed = await ActionContext.current().ask(f"Pay {euros:g}?", bool)
        return f"{agreed}: {board.last(Account)}"

    platform = platform_of(require_type(Tool.of(pay), Account, "Whose money?"))
    process = await platform.run("Payer", UserInput("5"))
    assert isinstance(await answered(platform, process, {"iban": "DE1"}), Waiting)
    assert await answered(platform, process, True) == Completed(Text("True: Account(iban='DE1')"))
    assert process.blackboard.all(Account) == [Account("DE1")]


async def test_nobody_is_asked_about_a_call_that_cannot_be_made() -> None:
    bank = Bank()
    result = await require_type(only(bank), Account).call({"euros": "many"})
    assert result.is_error
    assert "euros" in result.text


async def test_where_there_is_no_action_such_a_tool_is_refused() -> None:
    result = await require_type(only(Bank()), Account).call({"euros": 3})
    assert result.is_error
    assert result.text == "The tool 'pay' may have to ask a person, and nobody can be asked here."


async def test_an_approval_is_asked_for_besides() -> None:
    bank = Bank()
    platform = platform_of(require_type(only(bank).with_approval("always"), Account))
    process = await platform.run("Payer", UserInput("5"))
    assert isinstance(await answered(platform, process, {"iban": "DE1"}), Waiting)
    assert process.open_questions[0].message.startswith("May the tool 'pay' be called")
    assert await answered(platform, process, True) == Completed(Text("5 from DE1"))


def test_a_type_that_is_no_form_cannot_be_required() -> None:
    with pytest.raises(TypeError, match="Expected the type of the answer"):
        require_type(only(Bank()), None)


async def test_a_decider_that_gives_no_question_is_told_of() -> None:
    def wrong(given: Mapping[str, object], context: ActionContext) -> Any:
        return f"Pay {given} of {context.action}?"

    model = ScriptedModel([calls_tool("pay", euros=500), "Broken."])
    process = await platform_of(with_awaiting(only(Bank()), wrong), model).run("Asked", UserInput("Pay"))
    assert process.outcome == Completed(Text("Broken."))
    assert "Expected the question to be a WaitFor, or None" in str(model.calls[1].messages[-1].content)
