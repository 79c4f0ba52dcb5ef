"""A customer: an object with behaviour. What a model may use of it is marked with `@tool`; nothing else is offered."""

from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from goalport import tool

__all__ = ["Customer", "Transaction"]

_MOST = 20


class Transaction(BaseModel):
    """Money that came or went."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    day: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$")
    what: str
    amount: Decimal = Field(max_digits=12, decimal_places=2)
    """What went is negative."""
    pending: bool = False
    """Whether it is announced and not yet booked."""


class Customer(BaseModel):
    """A person who has an account and a card."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: int
    name: str
    opening_balance: Decimal = Field(max_digits=12, decimal_places=2)
    """What was there before the transactions below."""
    transactions: tuple[Transaction, ...] = ()
    """The newest last."""
    card_blocked: bool = False
    internal_note: str = ""
    """For the bank's own people."""

    @tool(read_only=True)
    def balance(
        self, include_pending: Annotated[bool, Field(description="Count what is announced and not yet booked")]
    ) -> str:
        """Get the customer's current balance, in dollars."""
        return f"${self.balance_of(include_pending=include_pending):,.2f}"

    @tool(read_only=True)
    def recent_transactions(self, count: Annotated[int, Field(ge=1, le=_MOST)] = 5) -> list[str]:
        """Get what came and went last, the newest first."""
        return [_line(each) for each in reversed(self.transactions[-count:])]

    @tool(read_only=True)
    def card_status(self) -> str:
        """Get whether the customer's card can be used."""
        return "blocked" if self.card_blocked else "active"

    def balance_of(self, *, include_pending: bool) -> Decimal:
        """The sum of what was there and what came since, in dollars."""
        counted = (each.amount for each in self.transactions if include_pending or not each.pending)
        return sum(counted, start=self.opening_balance)

    def with_card_blocked(self) -> "Customer":
        """The customer after it: for the program, and no tool."""
        return self.model_copy(update={"card_blocked": True})


def _line(transaction: Transaction) -> str:
    pending = ", pending" if transaction.pending else ""
    return f"{transaction.day}: {transaction.what}, {transaction.amount:+,.2f} dollars{pending}"
