"""The commands of a chat: lines that begin with a slash.

A command is a name, what it takes, and what it is for; `chat_loop` does what it says. Pure data and parsing.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from goalport.base.errors import BadInput
from goalport.base.words import offer

_NAME: Final = re.compile(r"/([a-z]+)(?:\s+|$)")


class Command(NamedTuple):
    """What can be done in a chat besides saying something."""

    name: str
    takes: str
    help: str


COMMANDS: Final = (
    Command("new", "[CHATBOT]", "Begin a new conversation, also with another chatbot."),
    Command("list", "[WORDS]", "List the conversations, or those in which these words are."),
    Command("open", "ID", "Go on with another conversation."),
    Command("title", "TEXT", "Give the conversation a title."),
    Command("history", "", "Show what was said so far."),
    Command("again", "", "Let the last message be answered again, in another branch."),
    Command("edit", "[TEXT]", "Say the last message in other words, in another branch."),
    Command("answer", "[ANSWER]", "Answer an open question, here or as JSON."),
    Command("decline", "REASON", "Decline an open question."),
    Command("export", "[FILE]", "Write the conversation as Markdown, or as JSON if the name of the file ends so."),
    Command("help", "", "List the commands."),
    Command("quit", "", "Leave the chat, as Ctrl-D does; the conversation can be continued."),
)


def read_line(line: str) -> tuple[str, str]:
    """The name of the command in a line, and what it is given; an empty name and the text, if it is a message.

    Raises `BadInput` for an unknown command. A message that begins with a slash is written with two.
    """
    if line.startswith("//"):
        return "", line[1:]
    match = _NAME.match(line)
    if match is None:
        return "", line
    names = [each.name for each in COMMANDS]
    if match[1] not in names:
        told = offer(match[1], names)
        raise BadInput(
            f"There is no command /{match[1]}. {told} A message that begins with a slash is written with two."
        )
    return match[1], line[match.end() :].strip()


def command_lines() -> Iterator[str]:
    """A line about each command, and about the keys."""
    width = max(len(f"/{each.name} {each.takes}") for each in COMMANDS)
    for each in COMMANDS:
        yield f"  {f'/{each.name} {each.takes}':<{width}}  {each.help}"
    yield "Enter sends; Alt-Enter, or a backslash at the end of a line, begins another line. Ctrl-C stops a reply."
