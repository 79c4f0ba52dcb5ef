"""Where settings come from, which of them wins, and what is said about those that cannot be used."""

import json
import logging
import os
import re
from pathlib import Path
from typing import Any

import pytest

from goalport.base.errors import SettingsError
from goalport.models.llm import ModelsSettings, ProviderSettings
from goalport.runtime.ai import LlmOperations
from goalport.workspace.settings import (
    AuditSettings,
    AuthSettings,
    AutonomySettings,
    DocumentsSettings,
    LimitSettings,
    ProcessSettings,
    RetrySettings,
    Settings,
    environment_of,
    load_settings,
    secrets_of,
)

KEY = "k" * 32
BOOLEAN = "should be a valid boolean, unable to interpret input"
INTEGER = "should be a valid integer, unable to parse string as an integer"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No variable of the machine comes in."""
    for name in [each for each in os.environ if each.startswith("GOALPORT_")]:
        monkeypatch.delenv(name)
    return monkeypatch


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "server").mkdir()
    return tmp_path


def write(workspace: Path, toml: str = "", env: str = "") -> None:
    (workspace / "server" / "settings.toml").write_text(toml, "utf-8")
    (workspace / ".env").write_text(env, "utf-8")


def complaint(workspace: Path, **options: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(workspace, **options)
    assert caught.value.__cause__ is None
    return str(caught.value)


def test_a_workspace_without_any_settings_has_the_defaults(tmp_path: Path) -> None:
    settings = load_settings(tmp_path)

    assert (settings.host, settings.port, settings.name, settings.stateless) == ("127.0.0.1", 8080, "goalport", False)
    assert (settings.workspace, settings.data_dir, settings.roots) == (tmp_path, tmp_path / ".goalport", (tmp_path,))
    assert (settings.max_body_bytes, settings.max_result_bytes) == (4 * 1024 * 1024, 900_000)
    assert (settings.page_size, settings.heartbeat_seconds, settings.max_threads) == (200, 10.0, 40)
    assert (settings.allowed_hosts, settings.allowed_origins, settings.state_keys) == ((), (), ())


@pytest.mark.parametrize(
    ("host", "address", "on_loopback"),
    [
        ("127.0.0.1", "http://127.0.0.1:8080", True),
        ("::1", "http://[::1]:8080", True),
        ("0.0.0.0", "http://127.0.0.1:8080", False),  # noqa: S104 - nothing listens
        ("127.example.com", "http://127.example.com:8080", False),
    ],
)
def test_the_address_of_a_server_follows_from_where_it_listens(
    tmp_path: Path, host: str, address: str, *, on_loopback: bool
) -> None:
    settings = load_settings(tmp_path, host=host)
    assert (settings.address, settings.on_loopback) == (address, on_loopback)


def test_options_go_before_the_environment_before_the_env_file_before_the_settings_file(
    workspace: Path, environment: pytest.MonkeyPatch
) -> None:
    write(
        workspace,
        toml="port = 1\nname = 'toml'\nhost = 'toml'\npage_size = 1",
        env="GOALPORT_PORT=2\nGOALPORT_NAME=dotenv\nGOALPORT_HOST=dotenv",
    )
    environment.setenv("GOALPORT_PORT", "3")
    environment.setenv("GOALPORT_NAME", "environment")

    settings = load_settings(workspace, port=4, page_size=None)

    assert (settings.port, settings.name, settings.host, settings.page_size) == (4, "environment", "dotenv", 1)


def test_empty_variables_are_as_if_they_were_not_there(workspace: Path, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("GOALPORT_PORT", "")

    assert load_settings(workspace).port == 8080


def test_other_variables_in_the_env_file_are_left_alone(workspace: Path) -> None:
    write(workspace, env="GITHUB_TOKEN=x\nPORT=1\nGOALPORT_OTHER=2")

    assert load_settings(workspace).port == 8080


@pytest.mark.parametrize("text", ["a.example, b.example", '["a.example", "b.example"]', "a.example,b.example,"])
def test_a_list_in_a_variable_is_json_or_separated_by_commas(
    workspace: Path, environment: pytest.MonkeyPatch, text: str
) -> None:
    environment.setenv("GOALPORT_ALLOWED_HOSTS", text)

    assert load_settings(workspace).allowed_hosts == ("a.example", "b.example")


def test_a_list_in_the_file_is_a_list_and_one_in_options_any_sequence(workspace: Path) -> None:
    write(workspace, toml='allowed_origins = ["https://a.example"]')

    assert load_settings(workspace).allowed_origins == ("https://a.example",)
    assert load_settings(workspace, allowed_origins=["b", "c"]).allowed_origins == ("b", "c")


def test_paths_are_relative_to_the_workspace(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workspace / "server")
    (workspace / "link").symlink_to(workspace / "server")
    write(workspace, toml="data_dir = 'state'\nroots = ['server', 'link', '/']")

    settings = load_settings(Path(".."))

    assert settings.workspace == workspace
    assert settings.data_dir == workspace / "state"
    assert settings.roots == (workspace / "server", workspace / "server", Path("/"))


def test_the_home_folder_may_be_written_as_a_tilde(workspace: Path, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("HOME", str(workspace))

    assert load_settings(workspace, data_dir="~/state").data_dir == workspace / "state"


def test_sizes_may_be_written_with_a_unit_and_log_levels_in_capitals(workspace: Path) -> None:
    settings = load_settings(workspace, max_body_bytes="2 MiB", log_level="DEBUG")

    assert (settings.max_body_bytes, settings.log_level) == (2 * 1024 * 1024, "debug")


def test_nothing_may_follow_the_unit_of_a_size(workspace: Path) -> None:
    assert (
        "max_body_bytes should be a number of bytes, or a number with a unit such as MiB; came '4 MB iB'"
        in complaint(workspace, max_body_bytes="4 MB iB")
    )


def test_an_unknown_setting_in_the_file_names_the_nearest(workspace: Path) -> None:
    write(workspace, toml="prot = 1\nmax-threads = 2\nnonsense = 3\n[server]\nport = 1")  # a module may declare that

    lines = complaint(workspace).splitlines()

    path = workspace / "server" / "settings.toml"
    assert lines[:2] == [
        f"{path}:1: there is no setting 'prot'. Did you mean 'port'?",
        f"{path}:2: there is no setting 'max-threads'. Did you mean 'max_threads'?",
    ]
    assert lines[2].startswith(f"{path}:3: there is no setting 'nonsense'. Known: a2a, a2a_push_allow, ")
    assert lines[3:] == []


def test_the_workspace_is_no_setting_of_its_own_file(workspace: Path) -> None:
    write(workspace, toml="workspace = '/elsewhere'")

    assert "there is no setting 'workspace'" in complaint(workspace)


def test_an_unknown_option_names_the_nearest(workspace: Path) -> None:
    assert complaint(workspace, prot=1) == "There is no setting 'prot'. Did you mean 'port'?"


def test_a_misspelt_variable_is_warned_about_and_other_programs_variables_are_not(
    workspace: Path, environment: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    environment.setenv("GOALPORT_PROT", "1")
    environment.setenv("GOALPORT_WEATHER_TOKEN", "1")
    environment.setenv("GOALPORT_CLIENTS", "required")

    with caplog.at_level(logging.WARNING):
        load_settings(workspace)

    assert [each.getMessage() for each in caplog.records] == [
        "The environment variable GOALPORT_PROT is not a setting. Did you mean 'GOALPORT_PORT'?"
    ]


def test_a_file_that_is_not_toml_is_reported_with_its_line(workspace: Path) -> None:
    write(workspace, toml="name = 'a'\nport = \n")

    path = workspace / "server" / "settings.toml"
    assert complaint(workspace).startswith(f"{path}: should be TOML in UTF-8, but Invalid value (at line 2")


@pytest.mark.parametrize("name", ["server/settings.toml", ".env"])
def test_a_file_in_another_encoding_is_reported(workspace: Path, name: str) -> None:
    (workspace / name).write_bytes(b"\xff\xfe")

    assert complaint(workspace).startswith(f"{workspace / name}: should be ")
    assert "UTF-8" in complaint(workspace)


def test_a_folder_in_the_place_of_the_file_is_reported(workspace: Path) -> None:
    (workspace / "server" / "settings.toml").mkdir()

    assert "settings.toml: cannot be read (Is a directory)." in complaint(workspace)


def test_values_that_cannot_be_used_get_a_line_each_with_where_they_came_from(
    workspace: Path, environment: pytest.MonkeyPatch
) -> None:
    write(
        workspace, toml="heartbeat_seconds = 0\nmax_sessions = 'many'", env="GOALPORT_NAME=\nGOALPORT_STATELESS=often"
    )
    environment.setenv("GOALPORT_PORT", "70000")

    assert sorted(complaint(workspace, log_level="loud").splitlines()) == sorted(
        [
            f"{workspace}/.env, GOALPORT_STATELESS: stateless {BOOLEAN}; came 'often'",
            f"{workspace}/server/settings.toml:1: heartbeat_seconds should be greater than 0; came 0",
            f"{workspace}/server/settings.toml:2: max_sessions {INTEGER}; came 'many'",
            "environment variable GOALPORT_PORT: port should be less than or equal to 65535; came '70000'",
            "option: log_level should be 'debug', 'info', 'warning', 'error' or 'critical'; came 'loud'",
        ]
    )


@pytest.mark.parametrize("port", [0, 65_535])
def test_ports_at_the_ends_of_the_range_are_fine(workspace: Path, port: int) -> None:
    assert load_settings(workspace, port=port).port == port


@pytest.mark.parametrize("port", [-1, 65_536, "http", 1.5])
def test_other_ports_are_not(workspace: Path, port: object) -> None:
    assert complaint(workspace, port=port).startswith("option: port should be ")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_body_bytes", 0),
        ("max_result_bytes", "big"),
        ("shutdown_seconds", -1),
        ("stall_seconds", float("inf")),
        ("state_ttl_seconds", float("nan")),
        ("page_size", 0),
        ("max_threads", 0),
        ("max_processes", 0),
        ("name", ""),
        ("host", ""),
    ],
)
def test_values_that_make_no_sense_are_refused(workspace: Path, name: str, value: object) -> None:
    assert complaint(workspace, **{name: value}).startswith(f"option: {name} ")


def test_a_root_that_is_not_there_is_refused(workspace: Path) -> None:
    write(workspace, toml="roots = ['server', 'serve']")

    assert f"roots should be folders that exist; {workspace}/serve is not there" in complaint(workspace)


def test_a_list_that_is_broken_json_is_refused(workspace: Path, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("GOALPORT_ROOTS", '["server"')

    assert "roots should be a JSON list or separated by commas" in complaint(workspace)


def test_keys_are_never_shown(workspace: Path, environment: pytest.MonkeyPatch) -> None:
    settings = load_settings(workspace, state_keys=[KEY])

    assert settings.state_keys[0].get_secret_value() == KEY
    assert KEY not in f"{settings!r} {settings} {settings.model_dump_json()}"


@pytest.mark.parametrize("keys", ["hush,hush", '["hush", 3]', '["hush"', json.dumps([KEY, "hush"])])
def test_keys_that_cannot_be_used_are_not_shown_either(
    workspace: Path, environment: pytest.MonkeyPatch, keys: str
) -> None:
    environment.setenv("GOALPORT_STATE_KEYS", keys)

    message = complaint(workspace)

    assert message.startswith("environment variable GOALPORT_STATE_KEYS: state_keys should ")
    assert "hush" not in message


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:hush@db.example.com/goalport",
        "postgresql+asyncpg://ann:hush@[::1]:5432,db/goalport?target_session_attrs=read-write",
        "postgres://db/goalport?user=ann&password=hush",
        "postgresql://",
    ],
)
def test_a_store_may_be_a_database_and_its_password_is_a_secret(workspace: Path, url: str) -> None:
    settings = load_settings(workspace, store=url)
    assert settings.store == url
    assert ("hush" in secrets_of(settings)) == ("hush" in url)


@pytest.mark.parametrize(
    "place",
    [
        "mysql://ann:hush@db/goalport",
        "postgresql://ann:hush/hush@db",
        "postgresql://ann:hush#@db",
        "postgresql://a:hush",
    ],
)
def test_a_store_that_is_none_is_refused_and_not_shown(workspace: Path, place: str) -> None:
    message = complaint(workspace, store=place)
    assert "option: store should be the URL of a PostgreSQL database, postgresql://user:password@host" in message
    assert "hush" not in message
    assert "should be `memory`, `sqlite` or the URL of" in complaint(workspace, store="sqlight")


def test_every_setting_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "settings.md").read_text("utf-8")
    before, header, rest = page.partition("| in `[models.providers.NAME]` |")
    of_a_provider, _, after = rest.partition("\n\n")

    assert header
    shown = re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (`[^|]+) \|", of_a_provider, re.MULTILINE)))
    assert sorted(shown) == sorted(ProviderSettings.model_fields)
    documented = re.findall(r"^\| `([\w.]+)` \|", before + after, re.MULTILINE)
    audit = {"audit": AuditSettings}
    own = {
        "auth": AuthSettings,
        **audit,
        "retry": RetrySettings,
        "autonomy": AutonomySettings,
        "documents": DocumentsSettings,
        "process": ProcessSettings,
    }
    tables = {"models": ModelsSettings, "llm_operations": LlmOperations, "limits": LimitSettings, **own}
    inside = [f"{table}.{name}" for table, kind in tables.items() for name in kind.model_fields]
    assert sorted([*documented, "workspace"]) == sorted([*Settings.model_fields, *inside])


def test_documents_may_be_in_a_database_whose_password_is_a_secret(workspace: Path) -> None:
    write(workspace, toml="[documents]\nstore = 'postgresql://ann:hush@db.example.com/goalport'")
    settings = load_settings(workspace)
    assert settings.documents.store.startswith("postgresql://")
    assert "hush" in secrets_of(settings)


@pytest.mark.parametrize("written", ["ann:hush@db", "postgresql://ann:hush/hush@db"])
def test_a_place_of_documents_that_is_none_is_refused_and_not_shown(
    workspace: Path, environment: pytest.MonkeyPatch, written: str
) -> None:
    environment.setenv("GOALPORT_DOCUMENTS__STORE", written)
    message = complaint(workspace)
    assert message.startswith("environment variable GOALPORT_DOCUMENTS__STORE: documents.store should be ")
    assert "hush" not in message
    environment.delenv("GOALPORT_DOCUMENTS__STORE")
    environment.setenv("GOALPORT_DOCUMENTS", written)
    assert "hush" not in complaint(workspace)


def test_settings_do_not_change(workspace: Path) -> None:
    settings = load_settings(workspace)

    with pytest.raises(ValueError, match="frozen"):
        settings.port = 1


def test_a_table_is_put_together_from_the_file_and_from_variables_with_two_underscores(
    workspace: Path, environment: pytest.MonkeyPatch
) -> None:
    write(
        workspace,
        toml="[models]\ndefault_llm = 'gpt-5'\n[models.llms]\nbest = 'gpt-4.1'\n[llm_operations]\nmax_turns = 7",
        env="GOALPORT_MODELS__PROVIDERS__OPENAI__BASE_URL=https://models.example",
    )
    environment.setenv("GOALPORT_MODELS__LLMS__CHEAPEST", "gpt-4.1-nano")
    environment.setenv("GOALPORT_LLM_OPERATIONS__MAX_TURNS", "8")

    settings = load_settings(workspace)

    assert settings.models.default_llm == "gpt-5"
    assert settings.models.llms == {"best": "gpt-4.1", "cheapest": "gpt-4.1-nano"}
    assert settings.models.providers["openai"].base_url == "https://models.example"
    assert settings.llm_operations.max_turns == 8


def test_a_table_in_a_variable_adds_to_that_of_the_file(workspace: Path, environment: pytest.MonkeyPatch) -> None:
    write(workspace, toml="[auth]\nkeys = true\nscope_prefix = 'agents'", env='GOALPORT_AUTH={"claims": ["tenant"]}')
    environment.setenv("GOALPORT_AUTH", '{"scope_prefix": "acme"}')

    auth = load_settings(workspace).auth

    assert (auth.keys, auth.scope_prefix, auth.claims) == (True, "acme", ("tenant",))


def test_a_table_in_one_variable_is_json(workspace: Path, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("GOALPORT_MODELS", '{"default_llm": "gpt-5"}')
    assert load_settings(workspace).models.default_llm == "gpt-5"

    environment.setenv("GOALPORT_MODELS", "gpt-5")
    assert complaint(workspace).startswith("environment variable GOALPORT_MODELS: models should be a JSON object")


def test_an_unknown_setting_of_a_table_names_the_nearest_of_that_table(
    workspace: Path, environment: pytest.MonkeyPatch
) -> None:
    write(workspace, toml="[models]\ndefault_lm = 'x'\n[[models.custom]]\nname = 'x'\nbase-url = 'y'")
    environment.setenv("GOALPORT_LLM_OPERATIONS__MAX_TURN", "3")
    environment.setenv("GOALPORT_MODELS__PROVIDERS__OPENAI__API_KEYS", "sk-hush")

    lines = complaint(workspace).splitlines()

    path, variable = workspace / "server" / "settings.toml", "environment variable GOALPORT"
    assert [each.partition(": ")[::2] for each in sorted(lines)] == [
        (f"{path}:2", "there is no setting 'default_lm' in [models]. Did you mean 'default_llm'?"),
        (f"{path}:3", "there is no setting 'base-url' in [models.custom.0]. Did you mean 'base_url'?"),
        (
            f"{variable}_LLM_OPERATIONS__MAX_TURN",
            "there is no setting 'max_turn' in [llm_operations]. Did you mean 'max_turns'?",
        ),
        (
            f"{variable}_MODELS__PROVIDERS__OPENAI__API_KEYS",
            "there is no setting 'api_keys' in [models.providers.openai]. Did you mean 'api_key'?",
        ),
    ]


def test_a_misspelt_table_in_a_variable_is_warned_about(
    workspace: Path, environment: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    environment.setenv("GOALPORT_MODEL__DEFAULT_LLM", "gpt-5")

    with caplog.at_level(logging.WARNING):
        load_settings(workspace)

    (warned,) = caplog.records
    assert warned.getMessage().startswith("The environment variable GOALPORT_MODEL__DEFAULT_LLM is not a setting.")
    assert warned.getMessage().endswith("Did you mean 'GOALPORT_MODELS__DEFAULT_LLM'?")


@pytest.mark.parametrize(
    "toml",
    [
        "[models.providers]\nopenai = 'sk-hush'",
        "[models]\ncustom = 'sk-hush'",
        "models = 'sk-hush'",
        "[[models.custom]]\nname = ''\napi_key = 'sk-hush'",
        "[models.providers.openai]\nmax_attempts = 0\napi_key = 'sk-hush'",
        "[[auth.key_entries]]\nid = 'sk-hush'\nname = 'sk hush'",
    ],
)
def test_keys_in_the_file_are_never_shown(workspace: Path, toml: str) -> None:
    write(workspace, toml=toml)
    assert "sk-hush" not in complaint(workspace)

    write(workspace, toml="[models.providers.openai]\napi_key = 'sk-hush'")
    settings = load_settings(workspace)
    assert "sk-hush" not in f"{settings!r} {settings} {settings.model_dump_json()}"


def test_what_is_wrong_with_a_single_setting_of_a_provider_is_shown(workspace: Path) -> None:
    write(workspace, toml="[models.providers.openai]\nmax_attempts = 0")

    assert complaint(workspace).endswith(
        "models.providers.openai.max_attempts should be greater than or equal to 1; came 0"
    )


def test_keys_in_the_env_file_are_read_and_not_exported(workspace: Path, environment: pytest.MonkeyPatch) -> None:
    write(workspace, env="OPENAI_API_KEY=from-file\nMISTRAL_API_KEY=from-file\nDEEPSEEK_API_KEY=")
    environment.delenv("MISTRAL_API_KEY", raising=False)
    environment.setenv("OPENAI_API_KEY", "from-environment")

    found = environment_of(workspace)

    assert (found["OPENAI_API_KEY"], found["MISTRAL_API_KEY"]) == ("from-environment", "from-file")
    assert "MISTRAL_API_KEY" not in os.environ
    assert "DEEPSEEK_API_KEY" not in found
