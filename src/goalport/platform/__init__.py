"""The composition root: agents, services, groups and processes put together. Floor 7."""

from goalport.platform.agent_platform import AgentPlatform
from goalport.platform.backends import CONFIG_FILE
from goalport.platform.dbos_engine import DbosEngine
from goalport.platform.deployments import Deployments
from goalport.platform.inspection import mistakes_in, remarks_on_chatbots, remarks_on_givers
from goalport.platform.invocation import AgentInvocation, Invoked, SupervisorInvocation, UtilityInvocation
from goalport.platform.knowledge import REFERENCES_FILE
from goalport.platform.process_engine import Drive, ProcessEngine
from goalport.upstream.servers import UpstreamServers
from goalport.upstream.status import GroupReport

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
    "remarks_on_chatbots",
    "remarks_on_givers",
]
