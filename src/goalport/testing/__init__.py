"""Help for the tests of people who write agents. It stands beside the floors: it may use all, and none uses it.

The pytest plugin with the fixtures `agent_platform` and `mcp_client` is loaded by itself; see `docs/testing.md`.
"""

from goalport.testing.clients import McpClient, client_of
from goalport.testing.plans import plan_of
from goalport.testing.scripted import ScriptedModel, calls_tool

__all__ = ["McpClient", "ScriptedModel", "calls_tool", "client_of", "plan_of"]
