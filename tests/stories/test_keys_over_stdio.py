"""Who the client over stdio is: the holder of the key in the environment, or the user of the operating system."""

from pathlib import Path

import pytest

from goalport.base.caller import EVERY_SCOPE
from goalport.errors import SettingsError
from goalport.server.auth import Authentication
from goalport.server.auth.authentication import stdio_grant
from goalport.server.auth.keys import KeyFile, new_key
from goalport.workspace.settings import load_settings
from tests.rooms.serve.served import text_of
from tests.stories.servers import over_stdio

PORTER = """
from goalport import AgentProcess, Export, UserInput, achieves_goal, agent

@agent(description="Says who calls")
class Porter:
    @achieves_goal(description="Who calls", export=Export(remote=True, name="who", read_only=True))
    def who(self, asked: UserInput) -> str:
        caller = AgentProcess.current().caller
        return f"{caller.id} of {caller.issuer}: {' '.join(sorted(caller.scopes))}"

@agent(description="Opens doors")
class Doorman:
    @achieves_goal(description="Open", export=Export(remote=True, name="open_door"))
    def open_door(self, asked: UserInput) -> str:
        return "open"
"""
FILES = {"agents/porters.py": PORTER}


def make_key(root: Path) -> str:
    made = new_key("anna", ("goals:read",), None)
    with KeyFile(load_settings(root).key_file).changing() as entries:
        entries.append(made.entry)
    return made.key.get_secret_value()


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_the_key_of_the_environment_says_who_the_client_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, era: str
) -> None:
    monkeypatch.setenv("GOALPORT_KEY", make_key(tmp_path))
    async with over_stdio(tmp_path, FILES, era) as (client, _):
        said = await client.call_tool("who", {"content": ""})
        listed = {each.name for each in (await client.list_tools()).tools}
        refused = await client.call_tool("open_door", {"content": ""})
    assert said.structured_content == {"result": "anna of goalport:keys: goals:read"}
    assert listed == {"who", "helloBanner", "process_result"}
    assert refused.is_error
    assert text_of(refused).startswith("This needs the scope goals:write, which your credential does not have.")


async def test_a_key_that_is_not_valid_is_refused_without_being_shown(tmp_path: Path) -> None:
    make_key(tmp_path)
    stranger = new_key("anna", ("goals:read",), None).key.get_secret_value()
    with pytest.raises(SettingsError, match="GOALPORT_KEY is set, and cannot be used: The key is not known") as refused:
        await stdio_grant(Authentication.of(load_settings(tmp_path)), stranger)
    assert stranger not in str(refused.value)


async def test_without_a_key_it_is_the_user_of_the_system_who_may_do_everything(tmp_path: Path) -> None:
    make_key(tmp_path)
    caller = (await stdio_grant(Authentication.of(load_settings(tmp_path)), "")).caller
    assert (caller.issuer, caller.scopes, caller.admin) == ("os", {EVERY_SCOPE}, True)
    assert caller.id not in {"", "anonymous"}


async def test_a_key_that_cannot_be_verified_is_not_taken_for_none(tmp_path: Path) -> None:
    key = make_key(tmp_path)
    authentication = Authentication.of(load_settings(tmp_path))
    (tmp_path / ".goalport" / "keys.json").write_text("{}")
    for sent in (key, "gp_x"):
        with pytest.raises(SettingsError, match="GOALPORT_KEY"):
            await stdio_grant(authentication, sent)


async def test_without_authentication_it_is_the_caller_that_everybody_on_this_machine_is(tmp_path: Path) -> None:
    caller = (await stdio_grant(Authentication.of(load_settings(tmp_path)), "gp_whatever")).caller
    assert (caller.id, caller.issuer, caller.has("finance:write"), caller.admin) == ("anonymous", "", True, False)
