from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel, Field

from goalport import Export, UserInput, achieves_goal, action, agent, component
from goalport.tools import ToolGroupRequirement
from tests.rooms.serve.served import published, served, state_of, text_of, tool_of


class Person(BaseModel):
    name: str


class Poem(BaseModel):
    content: str


class Song(BaseModel):
    content: str


@dataclass(frozen=True)
class Mood:
    tone: Literal["glad", "sad"]


@agent(description="Writes poems")
class PoemWriter:
    @action
    async def read_person(self, said: UserInput) -> Person:
        return Person(name=said.content)

    @achieves_goal(
        description="A poem for somebody",
        export=Export(
            remote=True,
            title="Write a poem",
            starting_input_types=[Person, UserInput],
            read_only=True,
            open_world=False,
        ),
    )
    @action
    async def write_poem(self, person: Person) -> Poem:
        return Poem(content=f"O {person.name}")


def test_a_goal_without_a_name_is_called_after_its_agent_and_method(tmp_path: Path) -> None:
    assert "poem_writer_write_poem" in published(tmp_path, PoemWriter()).tools


def test_each_further_start_type_is_a_tool_that_says_so_in_its_name(tmp_path: Path) -> None:
    tools = published(tmp_path, PoemWriter()).tools
    assert [name for name in tools if name not in {"helloBanner", "process_result"}] == [
        "poem_writer_write_poem",
        "poem_writer_write_poem_from_user_input",
    ]


def test_the_first_start_type_is_the_schema_of_the_bare_name(tmp_path: Path) -> None:
    publication = published(tmp_path, PoemWriter())
    assert tool_of(publication, "poem_writer_write_poem").input_schema["required"] == ["name"]
    said = tool_of(publication, "poem_writer_write_poem_from_user_input").input_schema
    assert list(said["properties"]) == ["content"]


def test_title_description_and_hints_are_passed_on(tmp_path: Path) -> None:
    tool = tool_of(published(tmp_path, PoemWriter()), "poem_writer_write_poem")
    assert tool.title == "Write a poem"
    assert tool.description == "From Person: A poem for somebody"
    assert tool.annotations is not None
    hints = (tool.annotations.read_only_hint, tool.annotations.open_world_hint, tool.annotations.destructive_hint)
    assert hints == (True, False, None)


async def test_a_server_that_uses_no_other_servers_publishes_once(tmp_path: Path) -> None:
    state = state_of(tmp_path, PoemWriter())
    publication = state.publication
    async with state.platform, state.publisher.connected():
        assert state.publication is publication


async def test_agents_that_are_deployed_before_a_server_starts_are_published_at_its_start(tmp_path: Path) -> None:
    state = state_of(tmp_path, PoemWriter())
    state.platform.deploy(Singer())
    async with state.platform, state.publisher.connected():
        assert "sing" in state.publication.tools


@agent(description="Sings")
class Singer:
    @achieves_goal(description="A song", export=Export(remote=True, name="sing"))
    @action
    async def sing(self, person: Person, mood: Mood) -> Song:
        return Song(content=f"{person.name} {mood.tone}")


def test_types_that_no_action_makes_become_one_property_each(tmp_path: Path) -> None:
    schema = tool_of(published(tmp_path, Singer()), "sing").input_schema
    assert schema["required"] == ["person", "mood"]
    assert schema["properties"]["mood"]["properties"]["tone"]["enum"] == ["glad", "sad"]


def test_a_goal_with_derived_start_types_has_one_prompt_of_its_name(tmp_path: Path) -> None:
    assert list(published(tmp_path, Singer()).prompts) == ["sing"]


def test_a_goal_with_declared_start_types_has_a_prompt_for_each(tmp_path: Path) -> None:
    assert list(published(tmp_path, PoemWriter()).prompts) == [
        "poem_writer_write_poem",
        "poem_writer_write_poem_from_user_input",
    ]


@agent(description="Speaks without being asked")
class Speaker:
    @achieves_goal(description="A poem of its own", export=Export(remote=True, name="speak"))
    @action
    async def speak(self) -> Poem:
        return Poem(content="I")

    @achieves_goal(description="Only for agents here", export=Export())
    @action
    async def mumble(self) -> Song:
        return Song(content="hm")


def test_a_goal_that_needs_nothing_takes_an_empty_object(tmp_path: Path) -> None:
    schema = tool_of(published(tmp_path, Speaker()), "speak").input_schema
    assert schema["type"] == "object"
    assert not schema.get("properties")
    assert "required" not in schema


def test_a_goal_that_is_not_remote_is_not_published_and_the_reason_is_told(tmp_path: Path) -> None:
    publication = published(tmp_path, Speaker())
    assert "speaker_mumble" not in publication.tools
    assert [(each.goal.name, "remote" in each.reason) for each in publication.refusals] == [("Speaker.mumble", True)]


