"""Skills: the goals and chatbots that an address offers to the caller of a request, and the agent cards that list them.

Above: the handler, which runs skills, and the door, which serves the cards.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any, Final, TypeAlias

from a2a import types as a2a
from a2a.utils.signing import create_agent_card_signer

from goalport import __version__
from goalport.agents.domain import UserInput
from goalport.base.errors import BadInput, UnknownName
from goalport.base.words import listed
from goalport.runtime.chat import AgentProcessChatbot
from goalport.server.auth import current_caller
from goalport.server.doors.a2a.messages import JSON, SKILL, TEXT, ReceivedMessage
from goalport.server.doors.a2a.notifications import SigningKey
from goalport.server.publish.goal_tools import GoalTool, Offer
from goalport.server.web.endpoint import HttpDoor
from goalport.workspace.settings import Settings

Offered: TypeAlias = GoalTool | AgentProcessChatbot
_INTERFACES: Final = [(version, binding) for version in ("1.0", "0.3") for binding in ("JSONRPC", "HTTP+JSON")]
_IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_HIDDEN: Final = a2a.AgentSkill(
    id="goals",
    name="Goals",
    description="What you may ask for depends on who you are. The extended agent card lists it.",
    tags=["goalport"],
)


class Offers:
    """What one address of the door offers to the caller of a request: all of the server, or what one agent does."""

    def __init__(self, door: HttpDoor, agent: str) -> None:
        self.agent, self._access, self._platform = agent, door.access, door.publisher.platform

    @cached_property
    def skills(self) -> Mapping[str, Offered]:
        """The goals and chatbots that the caller may use, by the ids of their skills."""
        platform, published = self._platform, self._access.publication.tools.items()
        caller = current_caller()
        chatbots = {name: each for name, each in platform.chatbots.items() if platform.may_chat(caller, each)}
        goals = {name: each for name, each in published if isinstance(each, GoalTool) and not each.is_tool}
        offered: Mapping[str, Offered] = {**chatbots, **goals}
        return {name: each for name, each in offered.items() if self.agent in {"", _agent_of(each)}}

    def chosen(self, said: ReceivedMessage) -> Offered:
        """The skill for a message: the one that it names, the only one, or the one that its data or its text fits.

        Raises `BadInput` and `UnknownName`.
        """
        named = said.metadata.get(SKILL)
        if named is not None:
            if not isinstance(named, str) or named not in self.skills:
                raise UnknownName("skill", str(named)[:100], self.skills)
            return self.skills[named]
        if len(self.skills) == 1:
            return next(iter(self.skills.values()))
        ask = f"Name one in the metadata of the message, as {SKILL}: {listed(self.skills) or 'there is none here'}."
        if isinstance(said.data, Mapping):
            fitting = list[GoalTool]()
            for each in self.skills.values():
                with suppress(BadInput):
                    if isinstance(each, GoalTool):
                        each.arguments.read(said.input_of(each))
                        fitting.append(each)
            if len(fitting) != 1:
                raise BadInput(f"The data {'fits several skills' if fitting else 'fits no skill'}. {ask}")
            return fitting[0]
        texts = [each for each in self.skills.values() if _takes_text(each)]
        # Skills that start from `UserInput` come before those that take a text as a field of another type.
        of_users = [each for each in texts if not isinstance(each, GoalTool) or each.arguments.kinds == (UserInput,)]
        by_sentence = of_users or texts
        if self.agent and len(by_sentence) == 1:
            return by_sentence[0]
        front = self._platform.agents.front
        if self.agent or front is None or not self.skills:
            raise BadInput(f"Which skill is meant does not follow from the message. {ask}")
        if (published := self.skills.get(front.goals[0].export.name)) is not None:
            return published
        return GoalTool.of(Offer("achieve", front, front.goals, (UserInput,), "", may_ask=True, asks_models=True))


def _agent_of(offered: Offered) -> str:
    """The name of the agent that has a skill."""
    return offered.agent.name if isinstance(offered, GoalTool) else offered.name


def _takes_text(offered: Offered) -> bool:
    """Whether a skill can start from a text alone."""
    return not isinstance(offered, GoalTool) or offered.text_field is not None


def card_of(offers: Offers, settings: Settings, url: str, key: SigningKey | None, key_url: str) -> a2a.AgentCard:
    """The card of the server, or of one agent, with the skills that the caller may use.

    Parameters: `url` is the address for requests, `key_url` the address of the public key.
    """
    skills = offers.skills
    agents = [each.agent if isinstance(each, GoalTool) else each for each in skills.values()] if offers.agent else []
    about = (agents[0] if agents else settings).description or f"The agents of {settings.name}."
    name_one = f" With several skills, a message names one in its metadata, as {SKILL}." if len(skills) > 1 else ""
    versions = [each.agent.version for each in skills.values() if isinstance(each, GoalTool)] if offers.agent else []
    card = a2a.AgentCard(
        name=offers.agent or settings.name,
        description=f"{about.rstrip('.')}.{name_one}" if name_one else about,
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
        tags=[*dict.fromkeys(tag for each in goals for tag in each.tags)] or [_agent_of(offered)],
        examples=[example for each in goals for example in each.examples],
        input_modes=[JSON, *([TEXT] if _takes_text(offered) else [])],
        output_modes=[JSON, TEXT],
    )


def _schemes(settings: Settings) -> Iterator[tuple[str, a2a.SecurityScheme]]:
    """How callers may prove who they are; any of these is enough."""
    bearer, auth = a2a.HTTPAuthSecurityScheme, settings.auth
    if settings.uses_keys:
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
