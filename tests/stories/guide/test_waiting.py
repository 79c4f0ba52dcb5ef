"""The page on asking people from within an agent: pausing, answering, going on (what of it concerns memory)."""

from dataclasses import dataclass
from typing import Literal

import anyio
import pytest
from pydantic import BaseModel

from goalport import AgentPlatform, AgentProcess, ProcessStatus, UserInput, WaitFor, achieves_goal, action, agent
from goalport.errors import AlreadyAnswered, BadInput, DeclarationError, UnknownName
from goalport.runtime import Completed, Failed, Stuck


class UserChoice(BaseModel):
    choice: str


class UserChoiceResponse(BaseModel):
    """What a person sends: not what the next action takes."""

    option: Literal["Castle", "Forest"]


@dataclass(frozen=True)
class AdventureResult:
    content: str


@dataclass(frozen=True)
class ChoiceAwaitable(WaitFor[UserChoice]):
    """Turns the person's response into the domain object that the next action needs."""

    options: tuple[str, ...] = ("Castle", "Forest")

    @property
    def response_type(self) -> object:
        return UserChoiceResponse

    def accept(self, response: UserChoiceResponse) -> UserChoice | None:
        return UserChoice(choice=response.option)


@agent(description="Sends a player somewhere")
class Adventure:
    def __init__(self) -> None:
        self.asked = 0

    @action
    async def get_choice(self, user_input: UserInput) -> ChoiceAwaitable:
        self.asked += 1
        return ChoiceAwaitable(f"Where to, {user_input.content}?")

    @achieves_goal(description="Have chosen")
    async def process_choice(self, choice: UserChoice) -> AdventureResult:
        return AdventureResult(f"You chose: {choice.choice}")


async def settled(process: AgentProcess) -> object:
    with anyio.fail_after(60):
        return await process.wait()


@pytest.mark.parametrize("place", ["Castle", "Forest"])
async def test_the_choice_of_the_person_drives_the_result(place: str) -> None:
    declared = Adventure()
    async with AgentPlatform([declared]) as platform:
        process = await platform.run("Adventure", UserInput("Player1"))
        assert (await platform.process(process.id)).status is ProcessStatus.WAITING
        (question,) = process.open_questions
        assert question.message == "Where to, Player1?"
        assert isinstance(question.wait, ChoiceAwaitable)
        assert question.wait.options == ("Castle", "Forest")
        await platform.answer(process.id, question.id, {"option": place})
        assert await settled(process) == Completed(AdventureResult(f"You chose: {place}"))
    assert process.last(UserChoice) == UserChoice(choice=place)
    assert [each.action for each in process.history] == ["Adventure.get_choice", "Adventure.process_choice"]
    assert declared.asked == 1


async def test_only_a_process_that_is_there_and_waits_can_be_answered() -> None:
    async with AgentPlatform([Adventure()]) as platform:
        with pytest.raises(UnknownName):
            await platform.answer("no-such-process", response={"option": "Castle"})
        process = await platform.run("Adventure", UserInput("Player1"))
        (question,) = process.open_questions
        with pytest.raises(BadInput):
            await platform.answer(process.id, question.id, {"option": "Swamp"})
        assert process.status is ProcessStatus.WAITING
        await platform.answer(process.id, question.id, {"option": "Forest"})
        await settled(process)
        with pytest.raises(AlreadyAnswered):
            await platform.answer(process.id, question.id, {"option": "Castle"})
    assert process.outcome == Completed(AdventureResult("You chose: Forest"))


async def test_processes_wait_independently_of_one_another() -> None:
    async with AgentPlatform([Adventure()]) as platform:
        players = [await platform.run("Adventure", UserInput(f"Player{number}")) for number in range(3)]
        for process, place in zip(reversed(players), ["Castle", "Forest", "Castle"], strict=True):
            await platform.answer(process.id, response={"option": place})
        results = [await settled(process) for process in players]
    assert results == [Completed(AdventureResult(f"You chose: {place}")) for place in ("Castle", "Forest", "Castle")]


