"""The model `test`, for trying agents without a key and without a network: it makes up what it is asked for."""

import json
import re
from collections.abc import AsyncGenerator
from logging import getLogger
from typing import Final

from goalport.base.words import excerpt
from goalport.models.llm.messages import AssistantMessage, ToolCall, UserMessage
from goalport.models.llm.model import ModelCall, ModelCard, ModelReply, TextDelta, ThinkingDelta
from goalport.models.prompts import made_up

TRIAL_MODEL: Final = "test"
_CHOICE: Final = re.compile(r"<candidates>\n(.*?)\n</candidates>\n<request>\n(.*)\n</request>", re.DOTALL)
"""How autonomy asks which agent or goal fits a request."""
_log = getLogger(__name__)


class TrialModel:
    """Fills types with made-up values, says what it was asked, and calls each tool that a prompt names once.

    A value is made from the schema alone: `examples` of a field are taken, and what only a validator knows is not.
    """

    card = ModelCard(name=TRIAL_MODEL, provider="goalport", vision=True)

    async def reply(self, call: ModelCall, /) -> ModelReply:
        """A made-up reply. It costs nothing."""
        message, output = AssistantMessage(), None
        asked = next((each.content for each in reversed(call.messages) if isinstance(each, UserMessage)), "")
        if calls := _calls(call):
            message = AssistantMessage(calls=calls, finish="tool_call")
        elif call.output is not None:
            output = json.dumps(_chosen(asked) or made_up(call.output.schema), ensure_ascii=False)
        else:
            message = AssistantMessage(f"This is the test model, and it was asked: {excerpt(asked, 500)}")
        _log.info("The test model, which makes everything up, was asked: %s", excerpt(asked, 200))
        return ModelReply(message=message, output=output, model=TRIAL_MODEL, finish=message.finish)

    async def stream(self, call: ModelCall, /) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        """The same, word by word."""
        reply = await self.reply(call)
        for word in re.findall(r"\S+\s*", reply.output or reply.message.content):
            yield TextDelta(word)
        yield reply


def _chosen(asked: str) -> object:
    """The candidate of a choice that has most words in common with the request; None where nothing is to be chosen."""
    if (choice := _CHOICE.search(asked)) is None:
        return None
    wanted = set(re.findall(r"\w{4,}", choice[2].lower()))
    best = max(choice[1].splitlines(), key=lambda line: len(wanted & set(re.findall(r"\w{4,}", line.lower()))))
    return {"ratings": [{"name": best.removeprefix("- ").partition(":")[0], "confidence": 0.9}]}


def _calls(call: ModelCall) -> tuple[ToolCall, ...]:
    """A call of each tool that a message names, unless the last message is the result of one."""
    if not call.messages or not isinstance(call.messages[-1], UserMessage):
        return ()
    said = "\n".join(str(getattr(each, "content", "")) for each in call.messages)
    wanted = [each for each in call.tools if re.search(rf"\b{re.escape(each.name)}\b", said)]
    return tuple(
        ToolCall(f"test-{number}", each.name, json.dumps(made_up(each.input_schema), ensure_ascii=False))
        for number, each in enumerate(wanted, start=1)
    )
