"""What the caller of the current request may list and do: what every door asks before it answers.

It decides by the scopes of the caller and those that the publication asks for. It knows no protocol: a door finds out
which scopes a request needs, and refuses in its own words. Below the doors; the site makes one for all of them.
"""

from collections.abc import Iterable

from goalport.agents.domain import ChatbotMark
from goalport.runtime.process import AgentProcess
from goalport.server.auth.authentication import Authentication
from goalport.server.auth.current import current_caller
from goalport.server.publish.publication import Publication, Scopes, Views
from goalport.server.publish.publisher import Publisher


class Access:
    """What callers may do; without an authentication everybody may do everything."""

    def __init__(self, publisher: Publisher, authentication: Authentication | None) -> None:
        self._publisher = publisher
        self._views = Views()
        self.challenges = None if authentication is None else authentication.challenges
        """How requests are refused over HTTP; None: nobody is authenticated, and no scope is checked."""
        if authentication is not None:
            rules = publisher.publication.scopes.rules  # they come from the settings, which never change
            publisher.platform.may_start = lambda caller, goal: caller.has(*rules.of_goals([goal]))
            publisher.platform.may_chat = lambda caller, chatbot: caller.has(*rules.of_chatbot(chatbot.mark))

    @property
    def publication(self) -> Publication:
        """What the caller of the current request may list and use."""
        whole = self._publisher.publication
        return whole if self.challenges is None else self._views.of(whole, current_caller())

    @property
    def base(self) -> Scopes:
        """What every request needs that needs nothing else."""
        return self._publisher.publication.scopes.rules.read

    def of_process(self, process: AgentProcess) -> Scopes:
        """What a caller needs to answer a question of a process, or to end it: as much as to start it."""
        rules = self._publisher.publication.scopes.rules
        if current_caller().admin:
            return rules.read
        if process.options.turns:
            return self.of_chatbot(process.agent.chat or ChatbotMark())
        return rules.of_goals(process.scope.goals[name] for name in process.goals)

    def of_chatbot(self, mark: ChatbotMark) -> Scopes:
        """What a caller needs to talk to a chatbot, by how it is marked."""
        return self._publisher.publication.scopes.rules.of_chatbot(mark)

    def may_change(self, process: AgentProcess) -> bool:
        """Whether the caller of the current request may answer a question of a process that it follows."""
        return not self.lacks(self.of_process(process))

    def lacks(self, needed: Scopes) -> bool:
        """Whether the caller of the current request lacks any of the scopes that the request needs."""
        return self.challenges is not None and not current_caller().has(*needed)

    def refusal(self, needed: Iterable[str]) -> str:
        """Why a request is refused that lacks scopes, in words for the person behind the client."""
        caller = current_caller()
        missing = sorted(each for each in needed if not caller.has(each))
        scopes, them = ("scope", "it") if len(missing) == 1 else ("scopes", "them")
        return (
            f"This needs the {scopes} {' and '.join(missing)}, which your credential does not have. Calling again does"
            f" not help: ask whoever runs this server for a credential that has {them}."
        )
