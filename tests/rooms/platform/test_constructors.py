"""Classes that are deployed without an instance: their constructors are given services."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol

import pytest

from goalport import AgentPlatform, Provided, UserInput, achieves_goal, action, agent, component, run_subagent
from goalport.base.errors import DeclarationError, GuardViolation
from goalport.models.llm import Models, UserMessage
from goalport.models.prompts import Templates
from goalport.runtime.ai import Ai, Objection
from goalport.runtime.process import Completed, Failed
from goalport.testing.scripted import ScriptedModel
from goalport.workspace.settings import Settings, load_settings


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


def test_what_is_no_model_and_what_is_no_part_of_a_platform_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Expected models, but came 'gpt-4\.1'\. Names of models belong into"):
        AgentPlatform(models=["gpt-4.1"])  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"Expected models, but came <class '.*ScriptedModel'>"):
        AgentPlatform(models=ScriptedModel)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="unexpected keyword argument 'guard'"):
        AgentPlatform(guard=[])  # pyright: ignore[reportCallIssue]


async def test_guards_settings_and_templates_of_the_platform_hold_for_every_ai(tmp_path: Path) -> None:
    class NoBees:
        async def check_input(self, text: str, /) -> Objection | None:
            return Objection("no bees, please") if "bees" in text else None

        async def check_output(self, text: str, /) -> Objection | None:
            return None

    @agent(description="Writes by a template")
    class Writer:
        @achieves_goal(description="A text")
        async def write(self, user_input: UserInput, ai: Ai) -> Fortune:
            variables = {"topic": user_input.content}
            return Fortune(await ai.with_template("about").generate_text(variables))

    (tmp_path / "about.jinja").write_text("Something about {{ topic }}")
    model = ScriptedModel(["Buzz"])
    platform = AgentPlatform([Writer], models=model, guards=[NoBees()], templates=Templates(tmp_path))

    fine, refused = await platform.run("Writer", UserInput("wasps")), await platform.run("Writer", UserInput("bees"))

    assert fine.outcome == Completed(Fortune("Buzz"))
    assert model.calls[0].messages[-1] == UserMessage("Something about wasps")
    assert isinstance(refused.outcome, Failed)
    assert "no bees, please" in refused.outcome.reason
    with pytest.raises(GuardViolation):
        await platform.ai.generate_text("bees")


async def test_the_models_are_closed_with_the_platform() -> None:
    closed: list[str] = []

    class Connected(Models):
        async def aclose(self) -> None:
            closed.append("models")

    async with AgentPlatform(models=Connected()):
        assert not closed
    assert closed == ["models"]
