"""Agent cards: what a server, or one of its agents, is for, what it can do, and how it is called.

Nothing is kept here. Above: `requests`, which serve them.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from a2a import types as a2a
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.utils.signing import create_agent_card_signer

from goalport import __version__
from goalport.server.doors.a2a.door import A2A, KEYS
from goalport.server.doors.a2a.messages import JSON, SKILL, TEXT, Offered, Offers, agent_of, takes_text
from goalport.server.doors.a2a.signing import CardKey
from goalport.server.publish.goal_tools import GoalTool
from goalport.workspace.settings import Settings

_BINDINGS: Final = ("JSONRPC", "HTTP+JSON")
_VERSIONS: Final = ("1.0", "0.3")
_IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_HIDDEN: Final = a2a.AgentSkill(
    id="goals",
    name="Goals",
    description="What you may ask for depends on who you are. The extended agent card lists it.",
    tags=["goalport"],
)


def card_of(offers: Offers, settings: Settings, address: str, key: CardKey | None) -> a2a.AgentCard:
    """The card of the server, or of one agent, with what the caller may use."""
    url = f"{address}{A2A}" + (f"/agents/{quote(offers.agent, safe='')}" if offers.agent else "")
    skills = [_skill(name, each) for name, each in offers.skills.items()]
    card = a2a.AgentCard(
        name=offers.agent or settings.name,
        description=_description(offers, settings),
        version=_version(offers),
        supported_interfaces=[
            a2a.AgentInterface(url=url, protocol_binding=binding, protocol_version=version)
            for version in _VERSIONS
            for binding in _BINDINGS
        ],
        capabilities=a2a.AgentCapabilities(
            streaming=True, push_notifications=False, extended_agent_card=settings.authenticates
        ),
        default_input_modes=[TEXT, JSON],
        default_output_modes=[JSON, TEXT],
        skills=skills or [_HIDDEN],
    )
    for name, scheme in _schemes(settings):
        card.security_schemes[name].CopyFrom(scheme)
        card.security_requirements.append(a2a.SecurityRequirement(schemes={name: a2a.StringList()}))
    if key is not None:
        header: Any = {name: key.public[name] for name in ("kid", "alg")}
        header |= {"typ": "JOSE", "jku": f"{address}{KEYS}"}
        create_agent_card_signer(key.pem, header)(card)
    return card


def written(card: a2a.AgentCard) -> Mapping[str, Any]:
    """A card as JSON, for clients of both versions of the protocol."""
    return agent_card_to_dict(card)


def etag_of(content: Mapping[str, Any]) -> str:
    """What tells contents of a card apart; signing them again makes no other content."""
    unsigned = {name: value for name, value in content.items() if name != "signatures"}
    return f'W/"{hashlib.sha256(json.dumps(unsigned, sort_keys=True).encode()).hexdigest()[:32]}"'


def _skill(name: str, offered: Offered) -> a2a.AgentSkill:
    if not isinstance(offered, GoalTool):
        modes = [TEXT, *_IMAGES]
        about = offered.description or f"Talk to {name}"
        return a2a.AgentSkill(
            id=name, name=name, description=about, tags=["chat"], input_modes=modes, output_modes=[TEXT]
        )
    goals = [each for each in offered.agent.goals if each.name in offered.goals]
    taken = ", ".join(offered.arguments.schema.get("properties", ())) or "no arguments"
    return a2a.AgentSkill(
        id=name,
        name=offered.tool.title or name,
        description=f"{offered.tool.description or name} (Data: {taken}.)",
        tags=[*dict.fromkeys(tag for each in goals for tag in each.tags)] or [agent_of(offered)],
        examples=[example for each in goals for example in each.examples],
        input_modes=[JSON, *([TEXT] if takes_text(offered) else [])],
        output_modes=[JSON, TEXT],
    )


def _description(offers: Offers, settings: Settings) -> str:
    agents = [each.agent if isinstance(each, GoalTool) else each for each in offers.skills.values()]
    about = agents[0].description if offers.agent and agents else settings.description
    ask = f" With several skills, a message names one in its metadata, as {SKILL}." if len(offers.skills) > 1 else ""
    return f"{about or f'The agents of {settings.name}.'}{ask}"


def _version(offers: Offers) -> str:
    agents = [each.agent for each in offers.skills.values() if isinstance(each, GoalTool)]
    return agents[0].version if offers.agent and agents else __version__


def _schemes(settings: Settings) -> Iterator[tuple[str, a2a.SecurityScheme]]:
    """How callers may prove who they are; any of these is enough."""
    if settings.asks_for_keys:
        bearer = a2a.HTTPAuthSecurityScheme(scheme="Bearer", description="An API key of this server")
        yield "apiKey", a2a.SecurityScheme(http_auth_security_scheme=bearer)
        header = a2a.APIKeySecurityScheme(location="header", name="X-API-Key", description="An API key of this server")
        yield "apiKeyHeader", a2a.SecurityScheme(api_key_security_scheme=header)
    for number, each in enumerate(settings.auth.issuers, 1):
        place = f"{each.issuer.rstrip('/')}/.well-known/openid-configuration"
        found = a2a.OpenIdConnectSecurityScheme(open_id_connect_url=place, description=f"A token of {each.issuer}")
        yield f"issuer{number}", a2a.SecurityScheme(open_id_connect_security_scheme=found)
    if settings.auth.introspection:
        bearer = a2a.HTTPAuthSecurityScheme(scheme="Bearer", description="A token of a provider of this server")
        yield "token", a2a.SecurityScheme(http_auth_security_scheme=bearer)
