"""What goes in and what comes out: a support ticket, and the ticket as it was routed and answered. Data only."""

from typing import Literal

from pydantic import BaseModel, Field

__all__ = ["PRIORITIES", "Priority", "RoutedTicket", "Ticket", "Tier"]

Tier = Literal["free", "standard", "premium"]
Priority = Literal["low", "normal", "high", "urgent"]
PRIORITIES: tuple[Priority, ...] = ("low", "normal", "high", "urgent")


class Ticket(BaseModel):
    """A request for support, as the customer wrote it."""

    subject: str = Field(min_length=1, max_length=300, description="The subject line")
    body: str = Field("", max_length=20_000, description="What the customer wrote, as it is")
    tier: Tier = Field("standard", description="What the customer has: it decides how soon they are answered")
    customer: str = Field("", max_length=100, description="The customer's name, for the salutation")


class RoutedTicket(BaseModel):
    """A ticket that has a queue, a priority, a first reply, and the reason for all of it."""

    content: str = Field(description="All of it in short, for a person")
    route: str
    queue: str
    priority: Priority
    reply_within_hours: float
    reason: str = Field(description="Which rules spoke for this route and this priority")
    reply: str = Field(description="A first reply to the customer, to be sent or edited")
    next_steps: list[str] = Field(description="What whoever takes the ticket does first")
    references: list[str] = Field(description="Numbers, versions and addresses that the ticket names")