@agent(description="Works with text")
class Texter:
    @achieves_goal(description="Count", export=Export(remote=True, name="count", starting_input_types=[list[str]]))
    @action
    async def count(self, lines: list[str]) -> Song:
        return Song(content=str(len(lines)))


def test_a_start_type_that_is_no_object_is_wrapped_in_a_property_named_after_it(tmp_path: Path) -> None:
    schema = tool_of(published(tmp_path, Texter()), "count").input_schema
    assert schema["required"] == ["list_str"]
    assert schema["properties"]["list_str"]["type"] == "array"


@agent(description="Two ways to a verse")
class TwoWays:
    @achieves_goal(description="A verse", export=Export(remote=True, name="verse", starting_input_types=[Person]))
    @action
    async def of_person(self, person: Person) -> Poem:
        return Poem(content=person.name)

    @achieves_goal(description="A verse", export=Export(remote=True, name="verse", starting_input_types=[Person, Mood]))
    @action
    async def of_mood(self, person: Person | None, mood: Mood | None) -> Poem:
        return Poem(content="m")


def test_goals_of_one_agent_with_one_name_and_output_are_one_tool(tmp_path: Path) -> None:
    publication = published(tmp_path, TwoWays())
    assert not publication.problems
    names = [name for name in publication.tools if name not in {"helloBanner", "process_result"}]
    assert names == ["verse", "verse_from_mood"]
    assert getattr(publication.tools["verse"], "goals", ()) == ("TwoWays.of_person", "TwoWays.of_mood")


def test_two_tools_of_one_goal_say_first_what_tells_them_apart(tmp_path: Path) -> None:
    publication = published(tmp_path, TwoWays(), Singer())
    told = [tool_of(publication, name).description for name in ("verse", "verse_from_mood", "sing")]
    assert told == ["From Person: A verse", "From Mood: A verse", "A song"]
    prompts = [each.prompt.description for each in publication.prompts.values()]
    assert {"From Person: A verse", "From Mood: A verse"} <= set(prompts)


@agent(description="Claims a name that is taken")
class OtherSinger:
    @achieves_goal(description="Another song", export=Export(remote=True, name="sing"))
    @action
    async def hum(self, person: Person) -> Song:
        return Song(content=person.name)


def test_two_goals_with_one_name_are_both_left_out_and_named_while_the_rest_is_served(tmp_path: Path) -> None:
    publication = published(tmp_path, Singer(), OtherSinger(), Speaker())
    assert "sing" not in publication.tools
    assert "speak" in publication.tools
    problem = next(each for each in publication.problems if "'sing'" in each)
    assert "Singer.sing of agent Singer" in problem
    assert "OtherSinger.hum of agent OtherSinger" in problem


@agent(description="One name, two outputs")
class TwoOutputs:
    @achieves_goal(description="A poem", export=Export(remote=True, name="work"))
    @action
    async def poem(self, person: Person) -> Poem:
        return Poem(content=person.name)

    @achieves_goal(description="A song", export=Export(remote=True, name="work"))
    @action
    async def song(self, person: Person) -> Song:
        return Song(content=person.name)


def test_one_name_for_two_outputs_of_one_agent_is_a_clash(tmp_path: Path) -> None:
    publication = published(tmp_path, TwoOutputs())
    assert "work" not in publication.tools
    assert "TwoOutputs.poem" in publication.problems[0]
    assert "TwoOutputs.song" in publication.problems[0]


LONG_NAME = "a_name_that_goes_on_and_on_until_no_host_will_show_it_any_more_at_all"


def goal_called(name: str) -> object:
    @agent(name="Called", description="Has a chosen name")
    class Called:
        @achieves_goal(description="A poem", export=Export(remote=True, name=name))
        @action
        async def write(self, person: Person) -> Poem:
            return Poem(content=person.name)

    return Called()


@pytest.mark.parametrize(("name", "fault"), [(LONG_NAME, "64"), ("write poem", "' '"), ("poème", "è")])
def test_a_name_that_clients_refuse_is_a_problem_and_is_not_published(tmp_path: Path, name: str, fault: str) -> None:
    publication = published(tmp_path, goal_called(name))
    assert name not in publication.tools
    assert fault in publication.problems[0]


def test_a_name_that_some_hosts_drop_is_published_with_a_warning(tmp_path: Path) -> None:
    name = LONG_NAME[:50]
    publication = published(tmp_path, goal_called(name))
    assert name in publication.tools
    assert any(name in each and "Cursor" in each for each in publication.warnings)


@agent(description="Needs what nobody gives")
class Wisher:
    @action
    async def make_song(self, poem: Poem) -> Song:
        return Song(content=poem.content)

    @achieves_goal(
        description="A song from a mood", export=Export(remote=True, name="wish", starting_input_types=[Mood])
    )
    @action
    async def wish(self, song: Song) -> Person:
        return Person(name=song.content)


