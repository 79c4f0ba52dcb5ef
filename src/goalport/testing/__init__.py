"""Helpers for testing agents. The package is on no floor: it may import every other package, and none imports it.

A name is loaded when it is first used, as in the root of the package, because every run of pytest imports this module
wherever goalport is installed.

The pytest plugin with the fixtures `agent_platform`, `mcp_client` and `scripted_models` is loaded automatically; see
`docs/testing.md`.
"""

# pyright: reportUnsupportedDunderAll=false
# The names are in __init__.pyi, which pyright does not read for the file beside it.

from goalport.base.lazy import lazy_exports

__all__ = [
    "Answers",
    "FakeEngine",
    "FakeOperationContext",
    "LlmInvocation",
    "McpClient",
    "Recording",
    "Replay",
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
    "upstream_of",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "platforms": ["McpClient", "client_of", "plan_of", "upstream_of"],
        "fakes": ["FakeEngine", "FakeOperationContext", "SubProcess"],
        "models": ["Answers", "LlmInvocation", "ScriptedModels", "UnexpectedPrompt", "contains", "matches"],
        "replay": ["Recording", "Replay"],
        "scripted": ["ScriptedModel", "calls_tool", "streams"],
    },
)
