from goalport.testing.fakes import (
    FakeEngine as FakeEngine,
    FakeOperationContext as FakeOperationContext,
    SubProcess as SubProcess,
)
from goalport.testing.models import (
    Answers as Answers,
    LlmInvocation as LlmInvocation,
    ScriptedModels as ScriptedModels,
    UnexpectedPrompt as UnexpectedPrompt,
    contains as contains,
    matches as matches,
)
from goalport.testing.platforms import (
    McpClient as McpClient,
    client_of as client_of,
    plan_of as plan_of,
    upstream_of as upstream_of,
)
from goalport.testing.replay import (
    Recording as Recording,
    Replay as Replay,
)
from goalport.testing.scripted import (
    ScriptedModel as ScriptedModel,
    calls_tool as calls_tool,
    streams as streams,
)
