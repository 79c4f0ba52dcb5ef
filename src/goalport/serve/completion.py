"""`completion/complete`: the values that an argument can have, for hosts that offer them while a person types."""

from mcp.server.context import HandlerResult
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CompleteRequestParams, CompleteResult, Completion, PromptReference

from goalport.publish.prompts import GoalPrompt
from goalport.serve.serving import Context, Serving

__all__ = ["complete"]

_MOST = 100


async def complete(context: Context, params: CompleteRequestParams) -> HandlerResult:
    """The values that begin with what was typed. Raises -32602 for a prompt or template that there is not."""
    serving, reference = context.lifespan_context, params.ref
    if isinstance(reference, PromptReference):
        values = _of_prompt(serving, reference.name, params.argument.name)
    else:
        values = _of_template(serving, reference.uri, params.argument.name)
    typed = params.argument.value.casefold()
    fitting = [each for each in values if each.casefold().startswith(typed)]
    completion = Completion(values=fitting[:_MOST], total=len(fitting), has_more=len(fitting) > _MOST)
    return CompleteResult(completion=completion)


def _of_prompt(serving: Serving, name: str, argument: str) -> list[str]:
    published = serving.publication.prompts.get(name)
    if published is None:
        raise MCPError(INVALID_PARAMS, f"There is no prompt {name[:100]!r}.")
    return published.options(argument) if isinstance(published, GoalPrompt) else []


def _of_template(serving: Serving, uri: str, argument: str) -> list[str]:
    if uri not in {each.uri_template for each in serving.publication.template_list}:
        raise MCPError(INVALID_PARAMS, f"There is no resource template {uri[:100]!r}.")
    if uri == "goalport://agents/{name}" and argument == "name":
        return [agent.name for agent in serving.platform.agents]
    return []
