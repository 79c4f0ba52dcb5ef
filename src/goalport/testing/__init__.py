"""Help for the tests of people who write agents. It stands beside the floors: it may use all, and none uses it.

The pytest plugin with the fixtures `agent_platform`, `mcp_client` and `scripted_models` is loaded by itself; see
`docs/testing.md`.
"""

from goalport.testing.clients import McpClient, client_of
from goalport.testing.context import FakeOperationContext, SubProcess
from goalport.testing.fakes import FakeEngine
from goalport.testing.invocations import LlmInvocation
from goalport.testing.models import ScriptedModels
from goalport.testing.plans import plan_of
from goalport.testing.prompts import contains, matches
from goalport.testing.rules import Answers, UnexpectedPrompt
from goalport.testing.scripted import ScriptedModel, calls_tool, streams

__all__ = [
    "Answers",
    "FakeEngine",
    "FakeOperationContext",
    "LlmInvocation",
    "McpClient",
    "ScriptedModel",
    "ScriptedModels",
    "SubProcess",
    "UnexpectedPrompt",
    "calls_tool",
    "client_of",
    "contains",
    "matches",
    "plan_of",
    "streams",
]
