# It runs in an environment of its own, which goalport's type checker does not see.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false, reportUntypedBaseClass=false
"""An agent of Google's ADK with a scripted model, served over A2A by `to_a2a`. Says on stderr where it listens.

Its model repeats what it is told; when it is told to ask, it first asks a person, by ADK's own tool for that.
"""

import socket
import sys
from collections.abc import AsyncGenerator

import uvicorn
from google.adk.a2a.utils.agent_to_a2a import to_a2a
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.tools import request_input
from google.genai import types


class Scripted(BaseLlm):
    async def generate_content_async(
        self, llm_request: LlmRequest, *_: bool, **__: bool
    ) -> AsyncGenerator[LlmResponse]:
        last = llm_request.contents[-1].parts[-1]
        if last.text is not None and last.text.startswith("ask"):
            asked = {"message": "Which colour?"}
            part = types.Part(function_call=types.FunctionCall(name="adk_request_input", args=asked))
        elif last.function_response is not None:
            part = types.Part(text=f"It is {last.function_response.response}.")
        else:
            part = types.Part(text=f"You said: {last.text}")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


with socket.create_server(("127.0.0.1", 0)) as place:
    port = place.getsockname()[1]
    agent = LlmAgent(name="painter", description="Paints", model=Scripted(model="scripted"), tools=[request_input])
    server = uvicorn.Server(uvicorn.Config(to_a2a(agent, host="127.0.0.1", port=port), log_level="error"))
    sys.stderr.write(f"ready on http://127.0.0.1:{port}\n")
    sys.stderr.flush()
    server.run([place])
