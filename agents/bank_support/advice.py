"""What a customer asks, what a model makes of it, and what the bank answers. Data only."""

from pydantic import BaseModel, Field

__all__ = ["Assessment", "SupportAdvice", "SupportRequest"]


class SupportRequest(BaseModel):
    """A question of a customer, as they put it."""

    customer_id: int = Field(ge=1, description="The customer's number")
    query: str = Field(min_length=1, max_length=4_000, description="What the customer wrote, as it is")


class Assessment(BaseModel):
    """What a model thinks of a question; what is done about it is not for the model to decide."""

    advice: str = Field(min_length=1, max_length=4_000, description="Advice for the customer, by their name")
    block_card: bool = Field(description="Whether their card had better be blocked")
    risk: int = Field(ge=0, le=10, description="How great the risk is: 0 none, 10 money is being lost now")


class SupportAdvice(BaseModel):
    """The bank's answer."""

    advice: str = Field(description="Advice for the customer")
    block_card: bool = Field(description="Whether the customer's card was blocked, or had been before")
    risk: int = Field(ge=0, le=10, description="How great the risk is, from 0 to 10")
