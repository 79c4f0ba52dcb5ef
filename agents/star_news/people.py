"""A person and the sign they were born under: from this the goal can be started, and a model makes it of a sentence."""

from typing import Annotated, Final, Literal, get_args

from pydantic import BaseModel, BeforeValidator, Field

__all__ = ["SIGNS", "Sign", "StarPerson"]

_Name = Literal[
    "Aries",
    "Taurus",
    "Gemini",
    "Cancer",
    "Leo",
    "Virgo",
    "Libra",
    "Scorpio",
    "Sagittarius",
    "Capricorn",
    "Aquarius",
    "Pisces",
]
SIGNS: Final[tuple[str, ...]] = get_args(_Name)
"""In the order of the year, which begins in March."""
_CONSTELLATIONS: Final = {"scorpius": "Scorpio", "capricornus": "Capricorn"}
"""Where the sky has another name for it."""


def _spelled(value: object) -> object:
    """A sign however it is written; what is none is left for the check to refuse, with the signs that there are."""
    if not isinstance(value, str):
        return value
    word = value.strip().casefold()
    return _CONSTELLATIONS.get(word) or next((sign for sign in SIGNS if sign.casefold() == word), value)


Sign = Annotated[_Name, BeforeValidator(_spelled)]
"""A sign of the western zodiac, by its Latin name."""


class StarPerson(BaseModel):
    """Somebody who wants to know what the stars and the papers say."""

    name: str = Field(min_length=1, max_length=100, description="The person's name")
    sign: Sign = Field(description="The person's star sign")
