"""Settings that a workspace declares: filled from files, profiles and variables, by every command that runs agents."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.rooms.cli.conftest import Command, home, program
from tests.stories.servers import running, workspace
from tests.stories.test_shutdown import text_of

__all__ = ["home", "program"]

NEWS = """
import os
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, Field, SecretStr

from goalport import ActionContext, Export, LlmOptions, Persona, UserInput, achieves_goal, action, agent, settings
from goalport.chat import Conversation, chatbot
from goalport.models import UserMessage

PLACE = os.environ.get("WEATHER_PLACE", "none")

@dataclass
class Source:
    url: str
    token: SecretStr = SecretStr("")

@settings("star_news")
class NewsSettings(BaseModel):
    story_count: int = 5
    feeds: list[str] = []
    key: SecretStr = SecretStr("")
    place: Path = Path("news")
    writer: LlmOptions = LlmOptions(role="best", temperature=0.9)
    personas: list[Persona] = []
    source: Source | None = None
    lines: int = Field(default=3, alias="lineCount")

@dataclass(frozen=True)
class News:
    content: str

@agent(description="Tells the news")
class StarNews:
    def __init__(self, settings: NewsSettings) -> None:
        self.settings = settings

    @achieves_goal(description="The news", export=Export(remote=True, name="news"))
    def tell(self, user_input: UserInput, settings: NewsSettings) -> News:
        assert settings is self.settings
        told = [settings.story_count, settings.feeds, settings.key.get_secret_value(), str(settings.place), PLACE]
        return News(f"{told} {settings.writer.temperature} {[each.name for each in settings.personas]}")

@chatbot(description="Talks about the news")
class Talk:
    @action(trigger=UserMessage, can_rerun=True)
    async def respond(self, conversation: Conversation, settings: NewsSettings, context: ActionContext) -> None:
        await context.send_message(f"{settings.story_count} stories")
"""
SET = """[star_news]
story_count = 7
place = "here"
personas = [{name = "Ada", persona = "a", voice = "b", objective = "c"}]

