from goalport.testing.clients import (
    McpClient as McpClient,
    client_of as client_of,
)
from goalport.testing.context import (
    FakeOperationContext as FakeOperationContext,
    SubProcess as SubProcess,
)
from goalport.testing.fakes import FakeEngine as FakeEngine
from goalport.testing.invocations import LlmInvocation as LlmInvocation
from goalport.testing.models import ScriptedModels as ScriptedModels
from goalport.testing.plans import plan_of as plan_of
from goalport.testing.prompts import (
    contains as contains,
    matches as matches,
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
