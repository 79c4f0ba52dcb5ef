# It runs in an environment of its own, which goalport's type checker does not see.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false, reportUntypedBaseClass=false
"""An agent of Google's ADK with a scripted model, which hands over to a goal of goalport: `RemoteA2aAgent`.

Parameter: the address of the agent card. Each line on stdin is what a person says, as JSON; each line on stdout is what
the agents said, and what they asked.
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types


class Scripted(BaseLlm):
    """A model that hands over to the editor, whatever it is asked."""

    async def generate_content_async(
        self, llm_request: LlmRequest, *_: bool, **__: bool
    ) -> AsyncGenerator[LlmResponse]:
        call = types.FunctionCall(name="transfer_to_agent", args={"agent_name": "editor"})
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(function_call=call)]))


async def main() -> None:
    editor = RemoteA2aAgent(name="editor", agent_card=sys.argv[1])
    root = LlmAgent(name="desk", model=Scripted(model="scripted"), sub_agents=[editor])
    runner = InMemoryRunner(agent=root, app_name="desk")
    session = await runner.session_service.create_session(app_name="desk", user_id="ada")
    asked: types.FunctionCall | None = None
    for line in sys.stdin:
        part = types.Part(text=json.loads(line))
        if asked is not None:
            answer = types.FunctionResponse(id=asked.id, name=asked.name, response={"result": part.text})
            part = types.Part(function_response=answer)
        asked, said, questions = None, list[str](), list[Any]()
        message = types.Content(role="user", parts=[part])
        async for event in runner.run_async(user_id="ada", session_id=session.id, new_message=message):
            for each in event.content.parts or [] if event.content else []:
                if each.text and not each.thought:
                    said.append(each.text)
                if each.function_call and each.function_call.id in (event.long_running_tool_ids or ()):
                    asked = each.function_call
                    questions.append(each.function_call.args)
            if event.error_message:
                said.append(event.error_message)
        sys.stdout.write(json.dumps({"said": said, "asked": questions}) + "\n")
        sys.stdout.flush()


asyncio.run(main())
