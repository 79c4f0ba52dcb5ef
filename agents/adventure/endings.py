"""How the night can end: each ending with its title and its text. Texts only; the places choose among them."""

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, Field

__all__ = ["ENDINGS", "EndingName", "Tale", "tale"]

EndingName = Literal["exit", "tea", "guard", "flight", "exhibit"]


@dataclass(frozen=True)
class Ending:
    """One way in which the night ends."""

    title: str
    text: str


ENDINGS: dict[EndingName, Ending] = {
    "exit": Ending(
        "The respectable exit",
        "The key turns as if it had been waiting to be asked. You step out, lock the door behind you because you were"
        " brought up properly, and post the key through the letter box. Only on the bus does it strike you that nobody"
        " will ever believe you, and that there is nothing to believe.",
    ),
    "tea": Ending(
        "Tea for two, one of them late",
        "The lid slides open. The pharaoh sits up, sniffs, and sees the pot. «Four thousand years of wine jars and"
        " not one person thought of this,» he says. You talk until dawn about brothers-in-law. He offers you a"
        " small province. You settle for the recipe for bread.",
    ),
    "guard": Ending(
        "Gainful employment",
        "The lid slides open. The pharaoh sits up, looks at your empty hands, and sighs: a visitor, and nothing to"
        " drink. To make up for it, {name} is to guard his sleep for a thousand years. There is a pension, a hat, and"
        " every second Tuesday off.",
    ),
    "flight": Ending(
        "Departure by umbrella",
        "You open the umbrella, say a word that your aunt always used in high winds, and step off the roof. The wind"
        " takes it personally. {name} is seen over the harbour, then over the hills, waving; the museum later bills"
        " you for one umbrella, slightly used.",
    ),
    "exhibit": Ending(
        "Part of the collection",
        "Morning. The doors open, a school class comes in, and twenty-six children look at you in silence. You hold"
        " very still. The label says: «{name}. Visitor, early twenty-first century. Do not feed.» It is a good label."
        " You decide to stay until lunch.",
    ),
}


class Tale(BaseModel):
    """A night that has ended."""

    content: str = Field(description="How it ended, to be read to the person who played")
    ending: EndingName
    choices: int = Field(description="How many choices it took")


def tale(name: str, ending: EndingName, choices: int) -> Tale:
    """The tale of one night."""
    found = ENDINGS[ending]
    number = list(ENDINGS).index(ending) + 1
    foot = f"Ending {number} of {len(ENDINGS)}, after {choices} choices."
    return Tale(content=f"{found.title}\n\n{found.text.format(name=name)}\n\n{foot}", ending=ending, choices=choices)
