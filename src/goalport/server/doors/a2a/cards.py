"""Agent cards: what a server, or one of its agents, is for, what it can do, and how it is called.

Nothing is kept here. Above: the door, which serves them.
"""

from collections.abc import Iterator
from typing import Any, Final

from a2a import types as a2a
from a2a.utils.signing import create_agent_card_signer

from goalport import __version__
from goalport.server.doors.a2a.messages import JSON, SKILL, TEXT, Offered, Offers, agent_of, takes_text
from goalport.server.doors.a2a.notifications import SigningKey
from goalport.server.publish.goal_tools import GoalTool
from goalport.workspace.settings import Settings

_INTERFACES: Final = [(version, binding) for version in ("1.0", "0.3") for binding in ("JSONRPC", "HTTP+JSON")]
_IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_HIDDEN: Final = a2a.AgentSkill(
    id="goals",
    name="Goals",
    description="What you may ask for depends on who you are. The extended agent card lists it.",
    tags=["goalport"],
)


def card_of(offers: Offers, settings: Settings, url: str, key: SigningKey | None, key_url: str) -> a2a.AgentCard:
    """The card of the server, or of one agent, with what the caller may use.

    Parameters: `url` is where it is called, and `key_url` where its public key is.
    """
    skills = offers.skills
    agents = [each.agent if isinstance(each, GoalTool) else each for each in skills.values()] if offers.agent else []
    about = (agents[0] if agents else settings).description or f"The agents of {settings.name}."
    name_one = f" With several skills, a message names one in its metadata, as {SKILL}." if len(skills) > 1 else ""
    versions = [each.agent.version for each in skills.values() if isinstance(each, GoalTool)] if offers.agent else []
    card = a2a.AgentCard(
        name=offers.agent or settings.name,
        description=f"{about}{name_one}",
        version=(versions or [__version__])[0],
        supported_interfaces=[
            a2a.AgentInterface(url=url, protocol_binding=binding, protocol_version=version)
            for version, binding in _INTERFACES
        ],
        capabilities=a2a.AgentCapabilities(
            streaming=True, push_notifications=True, extended_agent_card=settings.authenticates
        ),
        default_input_modes=[TEXT, JSON],
        default_output_modes=[JSON, TEXT],
        skills=[_skill(name, each) for name, each in skills.items()] or [_HIDDEN],
    )
    for name, scheme in _schemes(settings):
        card.security_schemes[name].CopyFrom(scheme)
        card.security_requirements.append(a2a.SecurityRequirement(schemes={name: a2a.StringList()}))
    if key is not None:
        header: Any = {"kid": key.public["kid"], "alg": key.public["alg"], "typ": "JOSE", "jku": key_url}
        create_agent_card_signer(key.pem, header)(card)
    return card


def _skill(name: str, offered: Offered) -> a2a.AgentSkill:
    if not isinstance(offered, GoalTool):
        about = offered.description or f"Talk to {name}"
        modes = [TEXT, *_IMAGES]
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


def _schemes(settings: Settings) -> Iterator[tuple[str, a2a.SecurityScheme]]:
    """How callers may prove who they are; any of these is enough."""
    bearer, auth = a2a.HTTPAuthSecurityScheme, settings.auth
    if settings.asks_for_keys:
        about = "An API key of this server"
        yield "apiKey", a2a.SecurityScheme(http_auth_security_scheme=bearer(scheme="Bearer", description=about))
        header = a2a.APIKeySecurityScheme(location="header", name="X-API-Key", description=about)
        yield "apiKeyHeader", a2a.SecurityScheme(api_key_security_scheme=header)
    for number, each in enumerate(auth.issuers, 1):
        place = f"{each.issuer.rstrip('/')}/.well-known/openid-configuration"
        found = a2a.OpenIdConnectSecurityScheme(open_id_connect_url=place, description=f"A token of {each.issuer}")
        yield f"issuer{number}", a2a.SecurityScheme(open_id_connect_security_scheme=found)
    if auth.introspection:
        about = "A token of a provider of this server"
        yield "token", a2a.SecurityScheme(http_auth_security_scheme=bearer(scheme="Bearer", description=about))
