"""`goalport chat` on a terminal: streams, questions, Ctrl-C, history, several lines, and going on after kill -9."""

import json
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.programs import ran
from tests.providers import Providers
from tests.stories.servers import workspace
from tests.terminals import CTRL_C, CTRL_D, ENTER, UP, Screen, on_terminal

FILES = {
    "agents/support.py": """
from dataclasses import dataclass

from goalport import ActionContext, Tool, WaitFor, action, condition, tool
from goalport.chat import Conversation, chatbot
from goalport.models import UserMessage

@dataclass(frozen=True)
class Parcel:
    number: int

@tool
def where_is(number: int) -> str:
    '''Say where a parcel is.'''
    return "in Vienna"

@tool
def call_back(number: int) -> str:
    '''Call a parcel back.'''
    return "it turns round"

@chatbot(description="Answers questions about parcels")
class Support:
    @action(trigger=UserMessage, can_rerun=True, cost=0.5)
    async def respond(self, conversation: Conversation, context: ActionContext) -> None:
        streaming = context.ai.with_tools(where_is, Tool.of(call_back).with_approval("always")).streaming()
        await context.send_message(streaming.respond(conversation.messages))

    @condition
    def is_about_a_parcel(self, message: UserMessage) -> bool:
        return message.content == "parcel"

    @action(trigger=UserMessage, can_rerun=True, pre=["is_about_a_parcel"])
    async def ask(self, message: UserMessage) -> WaitFor[Parcel]:
        return WaitFor.form_submission("Which parcel?", Parcel)

    @action(trigger=Parcel, can_rerun=True)
    async def find(self, parcel: Parcel, context: ActionContext) -> None:
        await context.send_message(f"Parcel **{parcel.number}** is on its way.")
"""
}
SLOW = " ".join(f"word{number}" for number in range(2_000))
ALT_ENTER, TAB = "\x1b\r", "\t"

Opened = Callable[..., AbstractContextManager[Screen]]


@pytest.fixture
def environment(aimock: Providers, tmp_path: Path) -> Mapping[str, str]:
    variables = {"GOALPORT_MODELS__DEFAULT_LLM": "openai:gpt-4.1-mini", "HOME": str(tmp_path), "TERM": "xterm"}
    return {**aimock.environment, **variables, "COLUMNS": "150"}


@pytest.fixture
def opened(environment: Mapping[str, str], tmp_path: Path) -> Opened:
    """Opens a chat on a terminal, with its first prompt."""
    place = workspace(tmp_path / "work", FILES)

    @contextmanager
    def chat(*options: str, command: str = "chat", **variables: str) -> Generator[Screen]:
        with on_terminal([command, *options], {**environment, **variables}, place) as screen:
            yield screen

    return chat


def test_replies_stream_with_tools_and_questions_and_the_history_survives_a_restart(
    opened: Opened, aimock: Providers, tmp_path: Path
) -> None:
    call = {"name": "where_is", "arguments": {"number": 7}}
    aimock.answer({"userMessage": "Where is 7?", "hasToolResult": False}, toolCalls=[call])
    aimock.answer({"userMessage": "Where is 7?", "hasToolResult": True}, {"chunkSize": 4}, content="It is in Vienna.")
    aimock.answer("first line\nsecond line", content="Two lines.")
    aimock.answer("Edited", content="Said in other words.")
    with opened() as screen:
        screen.until("Support: Answers questions about parcels").until("you>")
        screen.press("Where is 7?", ENTER).until("Support.respond").until("calls where_is")
        screen.until("It is in Vienna.\n").until("you>")
        screen.press("parcel", ENTER).until("Which parcel?").until("number:").press("x", ENTER)
        screen.until("a whole number").press("\x7f", "12", ENTER).until("is on its way.").until("you>")
        screen.press("first line", ALT_ENTER, "second line\\", ENTER, "", CTRL_C)
        screen.press("first line", ALT_ENTER, "second line", ENTER).until("Two lines.").until("you>")
        screen.press(CTRL_D)
        assert screen.ended() == 0
    assert "\x1b[2m" in screen.raw.decode()
    with opened("--continue", NO_COLOR="1") as screen:
        screen.until("you> first line").until("Two lines.").until("you>")
        screen.press(UP, UP, UP, UP, ENTER).until("It is in Vienna.").until("you>")
        screen.press("/edit", ENTER).until("Where is 7?").press("\x15", "Edited", ENTER)
        screen.until("Said in other words.").until("you>").press("/quit", ENTER).until("goalport chat --conversation")
        assert screen.ended() == 0
    assert "\x1b[2m" not in screen.raw.decode()
    assert (tmp_path / "work" / ".goalport" / "chat_history").stat().st_mode & 0o777 == 0o600