def test_a_goal_that_cannot_be_reached_is_not_published_and_the_reason_is_told(tmp_path: Path) -> None:
    publication = published(tmp_path, Wisher())
    assert "wish" not in publication.tools
    assert "cannot be reached" in publication.refusals[0].reason
    assert "Poem" in publication.refusals[0].reason


@agent(description="Needs tools")
class Craftsman:
    @achieves_goal(description="A song made with tools", export=Export(remote=True, name="craft"))
    @action(tool_group_requirements=[ToolGroupRequirement("workshop")])
    async def craft(self, mood: Mood) -> Song:
        return Song(content=mood.tone)


async def test_a_goal_that_only_lacks_a_tool_group_is_published_and_its_callers_are_told(tmp_path: Path) -> None:
    publication = published(tmp_path, Craftsman())
    assert publication.refusals == ()
    (warning,) = (each for each in publication.warnings if "workshop" in each)
    assert warning.startswith("Craftsman.craft cannot run. No tool group plays the role 'workshop'.")
    assert warning.endswith("and toolGroups in mcp_config.json.")
    async with served(tmp_path, Craftsman()) as server, server.client() as client:
        result = await client.call_tool("craft", {"tone": "sad"})
    assert result.is_error
    assert text_of(result) == (
        "craft cannot be reached on this server. The goal Craftsman.craft cannot be reached: it needs the tool group "
        "workshop, but there is none: put such a ToolGroup into tools/. Tell whoever runs it."
    )


@component
class PoemSource:
    @action
    async def recall(self, mood: Mood) -> Poem:
        return Poem(content=mood.tone)


def test_a_component_can_make_a_goal_reachable(tmp_path: Path) -> None:
    assert "wish" in published(tmp_path, Wisher(), PoemSource()).tools


class Unreadable:
    def __init__(self, handle: object) -> None:
        self.handle = handle


@agent(description="Starts from what no client can send")
class Handler:
    @achieves_goal(description="A poem", export=Export(remote=True, name="handle"))
    @action
    async def handle(self, thing: Unreadable) -> Poem:
        return Poem(content="x")


def test_a_start_type_that_cannot_be_read_from_json_is_a_problem_that_names_the_goal(tmp_path: Path) -> None:
    publication = published(tmp_path, Handler())
    assert "handle" not in publication.tools
    assert "Handler.handle" in publication.problems[0]
    assert "JSON" in publication.problems[0]


EXPORTS = """
from goalport import McpToolExport, ToolObject, tool
from goalport.tools import prefixed

class Calculator:
    @tool
    def add(self, a: float, b: float) -> float:
        '''Add two numbers.'''
        return a + b

    @tool
    def internal_reset(self) -> str:
        '''Not for everybody.'''
        return "done"

@tool(export=True)
def shout(text: str) -> str:
    '''Say it loud.'''
    return text.upper()

@tool
def whisper(text: str) -> str:
    '''Say it low.'''
    return text.lower()

exports = McpToolExport.from_tool_object(
    ToolObject(Calculator(), naming=prefixed("calc_"), filter=lambda name: not name.startswith("internal"))
)
"""


def test_exported_functions_and_tool_objects_are_published_under_their_naming(tmp_path: Path) -> None:
    tools = published(tmp_path, files={"tools/maths.py": EXPORTS}).tools
    assert set(tools) == {"helloBanner", "calc_add", "shout"}


def test_the_banner_can_be_left_out(tmp_path: Path) -> None:
    state = state_of(tmp_path, files={"tools/maths.py": EXPORTS}, hello_banner=False)
    assert set(state.publication.tools) == {"calc_add", "shout"}


def test_lists_are_in_one_order_whatever_the_order_of_declaration(tmp_path: Path) -> None:
    first = published(tmp_path, Singer(), PoemWriter()).tool_list
    second = published(tmp_path, PoemWriter(), Singer()).tool_list
    assert [each.name for each in first] == [each.name for each in second]


@agent(description="Looks things up")
class Seeker:
    @achieves_goal(description="A poem", export=Export(remote=True, name="seek"))
    @action(tool_groups=["web"])
    async def seek(self, person: Person) -> Poem:
        return Poem(content=person.name)


def test_an_action_whose_tool_group_nobody_plays_is_warned_about(tmp_path: Path) -> None:
    publication = published(tmp_path, Seeker())
    assert "seek" in publication.tools
    assert any("Seeker.seek" in each and "'web'" in each for each in publication.warnings)


class Undescribed(BaseModel):
    value: int = Field(description="A number")


@agent(description="Is silent about its goal")
class Silent:
    @achieves_goal(description="", export=Export(remote=True, name="quiet"))
    @action
    async def quiet(self, given: Undescribed) -> Poem:
        return Poem(content="x")


def test_a_tool_without_a_description_is_warned_about(tmp_path: Path) -> None:
    assert any("quiet" in each and "description" in each for each in published(tmp_path, Silent()).warnings)