class Username(BaseModel):
    name: str


class Password(BaseModel):
    secret: str


@dataclass(frozen=True)
class LoginResult:
    text: str


@agent(description="Logs somebody in by two questions")
class Login:
    @action
    async def ask_name(self, user_input: UserInput) -> WaitFor[Username]:
        return WaitFor.form_submission("Who are you?", Username)

    @action
    async def ask_password(self, username: Username) -> WaitFor[Password]:
        return WaitFor.form_submission(f"Password of {username.name}?", Password)

    @achieves_goal(description="Be logged in")
    async def log_in(self, username: Username, password: Password) -> LoginResult:
        return LoginResult(f"{username.name} is in: {password.secret == 'sesame'}")


async def test_one_question_follows_another() -> None:
    async with AgentPlatform([Login]) as platform:
        process = await platform.run("Login", UserInput("hello"))
        asked: list[str] = []
        for answer in ({"name": "Ali"}, {"secret": "sesame"}):
            (question,) = process.open_questions
            asked.append(question.message)
            await platform.answer(process.id, question.id, answer)
            await settled(process)
    assert asked == ["Who are you?", "Password of Ali?"]
    assert process.outcome == Completed(LoginResult("Ali is in: True"))


class ChoiceRequest(BaseModel):
    """What is shown to the person, taken for the answer by mistake."""

    text: str


async def test_a_question_whose_answer_the_next_action_does_not_take_leaves_the_agent_stuck() -> None:
    @agent(description="Promises the wrong type")
    class Mismatched(Adventure):
        @action
        async def get_choice(self, user_input: UserInput) -> WaitFor[ChoiceRequest]:  # type: ignore[override]
            raise AssertionError

    process = await AgentPlatform([Mismatched()]).run("Mismatched", UserInput("x"))
    assert isinstance(process.outcome, Stuck)
    assert "UserChoice" in process.outcome.reason


async def test_a_question_of_another_type_than_was_declared_fails_aloud() -> None:
    @agent(description="Declares one type and asks for another")
    class Breaks(Adventure):
        @action
        async def get_choice(self, user_input: UserInput) -> WaitFor[UserChoice]:  # type: ignore[override]
            return WaitFor.form_submission("?", ChoiceRequest)  # type: ignore[return-value]

    process = await AgentPlatform([Breaks()]).run("Breaks", UserInput("x"))
    assert isinstance(process.outcome, Failed)
    assert "ChoiceRequest" in process.outcome.reason
    assert "UserChoice" in process.outcome.reason
    assert process.open_questions == ()


async def test_an_answer_that_comes_to_another_type_than_was_declared_fails_aloud() -> None:
    @dataclass(frozen=True)
    class Misread(ChoiceAwaitable):
        def accept(self, response: UserChoiceResponse) -> UserChoice | None:
            return response  # type: ignore[return-value]

    @agent(description="Hands on what the person sent as it is")
    class HandsOn(Adventure):
        @action
        async def get_choice(self, user_input: UserInput) -> Misread:
            return Misread("Where to?")

    async with AgentPlatform([HandsOn()]) as platform:
        process = await platform.run("HandsOn", UserInput("x"))
        await platform.answer(process.id, response={"option": "Castle"})
        outcome = await settled(process)
    assert isinstance(outcome, Failed)
    assert "returns UserChoice, but it returned a UserChoiceResponse" in outcome.reason


def test_a_question_without_a_type_is_refused_when_it_is_read() -> None:
    @agent(description="d")
    class Untyped:
        @achieves_goal(description="g")
        async def ask(self, user_input: UserInput) -> WaitFor:  # type: ignore[type-arg]
            raise AssertionError

    with pytest.raises(DeclarationError):
        AgentPlatform([Untyped])
