"""Results of tools that are too large for one answer: each is kept as that of a process, and read as one is."""

from dataclasses import dataclass

from goalport.agents.domain import achieves_goal, agent

KEEPER = "goalport_result"


@dataclass(frozen=True)
class KeptResult:
    """What a tool gave, as a text."""

    text: str


@agent(name=KEEPER, description="Keeps a result of a tool that is too large for one answer", opaque=True)
class ResultKeeper:
    """It is deployed nowhere, and known by its name, so that its processes are found again."""

    @achieves_goal(description="The result of a tool")
    async def keep(self, kept: KeptResult) -> str:
        """Give the text."""
        return kept.text
