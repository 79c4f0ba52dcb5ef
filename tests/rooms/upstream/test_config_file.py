"""Reading `mcp_config.json`: the shapes of every host, and what is said of what is wrong."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from goalport.tools import NAMING_STYLES, Permission
from goalport.tools.upstream import GroupConfig, McpConfig, ServerConfig
from goalport.tools.upstream.config import read_config

ENVIRONMENT = {"TOKEN": "sesame-open", "EMPTY": "", "HOME": "/home/ada"}


def read(folder: Path, text: str, environment: Mapping[str, str] = ENVIRONMENT) -> McpConfig:
    path = folder / "mcp_config.json"
    path.write_text(text)
    return read_config(path, environment)


def entry(folder: Path, **settings: object) -> ServerConfig:
    config = read(folder, json.dumps({"mcpServers": {"it": settings}}))
    assert config.problems == ()
    return config.servers["it"]


def said(config: McpConfig) -> list[str]:
    """The problems without the folder."""
    return [str(each).replace(str(each.path), "mcp_config.json") for each in config.problems]


def wrong(folder: Path, **settings: object) -> list[str]:
    return [str(each.message) for each in read(folder, json.dumps({"mcpServers": {"it": settings}})).problems]


@pytest.mark.parametrize(
    ("settings", "transport"),
    [
        ({"url": "https://it.example/mcp"}, "http"),
        ({"url": "https://it.example/sse"}, "sse"),
        ({"url": "https://it.example/sse/?of=mcp"}, "sse"),
        ({"serverUrl": "https://it.example/mcp"}, "http"),
        ({"httpUrl": "https://it.example/sse"}, "http"),
        ({"url": "https://it.example/sse", "type": "http"}, "http"),
        ({"url": "https://it.example", "type": "streamable-http"}, "http"),
        ({"url": "https://it.example", "transport": "streamable_http"}, "http"),
        ({"url": "https://it.example", "type": "streamableHttp"}, "http"),
        ({"url": "https://it.example", "type": "sse"}, "sse"),
        ({"command": "it", "url": "https://it.example", "type": "stdio"}, "stdio"),
    ],
)
def test_how_a_server_is_reached_is_said_or_seen(tmp_path: Path, settings: Any, transport: str) -> None:
    assert entry(tmp_path, **settings).transport == transport


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (30, 30.0),
        (0.5, 0.5),
        (999, 999.0),
        (1000, 1.0),
        (30000, 30.0),
        ("30", 30.0),
        ("30s", 30.0),
        ("500 ms", 0.5),
        ("2m", 120.0),
        ("1h", 3600.0),
        ("30000", 30.0),
    ],
)
def test_a_time_is_in_seconds_or_when_it_is_large_in_milliseconds(
    tmp_path: Path, written: object, seconds: float
) -> None:
    server = entry(tmp_path, command="it", timeout=written, connectionTimeout=written)

    assert (server.timeout, server.connect_timeout) == (seconds, seconds)


@pytest.mark.parametrize("written", [0, -1, True, "soon", "", [], 1e999])
def test_a_time_that_is_none_is_told_and_the_default_holds(tmp_path: Path, written: object) -> None:
    config = read(tmp_path, json.dumps({"mcpServers": {"it": {"command": "it", "timeout": written}}}))

    assert [each.message for each in config.problems] == [
        "timeout should be a number of seconds above 0, or a text such as '30s' or '500ms'."
    ]
    assert config.servers["it"].timeout == 60.0


def test_how_long_messages_and_the_end_of_a_server_may_be_is_read(tmp_path: Path) -> None:
    found = entry(tmp_path, command="it", maxMessageBytes=1_000_000, shutdownTimeout="500ms")
    assert (found.max_message_bytes, found.shutdown_timeout) == (1_000_000, 0.5)


def test_everything_that_an_entry_may_say_is_read(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".env").write_text('A="from the file"\nC=see\n')
    local = entry(
        tmp_path,
        command="it",
        args=["-p", 80],
        env={"A": "b", "N": 1, "YES": True, "NONE": None},
        envFile="${workspaceFolder}/.env",
        cwd="sub",
        concurrency=3,
        required=True,
        sampling=True,
        pin=True,
        disabledTools=["rm*"],
        enabled_tools=["ls"],
    )
    remote = entry(
        tmp_path,
        url="https://it.example",
        headers={"X-Key": "${TOKEN}"},
        auth="Bearer ${TOKEN}",
        oauth={"clientId": "me", "client_secret": "${TOKEN}", "scopes": ["a", "b"], "callbackPort": 8123},
    )

    assert (local.args, local.env) == (("-p", "80"), {"A": "b", "C": "see", "N": "1", "YES": "true"})
    assert (local.cwd, local.concurrency) == (tmp_path / "sub", 3)
    assert (local.required, local.sampling, local.pin) == (True, True, True)
    assert (local.enabled_tools, local.disabled_tools) == (("ls",), ("rm*",))
    assert remote.headers == {"Authorization": "Bearer sesame-open", "X-Key": "sesame-open"}
    assert remote.oauth is not None
    assert (remote.oauth.client_id, remote.oauth.client_secret) == ("me", "sesame-open")
    assert (remote.oauth.scope, remote.oauth.redirect_port) == ("a b", 8123)
    assert remote.secrets
    assert set(remote.secrets) == {"sesame-open"}
    assert "sesame" not in repr(remote)
    assert entry(tmp_path, url="https://it.example", auth="oauth").oauth is not None
    assert entry(tmp_path, url="https://it.example", oauth={"redirectPort": 0}).oauth is not None
    assert entry(tmp_path, url="https://it.example").oauth is None


def test_how_tokens_are_obtained_may_stand_under_auth_too(tmp_path: Path) -> None:
    oauth = entry(tmp_path, url="https://it.example", auth={"clientId": "me", "scopes": ["a", "b"]}).oauth
    assert oauth is not None
    assert (oauth.client_id, oauth.scope) == ("me", "a b")
    config = read(
        tmp_path, '{"servers": {"it": {"url": "https://it.example", "auth": {"clientID": "me", "clien": 1}}}}'
    )
    assert [(each.message, each.column) for each in config.problems] == [
        ("unknown key 'clien' is ignored. Did you mean 'clientId'?", 77)
    ]


def test_of_two_names_for_one_setting_the_first_counts(tmp_path: Path) -> None:
    found = entry(
        tmp_path, serverUrl="https://second.example", url="https://first.example", tools=[], enabledTools=["a"]
    )
    assert (found.url, found.enabled_tools) == ("https://first.example", ("a",))


@pytest.mark.parametrize(
    ("written", "filled"),
    [
        ("${TOKEN}", "sesame-open"),
        ("${env:TOKEN}!", "sesame-open!"),
        ("Bearer {env:TOKEN}", "Bearer sesame-open"),
        ("${MISSING:-x y}", "x y"),
        ("${EMPTY:-x}", "x"),
        ("${EMPTY}", ""),
        ("${MISSING:-}", ""),
        ("$token", "$token"),
        ("a${TOKEN}b${TOKEN}", "asesame-openbsesame-open"),
    ],
)
def test_variables_are_filled_from_the_environment(tmp_path: Path, written: str, filled: str) -> None:
    server = entry(tmp_path, command="it", args=[written], env={"A": written})

    assert (server.args, server.env) == ((filled,), {"A": filled})


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("${MISSING}", "the variable MISSING is not set. Set it, or write ${MISSING:-default}."),
        (
            "${input:api-key}",
            (
                "${input:api-key} is asked for by an editor; a server has nobody to ask. Put the value into an "
                "environment variable and write ${API_KEY}."
            ),
        ),
        ("${command:x}", "${command:x} is no variable that can be filled. Write ${NAME} or ${NAME:-default}."),
        ("${TOKEN", "a `${` is never closed, or stands inside of another. Write one variable after the other."),
        ("${A:-${B}}", "the variable B is not set. Set it, or write ${B:-default}."),
    ],
)
def test_a_variable_that_cannot_be_filled_takes_only_its_own_server_away(
    tmp_path: Path, written: str, reason: str
) -> None:
    config = read(
        tmp_path, json.dumps({"mcpServers": {"bad": {"command": "it", "env": {"K": written}}, "good": BARE_ENTRY}})
    )

    assert list(config.servers) == ["good"]
    assert [(each.message, each.server, each.line) for each in config.problems] == [
        (f"server 'bad' cannot be used: {reason}", "bad", 1)
    ]


BARE_ENTRY = {"command": "it"}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "it has neither a command nor a url."),
        ({"type": "stdio"}, "it has no command; give it one, or a url."),
        ({"command": " "}, "it has no command; give it one, or a url."),
        ({"type": "stdio", "url": "https://it.example"}, "it has no command; give it one, or say `type`: http."),
        ({"type": "http", "command": "it"}, "it has neither a command nor a url."),
        ({"type": "websocket", "url": "https://it.example"}, "type should be stdio, http or sse, but is 'websocket'."),
        ({"type": 3, "url": "https://it.example"}, "type should be stdio, http or sse."),
        ({"url": "it.example"}, "its url should begin with http:// or https:// and name a host."),
        ({"url": "http://[::1"}, "its url should begin with http:// or https:// and name a host."),
        ({"url": "http://it.example:99999"}, "its url should begin with http:// or https:// and name a host."),
        ({"command": "it", "cwd": "nowhere"}, "its cwd is no folder."),
        ({"command": "it", "envFile": "none.env"}, "its envFile is no file."),
        ({"command": "it", "args": [["x"]]}, "args should hold texts."),
        ({"command": "it", "env": {"A": []}}, "A should hold texts."),
        ({"command": "it", "env": ["A=b"]}, "env should be an object."),
        ({"url": "https://it.example", "headers": ["x"]}, "headers should be an object."),
        ({"command": {}}, "command should hold texts."),
    ],
)
def test_a_server_that_cannot_be_used_says_why_in_one_line(tmp_path: Path, settings: Any, reason: str) -> None:
    assert wrong(tmp_path, **settings) == [f"server 'it' cannot be used: {reason}"]


def test_a_variable_as_other_hosts_write_it_is_not_filled_and_that_is_told(tmp_path: Path) -> None:
    for written in ("$TOKEN", "Bearer $TOKEN"):
        config = read(tmp_path, json.dumps({"mcpServers": {"it": {"url": "https://it.example", "auth": written}}}))
        (problem,) = config.problems
        assert problem.message == "auth has a text with `$NAME`, which stays as it is. A variable is `${NAME}`."
        assert config.servers["it"].headers == {"Authorization": "Bearer $TOKEN"}


def test_a_server_that_may_be_required_is(tmp_path: Path) -> None:
    config = read(tmp_path, json.dumps({"mcpServers": {"it": {"command": "it", "required": "true"}}}))
    assert [each.message for each in config.problems] == ["required should be true or false. It counts as true."]
    assert config.servers["it"].required


def test_only_a_required_server_is_fatal(tmp_path: Path) -> None:
    config = read(tmp_path, '{"mcpServers": {"a": {}, "b": {"required": true}}}')

    assert [(each.server, each.is_fatal) for each in config.problems] == [("a", False), ("b", True)]
    assert config.problems[1].message.endswith("It is required.")


def test_a_disabled_server_needs_nothing(tmp_path: Path) -> None:
    text = '{"mcpServers": {"a": {"disabled": true, "env": {"A": "${MISSING}"}}, "b": {"enabled": false}}}'
    config = read(tmp_path, text)

    assert config.problems == ()
    assert [each.disabled for each in config.servers.values()] == [True, True]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            '{"mcpServers": {\n  "it": {"command" "x"}}}',
            ["mcp_config.json:2:20: this is no JSON: expecting ':' delimiter."],
        ),
        ("{", ["mcp_config.json:1:2: this is no JSON: expecting property name enclosed in double quotes."]),
        ("[]", ["mcp_config.json: it should be an object."]),
        ("null", ["mcp_config.json: it should be an object."]),
        ("[" * 100_000, ["mcp_config.json: it nests too deeply, or has a number with too many digits."]),
        ('{"mcpServers": []}', ["mcp_config.json:1:2: mcpServers should be an object."]),
        ('{"mcpServers": {"it": "x"}}', ["mcp_config.json:1:17: it should be an object."]),
        (
            '{"mcpServers": {\n "it": {"command": "x",\n  "timeot": 3}}}',
            ["mcp_config.json:3:3: unknown key 'timeot' is ignored. Did you mean 'timeout'?"],
        ),
        (
            '{"mcpServers": {"it": {"command": "x", "protocolEra": "legacy"}}}',
            ["mcp_config.json:1:40: unknown key 'protocolEra' is ignored. Did you mean 'protocolVersion'?"],
        ),
        (
            '{"toolGroups": {" ": {}}, "z": 1}',
            [
                "mcp_config.json:1:17: a tool group without a role is left out.",
                "mcp_config.json:1:27: unknown key 'z' is ignored. Known: mcpServers, servers, a2aServers, toolGroups.",
            ],
        ),
        (
            '{"mcpServer": {"it": {"command": "x"}}}',
            ["mcp_config.json:1:2: unknown key 'mcpServer' is ignored. Did you mean 'mcpServers'?"],
        ),
        (
            '{"mcpServers": {"it": {"command": "x"}, "it": {"command": "y"}}}',
            ["mcp_config.json:1:41: 'it' is there twice; the last one counts."],
        ),
        (
            '{"mcpServers": {"it": {"command": "x"}}, "servers": {"it": {"command": "y"}}}',
            ["mcp_config.json:1:54: there are two servers called 'it'; the first is used."],
        ),
        (
            '{"mcpServers": {"it": {"command": "x", "disabled": "no", "concurrency": -1}}}',
            [
                "mcp_config.json:1:40: disabled should be true or false. It counts as true.",
                "mcp_config.json:1:58: concurrency should be greater than or equal to 1",
            ],
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_line_and_column(tmp_path: Path, text: str, lines: list[str]) -> None:
    assert said(read(tmp_path, text)) == lines


def test_a_file_that_is_not_there_or_empty_is_fine_and_one_that_is_no_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "latin.json").write_bytes(b'{"caf\xe9": 1}')

    assert read_config(tmp_path / "none.json", {}) == McpConfig()
    assert read(tmp_path, "  ") == McpConfig()
    assert read(tmp_path, "{}") == McpConfig()
    assert "UTF-8" in read_config(tmp_path / "latin.json", {}).problems[0].message
    assert "cannot be read" in read_config(tmp_path, {}).problems[0].message


GROUPS = """{
  "mcpServers": {"fetch": {"command": "uvx"}, "brave": {"command": "npx"}},
  "toolGroups": {
    "web": {"description": "Search", "servers": ["fetch", "brave"], "include": ["fetch", "brave_*"],
            "exclude": ["brave_local_search"], "permissions": ["internet_access"], "approve": "destructive",
            "naming": {"prefix": "web_", "suffix": "_", "rename": {"fetch": "read"}, "style": "snake"},
            "provider": "Us", "version": "2", "pin": true, "exports": true},
    "all": {"approve": {"*": "never", "delete_*": "always"}, "tools": "search"}
  }
}"""


def test_a_group_says_everything_about_itself_and_takes_all_servers_when_it_names_none(tmp_path: Path) -> None:
    config = read(tmp_path, GROUPS)
    web, every = config.groups["web"], config.groups["all"]

    assert config.problems == ()
    assert (web.servers, web.include, web.exclude) == (
        ("fetch", "brave"),
        ("fetch", "brave_*"),
        ("brave_local_search",),
    )
    assert (web.naming.prefix, web.naming.suffix, web.naming.style) == ("web_", "_", "snake")
    assert (web.naming.rename, web.permissions) == ({"fetch": "read"}, {Permission.INTERNET_ACCESS})
    assert (web.description, web.provider, web.version, web.pin, web.exports) == ("Search", "Us", "2", True, True)
    assert web.approve == {"*": "destructive"}
    assert (every.servers, every.include) == (("fetch", "brave"), ("search",))
    assert (every.approve, every.exports) == ({"*": "never", "delete_*": "always"}, False)


WRONG_GROUPS: list[tuple[Any, str]] = [
    ({"servers": ["fetsch"]}, "tool group 'web' names the server 'fetsch', which is not there. Did you mean 'fetch'?"),
    ({"permissions": ["internet"]}, "permissions should be one of internet_access, host_access, but is 'internet'."),
    (
        {"approve": "sometimes"},
        "approve should be one of never, always, destructive, but is 'sometimes'. It counts as always.",
    ),
    (
        {"approve": {"rm": 1}},
        "rm should be one of never, always, destructive. It counts as always.",
    ),
    ({"approve": True}, "approve should be a text or an object. It counts as always."),
    ({"pin": "yes"}, "pin should be true or false. It counts as true."),
    ({"exports": "yes"}, "exports should be true or false. It counts as false."),
    ({"naming": {"style": "made-up"}}, f"style should be one of {', '.join(NAMING_STYLES)}, but is 'made-up'."),
    ({"naming": "web_"}, "naming should be an object."),
    ({"naming": {"prefx": "a"}}, "unknown key 'prefx' is ignored. Did you mean 'prefix'?"),
    ({"naming": {"prefix": []}}, "tool group 'web': prefix should hold texts."),
    ({"inclde": ["a"]}, "unknown key 'inclde' is ignored. Did you mean 'include'?"),
    ({"include": [{}]}, "tool group 'web' has no tools: include should hold texts."),
    ({"version": []}, "tool group 'web': version should hold texts."),
]


@pytest.mark.parametrize(("group", "message"), WRONG_GROUPS)
def test_what_is_wrong_with_a_group_is_told_and_leaves_the_group(tmp_path: Path, group: Any, message: str) -> None:
    data = {"mcpServers": {"fetch": {"command": "uvx"}}, "toolGroups": {"web": group}}
    config = read(tmp_path, json.dumps(data))

    assert [each.message for each in config.problems] == [message]
    assert config.problems[0].line == 1
    assert list(config.groups) == ["web"]


def test_headers_are_trimmed_and_what_cannot_be_sent_is_told_without_its_value(tmp_path: Path) -> None:
    def read_with(**headers: str) -> McpConfig:
        return read(tmp_path, json.dumps({"mcpServers": {"a": {"url": "https://example.com/", "headers": headers}}}))

    assert read_with(Authorization=" Bearer s3cret\n").servers["a"].headers == {"Authorization": "Bearer s3cret"}
    for headers in ({"A": "s3cret\r\nEvil: 1"}, {"A": "s3crét"}, {"A b:": "s3cret"}, {"": "s3cret"}):
        config = read_with(**headers)
        assert config.servers == {}
        (problem,) = config.problems
        assert "cannot be sent" in problem.message
        assert "s3cr" not in problem.message


def test_what_cannot_be_read_takes_no_caution_away(tmp_path: Path) -> None:
    lists: list[Any] = [{}, [None], [["rm"]], "${UNSET}"]

    def group(**written: Any) -> GroupConfig:
        data = {"mcpServers": {"fetch": {"command": "uvx"}}, "toolGroups": {"web": written}}
        return read(tmp_path, json.dumps(data)).groups["web"]

    words: list[Any] = ["Always", "yes", True, 1, [], None, {}]
    assert [group(approve=each).approve.get("*", "never") for each in words] == [
        *["always"] * 5,
        "never",
        "never",
    ]
    table = group(approve={"*": "allways", "rm": 1, "ls": "never"})
    assert table.approve == {"*": "always", "rm": "always", "ls": "never"}
    assert (group(pin="true").pin, group(exports="true").exports) == (True, False)
    assert [group(exclude=each).exclude for each in lists] == [("*",)] * len(lists)
    assert [group(include=each).exclude for each in lists] == [("*",)] * len(lists)
    entry = read(tmp_path, '{"mcpServers": {"a": {"command": "x", "disabled": "true", "pin": 1}}}').servers["a"]
    assert entry.disabled
    assert read(tmp_path, '{"mcpServers": {"a": {"command": "x", "pin": 1}}}').servers["a"].pin


WORDS = """command args env cwd url headers type timeout disabled required auth oauth clientId naming prefix servers
include approve permissions mcpServers toolGroups rename envFile concurrency"""
KEYS = st.sampled_from(WORDS.split()) | st.text(max_size=6)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150)
@given(st.dictionaries(KEYS, st.dictionaries(st.text(max_size=5), JSON, max_size=3) | JSON, max_size=4), st.data())
def test_any_json_is_read_and_each_problem_is_one_line(
    tmp_path_factory: pytest.TempPathFactory, data: Any, choice: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("any")
    written = choice.draw(st.sampled_from([data, {"mcpServers": data, "toolGroups": data}]))
    config = read(folder, json.dumps(written))

    assert all("\n" not in str(each) for each in config.problems)
    assert {each.server for each in config.problems}.isdisjoint(config.servers)
    for each in config.servers.values():
        assert each.disabled or (each.command if each.transport == "stdio" else each.url)


@settings(max_examples=100)
@given(st.text(max_size=60))
def test_any_text_is_read_or_explained(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    config = read(tmp_path_factory.mktemp("any"), text.encode("utf-8", "replace").decode())

    assert config.servers == {}


@settings(max_examples=100)
@given(st.dictionaries(st.text(min_size=1, max_size=6), JSON, max_size=5))
def test_every_key_is_told_at_the_place_where_it_stands(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    folder = tmp_path_factory.mktemp("any")
    text = json.dumps({"mcpServers": {"it": {"command": "x", "zzzz": data, "yyyy": 1}}}, indent=2)
    config = read(folder, text)

    lines = text.split("\n")
    for each in config.problems:
        if "unknown key" in each.message:
            assert each.line is not None
            assert each.column is not None
            assert lines[each.line - 1][each.column - 1 :].startswith(('"zzzz"', '"yyyy"'))
