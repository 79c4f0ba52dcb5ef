"""A chat on the terminal: messages and commands one after the other, replies as they come, questions as forms.

Ctrl-C stops the reply and not the chat; pressed again, it ends the chat. Above: `chat`; below: `chat_replies`, and
`dialogues`, the place with the chatbots.
"""

import json
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from goalport.base.errors import BadInput, GoalportError
from goalport.cli.answering import read_answer
from goalport.cli.chat_input import Messages
from goalport.cli.chat_prompt import command_lines, read_line
from goalport.cli.chat_replies import Replies
from goalport.cli.dialogues import Chats, Dialogue, Reply
from goalport.cli.prompts import Interrupted, Unanswered
from goalport.cli.terminal import say, show, show_lines, show_markdown
from goalport.cli.transcripts import transcript

DONE, FAILED, INTERRUPTED = 0, 1, 130
_LISTED: Final = 20
_RECENT: Final = 2
"""How many messages are shown of a conversation that is continued."""


class ChatLoop:
    """A person who talks to a chatbot."""

    def __init__(self, chats: Chats, dialogue: Dialogue, replies: Replies, messages: Messages) -> None:
        self._chats, self._dialogue, self._replies, self._messages = chats, dialogue, replies, messages
        self._runner, self._attended = replies.runner, replies.attended
        self._draft = ""
        """What `/edit` lets a person edit."""
        self._after: str | None = None
        """The id of the message that the edited one follows."""
        self._interrupted = self._over = False
        self._commands: Mapping[str, Callable[[str], None]] = {
            "": self._say,
            "new": self._new,
            "list": self._list,
            "open": self._open,
            "title": lambda text: self._runner.run(self._chats.rename(self._dialogue.id, text)),
            "history": lambda _: self._history(),
            "again": lambda _: self._turn(self._dialogue.again()),
            "edit": self._edit,
            "answer": lambda text: self._answer(text, ""),
            "decline": lambda text: self._answer("", text),
            "export": self._export,
            "help": lambda _: show_lines(command_lines()),
            "quit": lambda _: self._leave(),
        }

    def run(self) -> int:
        """Talk until the person leaves or the messages end; the exit code."""
        self._begun()
        while not self._over:
            try:
                line = self._messages.next(self._draft)
            except (Interrupted, KeyboardInterrupt):  # the latter is pressed just before the prompt is there
                if self._interrupted or self._replies.stopped or not self._attended:
                    self._told_how_to_go_on()
                    return INTERRUPTED
                self._interrupted, self._draft, self._after = True, "", None
                say("Press Ctrl-C once more to leave.")
                continue
            except Unanswered:
                break
            self._interrupted = self._replies.stopped = False
            self._draft = ""
            if line.strip():
                self._attempt(line)
            else:
                self._after = None
            if self._replies.stopped and not self._attended:
                return INTERRUPTED
        self._told_how_to_go_on()
        return FAILED if self._replies.failed and not self._attended else DONE

    def _attempt(self, line: str) -> None:
        try:
            name, given = read_line(line)
            if name:
                self._after = None
            self._commands[name](given)
        except GoalportError as error:
            self._replies.fail(str(error))

    def _begun(self) -> None:
        """Say with whom, and go on with what the conversation was left with: a reply that comes, or a question."""
        if self._attended:
            say(f"{self._dialogue.chatbot}: {self._chats.chatbots.get(self._dialogue.chatbot, '')}".rstrip(": "))
            say(f"Conversation {self._dialogue.id}. /help lists the commands, Ctrl-D leaves.")
            self._history(_RECENT)
        self._turn(self._dialogue.follow())

    def _say(self, text: str) -> None:
        after, self._after = self._after, None
        self._turn(self._dialogue.say(text, after))

    def _turn(self, begun: Coroutine[Any, Any, Reply | None]) -> None:
        self._replies.show(self._dialogue, begun)

    def _new(self, chatbot: str) -> None:
        self._dialogue = self._runner.run(self._chats.begin(chatbot or self._dialogue.chatbot))
        self._begun()

    def _open(self, conversation_id: str) -> None:
        if not conversation_id:
            raise BadInput("Say which conversation: /open ID. /list lists them.")
        self._dialogue = self._runner.run(self._chats.open(conversation_id, self._dialogue.chatbot))
        self._begun()

    def _list(self, words: str) -> None:
        none = "No conversation has these words." if words else "There are no conversations."
        show(self._runner.run(self._chats.page(words, _LISTED)), "text", none=none)

    def _history(self, newest: int = 0) -> None:
        for each in self._dialogue.said[-newest:]:
            if each.role == "user":
                show_lines([f"you> {each.text}"])
            elif each.role == "assistant" and each.text:
                show_markdown(each.text)

    def _edit(self, text: str) -> None:
        last = next((each for each in reversed(self._dialogue.said) if each.role == "user"), None)
        if last is None:
            raise BadInput("You have said nothing yet.")
        if text:
            self._turn(self._dialogue.say(text, last.after))
        elif self._attended:
            self._draft, self._after = last.text, last.after
        else:
            raise BadInput("Say it in other words: /edit TEXT.")

    def _answer(self, given: str, declined: str) -> None:
        questions = self._dialogue.questions
        if not questions:
            raise BadInput("No question is open.")
        if given or declined:
            answer = read_answer(given) if given else None
            self._turn(self._dialogue.answer(questions[0]["id"], answer, declined))
        elif self._attended:
            self._replies.ask(self._dialogue)
        else:
            raise BadInput("Give the answer as JSON: /answer JSON.")

    def _export(self, file: str) -> None:
        exported = self._runner.run(self._chats.export(self._dialogue.id))
        as_json = file.endswith(".json")
        text = f"{json.dumps(exported, indent=1, ensure_ascii=False)}\n" if as_json else transcript(exported)
        if not file:
            show_lines([text])
            return
        try:
            Path(file).expanduser().write_text(text, encoding="utf-8")
        except (OSError, RuntimeError) as error:  # the latter: there is no such user
            raise BadInput(f"{file} cannot be written. {error}") from None
        say(f"Written: {file}")

    def _leave(self) -> None:
        self._over = True

    def _told_how_to_go_on(self) -> None:
        if self._attended and self._dialogue.said and not self._replies.finished:
            say(f"To go on: goalport chat --conversation {self._dialogue.id}{self._chats.options}")
