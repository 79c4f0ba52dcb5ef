"""The composition root: agents, services, groups and processes put together."""

from goalport.runtime.platform.agent_platform import AgentPlatform
from goalport.runtime.platform.dbos_engine import DbosEngine
from goalport.runtime.platform.deployments import Deployments
from goalport.runtime.platform.inspection import mistakes_in, remarks_in
from goalport.runtime.platform.invocation import AgentInvocation, Invoked, SupervisorInvocation, UtilityInvocation
from goalport.runtime.platform.replicas import Drive, ProcessEngine
from goalport.runtime.platform.workspace_parts import CONFIG_FILE, REFERENCES_FILE
from goalport.tools.upstream.servers import UpstreamServers
from goalport.tools.upstream.upstream_groups import GroupReport

__all__ = [
    "CONFIG_FILE",
    "REFERENCES_FILE",
    "AgentInvocation",
    "AgentPlatform",
    "DbosEngine",
    "Deployments",
    "Drive",
    "GroupReport",
    "Invoked",
    "ProcessEngine",
    "SupervisorInvocation",
    "UpstreamServers",
    "UtilityInvocation",
    "mistakes_in",
    "remarks_in",
]
