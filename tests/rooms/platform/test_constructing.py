"""Classes that are deployed without an instance: their constructors are given services."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol

import pytest

from goalport import AgentPlatform, Provided, UserInput, achieves_goal, action, agent, component, run_subagent
from goalport.ai import Ai
from goalport.errors import DeclarationError
from goalport.llm import Models
from goalport.process import Completed
from goalport.settings import Settings, load_settings
from goalport.testing.scripted import ScriptedModel


class Stars:
    """A service of a test."""

    sign = "Scorpio"


class Unseen(Protocol):
    """A protocol whose instances cannot be told."""

    def look(self) -> str: ...


@dataclass(frozen=True)
class Fortune:
    text: str


@agent(description="Tells fortunes")
class Teller:
    def __init__(self, ai: Ai, stars: Stars, settings: Settings | None = None, count: int = 3) -> None:
        self.ai = ai
        self.stars = stars
        self.settings = settings
        self.count = count

    @achieves_goal(description="A fortune")
    async def tell(self, user_input: UserInput, me: Annotated["Teller", Provided]) -> Fortune:
        assert me is self
        settled = self.settings.name if self.settings else "no settings"
        return Fortune(f"{await self.ai.generate_text('Tell')} {self.stars.sign} {settled} {self.count}")


async def test_a_constructor_is_given_the_services_that_it_asks_for(tmp_path: Path) -> None:
    services = [Stars(), load_settings(tmp_path)]
    platform = AgentPlatform([Teller], services=services, models=ScriptedModel(["Luck for"]))

    process = await platform.run("Teller", UserInput(""))

    assert process.outcome == Completed(Fortune("Luck for Scorpio goalport 3"))


async def test_what_has_a_default_may_be_missing() -> None:
    platform = AgentPlatform([Teller], services=[Stars()], models=ScriptedModel(["Luck for"]))

    process = await platform.run("Teller", UserInput(""))

    assert process.outcome == Completed(Fortune("Luck for Scorpio no settings 3"))


async def test_data_classes_and_components_are_constructed_too() -> None:
    @component
    @dataclass
    class Lender:
        ai: Ai

        @action
        async def think(self, user_input: UserInput) -> Fortune:
            return Fortune(await self.ai.generate_text("Think"))

    @dataclass(frozen=True)
    class Framed:
        fortune: Fortune

    @agent(description="Frames")
    class Framer:
        @achieves_goal(description="Framed")
        async def frame(self, fortune: Fortune) -> Framed:
            return Framed(fortune)

    platform = AgentPlatform([Framer, Lender], models=ScriptedModel(["Luck"]))

    assert (await platform.run("Framer", UserInput(""))).outcome == Completed(Framed(Fortune("Luck")))


async def test_an_agent_class_that_another_agent_starts_is_constructed_as_well() -> None:
    @agent(description="Asks the teller")
    class Asker:
        @achieves_goal(description="A fortune")
        async def ask(self, user_input: UserInput) -> Fortune:
            return await run_subagent(Teller, Fortune)

    platform = AgentPlatform([Asker], services=[Stars()], models=ScriptedModel(["Luck for"]))

    assert (await platform.run("Asker", UserInput(""))).outcome == Completed(Fortune("Luck for Scorpio no settings 3"))


@pytest.mark.parametrize("wanted", [Stars, int, str, Unseen, None, "Nowhere"])
def test_a_constructor_that_asks_for_something_else_is_a_clear_error(wanted: object) -> None:
    class Hermit:
        def __init__(self, ai: Ai, thing: object) -> None: ...

        @achieves_goal(description="Nothing")
        async def rest(self, user_input: UserInput) -> Fortune:
            return Fortune("")

    Hermit.__init__.__annotations__["thing"] = wanted

    with pytest.raises(DeclarationError, match=r"can be constructed without arguments.*missing.*Deploy an instance"):
        AgentPlatform([agent(description="Rests")(Hermit)])


def test_the_platforms_models_are_a_service() -> None:
    model = ScriptedModel()
    platform = AgentPlatform(models=model)

    assert platform.service(Ai) is platform.ai
    assert isinstance(platform.service(Models), Models)
    assert platform.models.default == "scripted"
    assert AgentPlatform(models=[model, ScriptedModel()]).models.default == "scripted"
    assert AgentPlatform(models=platform.models).models is platform.models
