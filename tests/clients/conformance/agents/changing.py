"""Goals that change what the server publishes: an agent comes or goes, and with it a tool, a prompt and a resource."""

from goalport import AgentPlatform, Export, achieves_goal, action, agent

NAME = "Newcomer"


def newcomer() -> object:
    """An agent that is not deployed when the workspace is loaded, as its class is no name of the module."""

    @agent(name=NAME, description="Comes and goes")
    class Welcomer:
        @achieves_goal(description="A welcome", export=Export(remote=True, name="welcome"))
        @action
        async def welcome(self) -> str:
            return "Welcome"

    return Welcomer()


def come_or_go(platform: AgentPlatform) -> str:
    if any(each.name == NAME for each in platform.agents):
        platform.undeploy(NAME)
        return "Gone"
    platform.deploy(newcomer())
    return "Here"


@agent(description="Changes the tools")
class ToolChanger:
    @achieves_goal(description="Changed tools", export=Export(remote=True, name="test_trigger_tool_change"))
    @action
    async def change(self, platform: AgentPlatform) -> str:
        return come_or_go(platform)


@agent(description="Changes the prompts")
class PromptChanger:
    @achieves_goal(description="Changed prompts", export=Export(remote=True, name="test_trigger_prompt_change"))
    @action
    async def change(self, platform: AgentPlatform) -> str:
        return come_or_go(platform)
