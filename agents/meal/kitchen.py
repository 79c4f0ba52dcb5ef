"""Who cooks, what is ordered, and the meal."""

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["COOKS", "Cook", "Meal", "Order"]


class Cook(BaseModel):
    """Somebody who can cook."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(min_length=1)
    speciality: str = ""


COOKS = (
    Cook(name="Antonio", speciality="pizza and pasta"),
    Cook(name="Mai", speciality="soups, rice and noodles"),
    Cook(name="Claire", speciality="cakes and desserts"),
)
"""The cooks of the shipped kitchen."""


class Order(BaseModel):
    """What a guest wants."""

    model_config = ConfigDict(frozen=True)

    dish: str = Field(min_length=1)
    quantity: int = Field(ge=1, le=100, description="How many portions")
    guest: str = Field("", description="The name of the guest, if it is known")


class Meal(BaseModel):
    """A meal that is ready."""

    model_config = ConfigDict(frozen=True)

    content: str = Field(description="What is served, to be read to the guest")
    dish: str
    quantity: int
    ordered_by: str
    cooked_by: str