[star_news.writer]
temperature = 0.2
"""
FILES = {
    "agents/news.py": NEWS,
    "server/settings.toml": SET,
    "server/settings.night.toml": "[star_news]\nstory_count = 9\n",
    ".env": "GOALPORT_STAR_NEWS__FEEDS=a, b\nGOALPORT_STAR_NEWS__KEY=hush\nWEATHER_PLACE=from-file\n",
}
TOLD = "[7, ['a', 'b'], 'hush', 'here', 'from-file'] 0.2 ['Ada']"


async def test_they_are_served(tmp_path: Path) -> None:
    async with running(tmp_path, FILES, star_news__place="there") as server, server.client("http", "auto") as client:
        assert text_of(await client.call_tool("news", {"content": "?"})) == TOLD.replace("here", "there")


def test_they_are_there_in_run_and_in_chat_and_a_profile_is_on_top(
    tmp_path: Path, program: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(workspace(tmp_path / "w", FILES))

    ran = program("run", "news", "--workspace", folder, "--input", '{"content": "?"}')
    assert (ran.out.strip(), ran.code) == (TOLD, 0)
    night = program("run", "news", "-w", folder, "--input", '{"content": "?"}', "--profile", "night")
    assert night.out.startswith("[9, ['a', 'b']")
    assert "7 stories" in program("chat", "-w", folder, "-m", "hello").out
    monkeypatch.setenv("GOALPORT_PROFILE", "night")
    monkeypatch.setenv("WEATHER_PLACE", "mine")
    assert "9 stories" in program("chat", "-w", folder, "-m", "hello").out
    assert "'mine'" in program("run", "news", "-w", folder, "--input", '{"content": "?"}').out


def test_they_are_listed_with_where_they_are_from_and_without_secrets(tmp_path: Path, program: Command) -> None:
    folder = workspace(tmp_path / "w", FILES)

    listed = program("settings", "--set", "--profile=night", "--format", "json", "-w", str(folder))

    found = {each["setting"]: (each["value"], each["source"]) for each in json.loads(listed.out)}
    file = folder / "server/settings.toml"
    assert found == {
        "profile": ("night", "environment variable GOALPORT_PROFILE"),
        "star_news.story_count": (9, f"{folder}/server/settings.night.toml:2"),
        "star_news.feeds": (["a", "b"], f"{folder}/.env, GOALPORT_STAR_NEWS__FEEDS"),
        "star_news.key": ("**********", f"{folder}/.env, GOALPORT_STAR_NEWS__KEY"),
        "star_news.place": ("here", f"{file}:3"),
        "star_news.writer.temperature": (0.2, f"{file}:7"),
        "star_news.personas": (found["star_news.personas"][0], f"{file}:4"),
    }
    everything = program("settings", "-w", str(folder)).out.splitlines()
    assert any(each.startswith("port\t8080\tdefault") for each in everything)


MISTAKES: Mapping[str, tuple[str, str]] = {
    "[star_news]\n\nstory_count = 'many'": (":3: star_news.story_count should be a valid integer", "came 'many'"),
    "[star_news]\nstroy_count = 1": (":2: there is no setting 'stroy_count' in [star_news].", "'story_count'?"),
    "[star_news]\nkey = 7": (":2: star_news.key should be a valid string", "string\n"),
    "[star_news.writer]\ntemperatur = 1": (":2: there is no setting 'temperatur' in [star_news.w", "'temperature'"),
    "port = 1\n[star_newz]\na = 1": (":2: nothing declares the table 'star_newz'.", "Did you mean 'star_news'?"),
    "[star_news.source]\ntokn = 'hush'": (":2: there is no setting 'tokn' in [star_news.source].", "'token'?\n"),
    "[star_news.source]\nurl = ''\ntoken = 7": (":3: star_news.source.token should be a valid string", "string\n"),
    "[star_news]\nsource = 'hush'": (":2: star_news.source should be a dictionary", "Source\n"),
    "name = 'n'\nprot = 1": (":2: there is no setting 'prot'.", "Did you mean 'port'?"),
    "[auht]\nkeys = true": (":1: nothing declares the table 'auht'.", "Did you mean 'auth'?"),
}


@pytest.mark.parametrize("toml", MISTAKES)
def test_a_mistake_in_them_is_told_with_file_and_line_and_nothing_runs(
    tmp_path: Path, program: Command, toml: str
) -> None:
    folder = str(workspace(tmp_path, {**FILES, "server/settings.toml": toml, ".env": ""}))
    begins, ends = MISTAKES[toml]

    for command in ("check", "settings", "serve --port 0", "run hello", "chat -m hello"):
        ran = program(*command.split(" "), "-w", folder)
        assert f"server/settings.toml{begins}" in ran.out + ran.err, command
        assert ends in f"{ran.out}{ran.err}\n", command
        assert ran.code == 1, command


def test_a_variable_that_looks_like_a_misspelt_one_is_warned_of(
    tmp_path: Path, program: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(workspace(tmp_path, {**FILES, ".env": "GOALPORT_STAR_NEWZ__KEY=hush\nGOALPORT_PRT=7"}))
    monkeypatch.setenv("GOALPORT_STARNEWS__STORY_COUNT", "3")

    told = program("check", "-w", folder).err

    for name, meant in (("STAR_NEWZ__KEY", "STAR_NEWS__KEY"), ("STARNEWS__STORY_COUNT", "STAR_NEWS__STORY_COUNT")):
        assert f"variable GOALPORT_{name} is not a setting. Did you mean 'GOALPORT_{meant}'?" in told
    assert ("GOALPORT_PRT is not a setting. Did you mean 'GOALPORT_PORT'?" in told, "hush" in told) == (True, False)


def test_a_field_with_an_alias_is_set_by_its_name_too(
    tmp_path: Path, program: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(workspace(tmp_path, {**FILES, "server/settings.toml": "[star_news]\nlineCount = 4\n"}))

    assert program("check", "-w", folder).code == 0
    monkeypatch.setenv("GOALPORT_STAR_NEWS__LINES", "5")
    workspace(tmp_path, {**FILES, "server/settings.toml": ""})
    assert "star_news.lines\t5" in program("settings", "-w", folder).out


def test_a_profile_without_a_file_names_the_nearest(tmp_path: Path, program: Command) -> None:
    folder = str(workspace(tmp_path, FILES))

    assert "for the profile 'nigth'. Did you mean 'night'?" in program("check", "--profile", "nigth", "-w", folder).err
    assert "There is no file" in program("check", "--profile", "../night", "-w", folder).err
    assert "Expected a name after --profile" in program("check", "-w", folder, "--profile").err
    set_in_file = {**FILES, "server/settings.toml": "profile = 'night'"}
    workspace(tmp_path, set_in_file)
    assert "there is no setting 'profile'" in program("check", "-w", folder).err


def test_a_table_of_a_module_that_does_not_load_is_no_second_mistake(tmp_path: Path, program: Command) -> None:
    folder = str(workspace(tmp_path, {**FILES, "agents/news.py": "this is no Python"}))

    checked = program("check", "-w", folder)

    assert ("SyntaxError" in checked.out, "star_news" in checked.out) == (True, False)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('@settings("models")\nclass A(BaseModel): ...', "'models' is a setting of goalport"),
        ('@settings("Star News")\nclass A(BaseModel): ...', "Expected the name of a table, but got 'Star News'"),
        ('@settings("a")\nclass A: ...', "@settings marks pydantic models"),
        (
            '@settings("a")\nclass A(BaseModel): ...\n\n@settings("a")\nclass B(BaseModel): ...',
            "one.py:7: B has the table 'a', which",
        ),
    ],
)
def test_a_class_that_cannot_be_settings_is_a_problem(tmp_path: Path, program: Command, line: str, told: str) -> None:
    text = f"from pydantic import BaseModel\nfrom goalport import settings\n\n{line}\n"

    assert told in program("check", "-w", str(workspace(tmp_path, {"agents/one.py": text}))).out


ROLES = {
    "server/settings.toml": """[models.llms.best]
