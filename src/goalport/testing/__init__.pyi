from goalport.testing.fakes import (
    FakeEngine as FakeEngine,
    FakeOperationContext as FakeOperationContext,
    SubProcess as SubProcess,
)
from goalport.testing.invocations import (
    LlmInvocation as LlmInvocation,
    contains as contains,
    matches as matches,
)
from goalport.testing.models import ScriptedModels as ScriptedModels
from goalport.testing.platforms import (
    McpClient as McpClient,
    client_of as client_of,
    plan_of as plan_of,
)
from goalport.testing.replay import (
    Recording as Recording,
    Replay as Replay,
)
from goalport.testing.rules import (
    Answers as Answers,
    UnexpectedPrompt as UnexpectedPrompt,
)
from goalport.testing.scripted import (
    ScriptedModel as ScriptedModel,
    calls_tool as calls_tool,
    streams as streams,
)
from goalport.testing.upstream import upstream_of as upstream_of
