"""Answers in free words: a cheap model finds in a message what a form asks for, or that it is no answer at all.

It is asked only where the settings name a model for that, and only after a message could not be read without one. A
yes is never found by a model, since what is approved has to be said plainly. Below: questions and their forms. Above:
`answering`.
"""

import json
import logging
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field

from goalport.base.errors import BadInput, ModelError
from goalport.models.prompts.quotation import as_data
from goalport.runtime.chat.cheapest import CHEAPEST, cheapest
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import Question
from goalport.server.doors.openai.questions import Answer, Unclear, in_words
from goalport.server.publish.forms import Form, form_of
from goalport.tools.schemas import UNREADABLE, holds_secret

_log = logging.getLogger(__name__)
_READ_FREELY: Final = frozenset({"form", "choice"})
"""The kinds of forms whose answers a model may find."""


class FoundAnswer(BaseModel):
    """What the message of a person is, after they were asked a question."""

    kind: Annotated[
        Literal["answer", "refusal", "something else"],
        Field(description="A refusal says that the person will not answer; something else is about another matter"),
    ]
    values: Annotated[
        str,
        Field(description="Of an answer: a JSON object by the JSON Schema, with nothing but what the person says"),
    ] = "{}"


class SomethingElse:
    """A message that is about another matter than the question."""


async def found_answer(
    platform: AgentPlatform, question: Question, text: str, otherwise: Unclear
) -> Answer | Unclear | SomethingElse:
    """What a model finds in a message that could not be read without one; `otherwise` if it finds nothing.

    If the answer lacks something, or is wrong, that is said, and asked again.
    """
    if CHEAPEST not in platform.models.roles:
        return otherwise
    try:
        form = form_of(question)
    except UNREADABLE:
        return otherwise
    if form.kind not in _READ_FREELY or holds_secret(form.schema):
        return otherwise
    ai = cheapest(platform.ai, platform.models.roles).with_id("answer")
    try:
        found = await ai.create_object(_prompt(question, form, text), FoundAnswer)
    except ModelError as error:
        _log.info("The answer to question %s is read without a model: %s", question.id, error)
        return otherwise
    match found.kind:
        case "something else":
            return SomethingElse()
        case "refusal":
            return Answer(declined=f"The person said: {text}")
        case "answer":
            return _read(form, question, found.values, otherwise)


def _read(form: Form, question: Question, values: str, otherwise: Unclear) -> Answer | Unclear:
    try:
        return Answer(form.read(json.loads(values)))
    except BadInput as error:
        return Unclear(f"{error}\n\n{in_words(question)}")
    except ValueError:
        return otherwise


def _prompt(question: Question, form: Form, text: str) -> str:
    schema = json.dumps(form.schema, ensure_ascii=False)
    options = "".join(f"\n- {each['key']}: {each['label']}" for each in form.options)
    return (
        f"A person was asked:\n{question.message}\n\nAn answer has this JSON Schema:\n{schema}{options}\n\nWhat is the"
        f" message that came next? Make up no values.\n{as_data(text, 'the person')}"
    )