model = "house"
temperature = 0.1
max_tokens = 99
fallbacks = ["other"]
"""
}
WRITER = """
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from goalport import Ai, UserInput, achieves_goal, agent
from goalport.errors import ModelUnavailable
from goalport.models import AssistantMessage, ModelCall, ModelCard, ModelReply, TextDelta, ThinkingDelta, TokenUsage

class Other:
    card = ModelCard(name="other", provider="own")

    async def reply(self, call: ModelCall, /) -> ModelReply:
        told = f"{self.card.name} {call.options.temperature} {call.options.max_tokens}"
        if self.card.name == "house":
            raise ModelUnavailable(f"[{told}]")
        return ModelReply(message=AssistantMessage(told), usage=TokenUsage())

    async def stream(self, call: ModelCall, /) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        yield await self.reply(call)

class House(Other):
    card = ModelCard(name="house", provider="own")

other, house = Other(), House()

@dataclass(frozen=True)
class Text:
    content: str

@agent(description="Writes")
class Writer:
    @achieves_goal(description="Write")
    async def write(self, user_input: UserInput, ai: Ai) -> Text:
        return Text(await ai.with_llm(role="best", max_tokens=50).generate_text("Write"))
"""


def test_a_role_is_asked_with_its_options_and_what_a_call_says_counts_more(tmp_path: Path, program: Command) -> None:
    folder = str(workspace(tmp_path / "w", {"agents/writer.py": WRITER, **ROLES}))

    ran = program("run", "hello", "-w", folder)

    assert ran.out.strip() == "other 0.1 50"
    assert "[house 0.1 50]" in ran.err
    assert "house\town\tbest" in program("models", "-w", folder).out


def test_a_mistake_in_a_role_is_told_of_its_table(tmp_path: Path, program: Command) -> None:
    toml = "[models.llms.best]\nmodel = 'gpt-5'\ntemperatur = 1\n\n[models.llms]\nodd = {role = 'best'}"

    told = program("check", "-w", str(workspace(tmp_path, {"server/settings.toml": toml}))).err

    assert (
        "settings.toml:3: there is no setting 'temperatur' in [models.llms.best]. Did you mean 'temperature'?" in told
    )
    assert "settings.toml:6: models.llms.odd.role should not be set" in told
