"""`goalport chat` in a pipe: messages, commands, questions, forks, and going on with a conversation later."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rooms.cli.conftest import Command, Ran

SUPPORT = """
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from goalport import ActionContext, WaitFor, achieves_goal, action
from goalport.runtime.chat import Conversation, chatbot
from goalport.agents.domain import RetryPolicy
from goalport.models.llm import TextDelta, ThinkingDelta, UserMessage

@dataclass(frozen=True)
class Parcel:
    number: int

@dataclass(frozen=True)
class Farewell:
    pass

async def thoughts() -> AsyncGenerator[TextDelta | ThinkingDelta]:
    yield ThinkingDelta("let me ")
    yield ThinkingDelta("see")
    yield TextDelta("I ")
    yield TextDelta("know.")

tries = []

async def broken() -> AsyncGenerator[str]:
    tries.append(1)
    yield "At la"
    if len(tries) == 1:
        raise TimeoutError("the line broke")
    yield "st."

async def pieces(text: str) -> AsyncGenerator[str]:
    for word in text.split(" "):
        yield f"{word} "

@chatbot(description="Answers questions about parcels")
class Support:
    @action(trigger=UserMessage, can_rerun=True, cost=0.5, retry=RetryPolicy(first_delay=0, every_error=True))
    async def respond(self, conversation: Conversation, context: ActionContext) -> Farewell | None:
        said = [each.text for each in conversation.entries if each.role == "user"]
        if said[-1] in {"think", "break"}:
            await context.send_message(thoughts() if said[-1] == "think" else broken())
            return None
        if said[-1] == "ask a model":
            await context.send_message(await context.ai.generate_text("Where is it?"))
            return None
        if said[-1] == "fail":
            raise ValueError("the parcels are on fire")
        await context.send_message(pieces(f"{len(said)}: {said[-1]}."))
        return Farewell() if said[-1] == "bye" else None

    @action(trigger=UserMessage, can_rerun=True, pre=["is_about_a_parcel"])
    async def ask(self, message: UserMessage) -> WaitFor[Parcel]:
        return WaitFor.form_submission("Which parcel?", Parcel)

    @condition
    def is_about_a_parcel(self, message: UserMessage) -> bool:
        return message.content == "parcel"

    @action(trigger=Parcel, can_rerun=True)
    async def find(self, parcel: Parcel, context: ActionContext) -> None:
        await context.send_message(f"Parcel {parcel.number} is on its way.")

    @achieves_goal(description="Say good-bye")
    @action(trigger=Farewell)
    def leave(self, farewell: Farewell) -> str:
        return "Good-bye"
""".replace("achieves_goal, action\n", "achieves_goal, action, condition\n")
ECHO = """
from goalport import ActionContext, action
from goalport.runtime.chat import chatbot
from goalport.models.llm import UserMessage

@chatbot(description="Says it again")
class Echo:
    @action(trigger=UserMessage, can_rerun=True)
    async def respond(self, message: UserMessage, context: ActionContext) -> None:
        await context.send_message(message.content)
