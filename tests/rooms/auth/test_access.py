"""Actions ask who their caller is, and who may not run one is refused, whatever way the process goes."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from goalport import (
    ActionContext,
    AgentPlatform,
    Export,
    UserInput,
    WaitFor,
    achieves_goal,
    action,
    agent,
)
from goalport.base.caller import Caller
from goalport.base.errors import DeclarationError
from goalport.runtime.process import Failed
from goalport.server.publish.report import report_of
from goalport.server.publish.resources import agent_view
from goalport.store.sqlite import SqliteProcessStore
from tests.rooms.serve.served import state_of


class Order(BaseModel):
    total: int


class Paid(BaseModel):
    content: str


ANN = Caller("ann", "house", frozenset({"finance:write"}), {"tenant": "acme"})
BOB = Caller("bob", "house", frozenset({"goals:write"}), {"tenant": "other"})


@agent(description="Pays")
@dataclass
class Cashier:
    ran: list[str] = field(default_factory=list[str])

    @action(access="finance:write", cost=0.1)
    def pay(self, order: Order, context: ActionContext) -> Paid:
        self.ran.append("pay")
        return Paid(content=f"{context.caller.id} of {context.caller.claims['tenant']}")

    @action(cost=0.9)
    def owe(self, order: Order) -> Paid:
        self.ran.append("owe")
        return Paid(content="owed")

    @achieves_goal(description="A receipt", export=Export(remote=True))
    def receipt(self, paid: Paid) -> str:
        return paid.content


async def test_who_has_the_scope_runs_the_action_which_knows_its_caller() -> None:
    async with AgentPlatform([Cashier()]) as platform:
        process = await platform.run("Cashier", Order(total=7), caller=ANN)
        assert process.result_of_type(str) == "ann of acme"


async def test_who_lacks_the_scope_is_told_and_nothing_is_run_in_place_of_the_action() -> None:
    cashier = Cashier()
    async with AgentPlatform([cashier]) as platform:
        process = await platform.run("Cashier", Order(total=7), caller=BOB)
    assert process.outcome == Failed(
        "Cashier.pay was not run, because it needs the scope finance:write. Whoever runs this server can grant more.",
        caller_mistake=True,
    )
    assert cashier.ran == []
    assert [each.status for each in process.history] == ["failed"]


@agent(description="Pays what its caller may", access="expr: caller.claims.tenant == 'acme'")
class Teller:
    @action(access="expr: caller.has('finance:write') and order.total < 100")
    def pay(self, order: Order) -> Paid:
        return Paid(content="paid")

    @achieves_goal(description="A receipt", export=Export(remote=True))
    def receipt(self, paid: Paid) -> str:
        return paid.content


@pytest.mark.parametrize(
    ("caller", "total", "missing"),
    [
        (ANN, 99, ""),
        (ANN, 100, "expr: caller.has('finance:write') and order.total < 100"),
        (Caller("ann", "house", ANN.scopes, {"tenant": "x"}), 99, "expr: caller.claims.tenant == 'acme'"),
        (Caller("ann", "house", ANN.scopes), 99, "can be decided"),
        (Caller(claims={"tenant": "acme"}), 99, "expr: caller.has('finance:write') and order.total < 100"),
    ],
    ids=["may", "too much", "another tenant", "no tenant", "no scope"],
)
async def test_an_expression_sees_the_caller_and_the_inputs(caller: Caller, total: int, missing: str) -> None:
    async with AgentPlatform([Teller]) as platform:
        process = await platform.run("Teller", Order(total=total), caller=caller)
    outcome = process.outcome
    if missing:
        assert isinstance(outcome, Failed)
        assert missing in outcome.reason
    else:
        assert process.result_of_type(str) == "paid"


class Answer(BaseModel):
    content: str


@agent(description="Has others pay")
class Boss:
    @action(cost=0.1)
    async def delegate(self, said: UserInput, context: ActionContext) -> Answer:
        return Answer(content=await context.as_sub_process(str, "Cashier", Order(total=7)))

    @action(cost=0.9)
    def shrug(self, said: UserInput) -> Answer:
        return Answer(content="no idea")

    @achieves_goal(description="An answer", export=Export(remote=True))
    def answer(self, answer: Answer) -> str:
        return answer.content


async def test_a_sub_process_has_the_rights_of_the_caller_and_its_refusal_ends_the_whole() -> None:
    async with AgentPlatform([Boss, Cashier()]) as platform:
        process = await platform.run("Boss", UserInput("pay"), caller=ANN)
        assert process.result_of_type(str) == "ann of acme"
        refused = await platform.run("Boss", UserInput("pay"), caller=BOB)
    assert isinstance(refused.outcome, Failed)
    assert refused.outcome.caller_mistake
    assert "it needs the scope finance:write" in refused.outcome.reason


@agent(description="Asks before it pays")
class Careful:
    @action
    def ask(self, order: Order) -> WaitFor[UserInput]:
        return WaitFor.confirmation(UserInput("yes"), "Pay?")

    @action(access="expr: caller.claims.tenant == 'acme' and caller.has('finance:write')")
    def pay(self, agreed: UserInput, context: ActionContext) -> Paid:
        return Paid(content=json.dumps([sorted(context.caller.scopes), context.caller.claims["tenant"]]))

    @achieves_goal(description="A receipt", export=Export(remote=True))
    def receipt(self, paid: Paid) -> str:
        return paid.content


@pytest.mark.parametrize("caller", [ANN, BOB], ids=["may", "may not"])
async def test_a_process_goes_on_after_a_restart_with_the_rights_that_it_began_with(
    tmp_path: Path, caller: Caller
) -> None:
    async with SqliteProcessStore(tmp_path / "store.db") as store:
        async with AgentPlatform([Careful], store=store) as platform:
            process = await platform.run("Careful", Order(total=7), caller=caller)
            (question,) = process.open_questions
        async with AgentPlatform([Careful], store=store) as platform:
            await platform.answer(process.id, question.id, True)
            again = await platform.process(process.id)
            await again.wait()
            if caller is ANN:
                assert json.loads(again.result_of_type(str)) == [["finance:write"], "acme"]
            else:
                assert isinstance(again.outcome, Failed)


@pytest.mark.parametrize(
    ("access", "problem"),
    [
        ("expr: caller.has(", "cannot be compiled|expression that can be compiled"),
        ("expr: platform.secret", "names platform"),
        ("expr: caller._x", "private"),
        ('finance "write"', "list of scopes"),
    ],
)
def test_a_rule_that_cannot_be_read_is_refused_when_its_class_is_read(access: str, problem: str) -> None:
    class Wrong:
        @achieves_goal(description="x")
        @action(access=access)
        def pay(self, order: Order) -> Paid:
            return Paid(content="")

    with pytest.raises(DeclarationError, match=problem):
        AgentPlatform([agent(description="Is wrong")(Wrong)])


def test_the_rules_of_an_action_are_shown() -> None:
    shown: dict[str, Any] = agent_view(AgentPlatform([Teller]).deploy(Cashier()), lambda _: True)
    assert [each.get("access") for each in shown["actions"]] == [["finance:write"], None, None]


def test_the_report_says_who_may_call_a_goal_and_run_an_action(tmp_path: Path) -> None:
    @agent(description="Pays", access="finance:read")
    class Payer:
        @achieves_goal(description="Pay", export=Export(remote=True, name="pay", scopes=["finance:write", "audit"]))
        def pay(self, said: UserInput) -> str:
            return "paid"

    state = state_of(tmp_path, Payer())
    report = list(report_of(state.publication, state.platform))
    assert "  pay: goal Payer.pay of Payer, from content; needs the scopes audit finance:write" in report
    assert "  Payer.pay: runs only for callers with finance:read" in report
