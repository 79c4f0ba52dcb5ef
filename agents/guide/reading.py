"""Reading a document section by section: a state that lasts from message to message, until it is left."""

from typing import Annotated, Final

from goalport import ActionContext, Provided, State, action, cost
from goalport.base.words import excerpt
from goalport.knowledge import DocumentIndex, SearchLimits
from goalport.models import UserMessage

from .requests import page_turn

__all__ = ["NotReading", "Reading", "Stage"]

_LONGEST: Final = 3_000
"""Characters of a section that are shown."""


class Stage(State):
    """What somebody does beside asking questions."""


class NotReading(Stage):
    """Nothing is being read any more."""


class Reading(Stage):
    """A document is read, and one of its sections is shown."""

    document: str
    """Its path, as people know it."""
    sections: tuple[str, ...]
    """The ids of those that are read, in order."""
    place: int = 0

    @cost
    def of_turning(self, message: UserMessage | None) -> float:
        """Nearly nothing for a word such as `next`, and more than any answer for everything else."""
        return 2.0 if message is None or page_turn(message.content) is None else 0.05

    @action(trigger=UserMessage, can_rerun=True, cost_method="of_turning", read_only=True)
    async def turn_page(
        self, message: UserMessage, context: ActionContext, index: Annotated[DocumentIndex, Provided]
    ) -> "Reading | NotReading":
        """Show the next section of what is read, or the one before, or stop reading."""
        step = page_turn(message.content)
        there = self.place + (step or 0)
        if not step or there == len(self.sections):
            await context.send_message(f"That was {self.document}. Ask on, or read something else with me.")
            return NotReading()
        page = Reading(document=self.document, sections=self.sections, place=max(there, 0))
        await context.send_message(await page.text(context, index))
        return page

    async def text(self, context: ActionContext, index: DocumentIndex) -> str:
        """The section that is shown, with how to go on."""
        found = await index.read_section(self.sections[self.place], SearchLimits(caller=context.caller))
        if found is None:
            return f"This section of {self.document} is gone: the document has changed. Say *next* to go on."
        title = " > ".join(found.leaves[0].path)
        said = excerpt("\n\n".join(each.text for each in found.leaves), _LONGEST)
        where = f"{self.place + 1} of {len(self.sections)}"
        return f"**{title}** ({self.document}, {where})\n\n{said}\n\nSay *next*, *back* or *stop*, or ask about it."