def test_an_approval_is_asked_and_a_question_that_is_answered_elsewhere_goes_on_here(
    opened: Opened, aimock: Providers, environment: Mapping[str, str], tmp_path: Path
) -> None:
    call = {"name": "call_back", "arguments": {"number": 7}}
    aimock.answer({"userMessage": "Call 7 back", "hasToolResult": False}, toolCalls=[call])
    aimock.answer({"userMessage": "Call 7 back", "hasToolResult": True}, content="It turns round.")
    with opened() as screen:
        screen.until("you>").press("Call 7 back", ENTER).until("call_back").until("y or n:").press("y", ENTER)
        screen.until("It turns round.").until("you>")
        screen.press("parcel", ENTER).until("Which parcel?").until("number:").press(CTRL_D)
        screen.until("/answer asks it again").until("you>").press("/answer", ENTER).until("number:")

        def goalport(*words: str) -> str:
            done = ran(words, {**os.environ, **environment}, tmp_path / "work")
            assert done.returncode == 0, done.stderr
            return done.stdout

        (process,) = json.loads(goalport("ps", "--json"))
        goalport("answer", process["process"], '{"number": 9}')
        screen.until("is answered already").until("is on its way.").until("you>").press(CTRL_D)
        assert screen.ended() == 0


def test_ctrl_c_stops_the_reply_and_not_the_chat_and_twice_it_leaves(opened: Opened, aimock: Providers) -> None:
    aimock.answer("slow", {"latency": 20, "chunkSize": 6}, content=SLOW)
    aimock.answer("brief", {"latency": 20, "chunkSize": 12}, content=SLOW[: SLOW.index("word100")])
    aimock.answer("quick", content="At once.")
    with opened() as screen:
        screen.until("you>").press("slow", ENTER).until("word1 word2").press(CTRL_C).until("Stopped.").until("you>")
        screen.press("quick", ENTER).until("At once.").until("you>")
        screen.press("brief", ENTER).until("word1 word2").press("quick", ENTER).until("word99").until("At once.")
        screen.until("you>").press("slow", ENTER).until("word1 word2").press(CTRL_C).until("Stopped.").until("you>")
        screen.press("half a line", CTRL_C, "quick", ENTER).until("At once.").until("you>")
        screen.press(CTRL_C).until("Press Ctrl-C once more to leave.").until("you>").press(CTRL_C)
        assert screen.ended() == 130
    with opened("-m", "slow", "-m", "quick") as screen:
        screen.until("word1 word2").press(CTRL_C).until("Stopped.")
        assert screen.ended() == 130
    assert "At once." not in screen.text


def test_an_edit_that_is_given_up_leaves_the_next_message_at_the_end(opened: Opened, aimock: Providers) -> None:
    for number in ("one", "two", "three"):
        aimock.answer(number, content=f"Answer {number}.")
    with opened() as screen:
        screen.until("you>").press("one", ENTER).until("Answer one.").until("you>")
        screen.press("/edit", ENTER).until("you> one").press("\x15", ENTER).until("you>")
        screen.press("two", ENTER).until("Answer two.").until("you>")
        screen.press("/edit", ENTER).until("you> two").press(CTRL_C, CTRL_C).until("once more to leave").until("you>")
        screen.press("three", ENTER).until("Answer three.").until("you>").press(CTRL_D)
        assert screen.ended() == 0
    told = [each["content"] for each in aimock.requests()[-1]["messages"]]
    assert told == ["one", "Answer one.", "two", "Answer two.", "three"]


def test_a_chat_that_was_killed_in_a_reply_goes_on_with_it(opened: Opened, aimock: Providers) -> None:
    aimock.answer("My name is Ada", content="Hello Ada.")
    aimock.answer({"userMessage": "slow", "sequenceIndex": 0}, {"latency": 20, "chunkSize": 6}, content=SLOW)
    aimock.answer({"userMessage": "slow", "sequenceIndex": 1}, content="Now I am done.")
    aimock.answer("What is my name?", content="You are Ada.")
    with opened() as screen:
        screen.until("you>").press("My name is Ada", ENTER).until("Hello Ada.").until("you>")
        screen.press("slow", ENTER).until("word1 word2")
        screen.program.kill()
        screen.program.join()
    with opened("--continue") as screen:
        screen.until("you> slow").until("Now I am done.").until("you>")
        screen.press("What is my name?", ENTER).until("You are Ada.").until("you>").press(CTRL_D)
        assert screen.ended() == 0
    told = [each["content"] for each in aimock.requests()[-1]["messages"]]
    assert told == ["My name is Ada", "Hello Ada.", "slow", "Now I am done.", "What is my name?"]


def test_the_shell_has_the_same_chat(opened: Opened, aimock: Providers) -> None:
    aimock.answer("slow", {"latency": 20, "chunkSize": 6}, content=SLOW)
    aimock.answer("quick", content="At once.")
    with opened(command="shell") as screen:
        screen.until("goalport>").press("chat Sup", TAB).until("Support").press(ENTER).until("you>")
        screen.press("slow", ENTER).until("word1 word2")
        screen.press(CTRL_C).until("Stopped.").until("you>").press("quick", ENTER).until("At once.").until("you>")
        screen.press("/new Sup", TAB).until("Support").press(ENTER).until("Conversation").until("you>")
        screen.press("quick", ENTER).until("At once.").until("you>")
        screen.press(CTRL_D).until("goalport>").press("conversations list", ENTER).until("Support").until("goalport>")
        screen.press("chat --continue", ENTER).until("you> quick").until("At once.").until("you>")
        screen.press("/quit", ENTER).until("goalport>").press("exit", ENTER)
        assert screen.ended() == 0
