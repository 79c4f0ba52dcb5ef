"""What a server says of its models before anybody asks one: which goals need one, and whether it is ready.

No model is asked and no library of a provider is loaded. Above: the publishing report and `goalport check`.
"""

from collections.abc import Iterator

from goalport.domain import Agent
from goalport.platform import AgentPlatform, asks_a_model
from goalport.publish.texts import counted

__all__ = ["models_in_words"]


def models_in_words(platform: AgentPlatform) -> Iterator[str]:
    """A line on the default model where some action asks one; what is not ready comes with what to set."""
    asking = {each.name: _asking(each) for each in (*platform.agents, *platform.agents.components)}
    number = sum(asking.values())
    if not number:
        return
    name, why = platform.models.default, platform.models.unready(platform.models.default)
    if not why:
        yield f"model {name}: ready, for {counted(number, 'action')}"
        return
    names = ", ".join(agent for agent, count in asking.items() if count)
    yield f"model {name}: not ready. {why} Until then, actions of {names} that ask it fail; all others are served."


def _asking(agent: Agent) -> int:
    return sum(map(asks_a_model, agent.actions))
