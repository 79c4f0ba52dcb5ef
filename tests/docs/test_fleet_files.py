"""The files that start two servers, a database and a proxy fit each other and the settings."""

import re
from typing import Any, cast

from ruamel.yaml import YAML

from goalport.server.site.health import HEALTH_PATHS
from goalport.workspace.settings import Settings
from tests.clients.running import ROOT

COMPOSE: dict[str, Any] = cast("Any", YAML(typ="safe")).load(ROOT / "server/compose.yaml")
SERVERS = {name: each for name, each in COMPOSE["services"].items() if name.startswith("goalport")}


def test_the_proxy_sends_requests_to_each_server_at_its_port() -> None:
    proxy = COMPOSE["services"]["proxy"]
    assert {each.removesuffix(":8080") for each in proxy["environment"]["REPLICAS"].split()} == SERVERS.keys()
    assert "EXPOSE 8080" in (ROOT / "server/Dockerfile").read_text()
    assert proxy["volumes"][0] == "./Caddyfile:/etc/caddy/Caddyfile:ro"
    used = set(re.findall(r"\{\$(\w+):", (ROOT / "server/Caddyfile").read_text()))
    assert used == set(proxy["environment"])


def test_the_environment_of_the_servers_sets_settings_that_exist() -> None:
    for server in SERVERS.values():
        given = {name.removeprefix("GOALPORT_").lower() for name in server["environment"]}
        assert given <= Settings.model_fields.keys()


def test_the_servers_share_a_database_a_name_and_a_volume() -> None:
    one, other = ({name: each for name, each in server.items() if name != "depends_on"} for server in SERVERS.values())
    assert one == other
    assert one["environment"]["GOALPORT_STORE"].startswith("postgresql://goalport:")


def test_a_server_may_take_longer_to_end_than_its_calls() -> None:
    seconds = int(COMPOSE["x-goalport"]["stop_grace_period"].removesuffix("s"))
    assert seconds > Settings.model_fields["shutdown_seconds"].default


def test_kubernetes_asks_paths_that_exist_and_gives_a_server_time_to_end() -> None:
    manifests = cast("Any", YAML(typ="safe")).load_all(ROOT / "server/kubernetes.yaml")
    found = {each["kind"]: each["spec"] for each in manifests}
    pod = found["Deployment"]["template"]["spec"]
    (container,) = pod["containers"]
    settings = {each["name"].removeprefix("GOALPORT_").lower(): each["value"] for each in container["env"]}
    assert settings.keys() <= Settings.model_fields.keys()
    probes = {name: each["httpGet"]["path"] for name, each in container.items() if name.endswith("Probe")}
    assert probes.pop("livenessProbe") == "/health/live"
    assert set(probes.values()) == {"/health/ready"}
    assert set(probes.values()) <= HEALTH_PATHS
    seconds = float(settings["drain_seconds"]) + Settings.model_fields["shutdown_seconds"].default
    assert pod["terminationGracePeriodSeconds"] > seconds + 20, "it closes connections, too"
    labels = found["Deployment"]["template"]["metadata"]["labels"]
    assert found["Service"]["selector"] == found["PodDisruptionBudget"]["selector"]["matchLabels"] == labels
    assert found["PodDisruptionBudget"]["minAvailable"] < found["Deployment"]["replicas"]