"""

Chat = Callable[..., Ran]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "work" / "agents").mkdir(parents=True)
    (tmp_path / "work" / "agents" / "support.py").write_text(SUPPORT)
    return tmp_path / "work"


@pytest.fixture
def chat(goalport: Command, place: Path) -> Chat:
    """Chats with these lines in the pipe."""

    def talk(*options: str, lines: str = "") -> Ran:
        return goalport("chat", *options, "--workspace", str(place), stdin=lines)

    return talk


def listed(goalport: Command, place: Path, *words: str) -> list[dict[str, str]]:
    command = ("search", *words) if words else ("list",)
    return json.loads(goalport("conversations", *command, "--json", "--workspace", str(place)).out)


def test_each_line_of_a_pipe_is_answered_and_the_conversation_is_kept(
    chat: Chat, goalport: Command, place: Path
) -> None:
    ran = chat(lines="hello\none line\\\nand another\n\n//etc\n")

    assert (ran.code, ran.out) == (0, "1: hello. \n2: one line\nand another. \n3: /etc. \n")
    assert "Support.respond" in ran.err
    (conversation,) = listed(goalport, place)
    assert conversation["chatbot"] == "Support"
    assert conversation["state"] == "open"


def test_messages_of_the_command_line_are_said_and_steps_are_left_out(chat: Chat) -> None:
    ran = chat("--quiet", "-m", "one", "--message", "-", lines="two\nlines\n")

    assert (ran.code, ran.out, ran.err) == (0, "1: one. \n2: two\nlines. \n", "")


def test_a_conversation_is_continued_as_the_last_one_or_by_its_id(chat: Chat, goalport: Command, place: Path) -> None:
    chat("-m", "one")
    assert chat("Support", "--continue", "-m", "two").out == "2: two. \n"
    (first,) = listed(goalport, place)
    assert chat("--conversation", "ticket-7", "--new", "-m", "one").out == "1: one. \n"
    assert chat("-c", first["conversation"], "-m", "three").out == "3: three. \n"
    assert [each["conversation"] for each in listed(goalport, place)] == [first["conversation"], "ticket-7"]


def test_replies_are_json_for_programs(chat: Chat) -> None:
    ran = chat("--json", "-c", "ticket", "--new", "-m", "one", "-m", "parcel")

    one, parcel = map(json.loads, ran.out.splitlines())
    assert one == {"conversation": "ticket", "reply": "1: one. ", "questions": [], "failure": "", "finished": False}
    assert parcel["questions"][0]["message"] == "Which parcel?"
    assert ran.code == 1


def test_a_question_is_told_and_answered_by_a_command_also_later(chat: Chat) -> None:
    asked = chat("-c", "ticket", "--new", "-m", "parcel")
    assert asked.code == 1
    assert asked.out == "Which parcel?\n"
    assert "`/answer JSON`" in asked.err

    unfit = chat("-c", "ticket", lines='/answer {"number": "x"}\n')
    assert "number" in unfit.err
    answered = chat("-c", "ticket", lines='/answer {"number": 7}\n/answer {"number": 8}\n')
    assert "Parcel 7 is on its way.\n" in answered.out
    assert "No question is open." in answered.err


def test_a_question_can_be_declined(chat: Chat) -> None:
    ran = chat(lines="parcel\n/decline I do not know\nhello\n")

    assert ran.out.splitlines()[0] == "Which parcel?"
    assert ran.out.splitlines()[-1] == "2: hello. "


def test_what_was_said_is_edited_and_answered_again_in_branches(chat: Chat, goalport: Command, place: Path) -> None:
    ran = chat("-c", "ticket", "--new", lines="one\ntwo\n/edit zwei\n/again\n/history\n")

    assert ran.out.splitlines() == ["1: one. ", "2: two. ", "2: zwei. ", "2: zwei. ", *SHOWN]
    exported = json.loads(goalport("conversations", "show", "ticket", "--json", "--workspace", str(place)).out)
    assert [each["content"] for each in exported["messages"] if each["role"] == "user"] == ["one", "two", "zwei"]
    assert sum(each["content"] == "2: zwei. " for each in exported["messages"]) == 2


SHOWN = ["you> one", "1: one. ", "you> zwei", "2: zwei. "]


def test_a_failed_reply_is_told_and_the_conversation_goes_on(chat: Chat) -> None:
    ran = chat(lines="fail\nhello\n")

    assert ran.code == 1
    assert re.search(r"on fire\n  agents/support\.py, line \d+, in respond: raise ValueError\(", ran.err)
    assert ran.out == "2: hello. \n"
    assert "Traceback" not in ran.err
    assert "Traceback (most recent call last):" in chat("--debug", "-m", "fail").err


def test_thoughts_are_shown_beside_the_reply_and_left_out_with_the_steps(chat: Chat) -> None:
    shown, quiet = chat("-m", "think"), chat("--quiet", "-m", "think")

    assert shown.out == quiet.out == "I know.\n"
    assert "let me see\n" in shown.err
    assert quiet.err == ""


def test_a_reply_that_broke_off_begins_again_on_a_line_of_its_own(chat: Chat) -> None:
    ran = chat("-m", "break")

    assert (ran.code, ran.out) == (0, "At la\nAt last.\n")
    assert "the line broke" in ran.err


def test_a_conversation_that_has_reached_its_goal_takes_no_message_and_another_one_can_begin(chat: Chat) -> None:
    ran = chat(lines="bye\nhello\n/new\nhello\n")

    assert "has reached its goal" in ran.err
    assert ran.out == "1: bye. \n1: hello. \n"
    assert ran.code == 1


def test_conversations_are_opened_listed_and_named_from_within(chat: Chat, goalport: Command, place: Path) -> None:
    chat("-c", "first", "--new", "-m", "damaged parcel box")
    ran = chat("-c", "second", "--new", lines="hello\n/open first\n/title Boxes\nonce more\n/list boxes\n/list none\n")

    assert "2: once more. " in ran.out
    assert "Boxes" in ran.out
    assert "No conversation has these words." in ran.err
    assert [each["title"] for each in listed(goalport, place)] == ["Boxes", "hello"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/titel x", "There is no command /titel. Did you mean 'title'?"),
        ("/open", "Say which conversation: /open ID."),
        ("/open nobody", "Unknown conversation 'nobody'."),
        ("/edit", "You have said nothing yet."),
        ("/again", "Nobody has said anything yet"),
        ("/answer 1", "No question is open."),
        ("/new Nobody", "Unknown chatbot 'Nobody'."),
    ],
)
def test_a_command_that_cannot_be_done_is_told_and_the_chat_goes_on(chat: Chat, line: str, told: str) -> None:
    ran = chat(lines=f"{line}\nhello\n")

    assert told in ran.err
    assert ran.out == "1: hello. \n"
    assert ran.code == 1


def test_a_chat_goes_on_after_an_export_to_a_file_that_cannot_be_written(chat: Chat, tmp_path: Path) -> None:
    ran = chat(lines=f"one\n/export {tmp_path}/nowhere/talk.md\n/export ~nobody-of-this-name/talk.md\ntwo\n")
    assert "error: " in ran.err
    assert f"{tmp_path}/nowhere/talk.md cannot be written." in ran.err
    assert "~nobody-of-this-name/talk.md cannot be written." in ran.err
    assert "2: two." in ran.out


def test_a_conversation_is_exported_as_markdown_and_json(chat: Chat, tmp_path: Path) -> None:
    ran = chat(
        "-c", "ticket", "--new", lines=f"hello\n/export {tmp_path}/talk.md\n/export {tmp_path}/talk.json\n/export\n"
    )

    markdown = (tmp_path / "talk.md").read_text()
    assert markdown.startswith("# hello\n\nWith Support, begun ")
    assert "**You**, " in markdown
    assert "\n\nhello\n\n**Support**, " in markdown
    assert markdown in ran.out
    assert [each["role"] for each in json.loads((tmp_path / "talk.json").read_text())["messages"]] == [
        "user",
        "assistant",
    ]


def test_the_help_names_each_command(chat: Chat) -> None:
    lines = chat(lines="/help\n").out

    for each in ("new", "list", "open", "title", "history", "again", "edit", "answer", "decline", "export", "quit"):
        assert f"/{each}" in lines
    assert chat(lines="/quit\nhello\n").out == ""


def test_which_chatbot_is_meant_has_to_be_said_if_there_are_several(chat: Chat, place: Path) -> None:
    (place / "agents" / "echo.py").write_text(ECHO)

    assert "There are Echo, Support." in chat("-m", "hello").err
    assert chat("Echo", "-m", "hello").out == "hello\n"
    assert chat("--continue", "-m", "again").out == "again\n"
    assert "Unknown chatbot 'Ecco'. Did you mean 'Echo'?" in chat("Ecco", "-m", "hello").err


def test_another_model_is_asked_where_the_chatbot_names_none(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)

    ran = chat("--model", "deepseek:deepseek-chat", "-m", "ask a model")

    assert ran.code == 1
    assert "DEEPSEEK_API_KEY" in ran.err


def test_wrong_options_are_told(chat: Chat, place: Path) -> None:
    empty = chat("-m", " ")
    assert (empty.code, "--message was expected to be a message" in empty.err) == (2, True)
    assert "There is no conversation of yours to go on with." in chat("--continue", "-m", "hello").err
    assert "Leave out --model." in chat("--server", "http://127.0.0.1:1", "--model", "x", "-m", "hello").err
    assert "leave out --conversation and --new" in chat("--continue", "--new", "-m", "hello").err
    assert "Unknown conversation 'nobody'." in chat("-c", "nobody", "-m", "hello").err
    chat("-c", "ticket", "--new", "-m", "hello")
    assert "There is a conversation 'ticket' already." in chat("-c", "ticket", "--new", "-m", "hello").err
    assert "with Support, and not with Echo" in chat("Echo", "-c", "ticket", "-m", "hello").err
    (place / "agents" / "support.py").unlink()
    (place / "agents" / "nothing.py").write_text("")
    assert "There is no chatbot here." in chat("-m", "hello").err
