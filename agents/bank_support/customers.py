"""Where customers are found: a protocol, and a file of a few invented ones for trying it.

Put the bank's own system in its place with `BankSupport(MyCustomers())`.
"""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field

from .customer import Customer

__all__ = ["Customers", "CustomersOfFile"]

_FILE: Final = Path(__file__).with_name("customers.toml")


class Customers(Protocol):
    """Knows the customers of a bank, and can act for them."""

    async def find(self, customer_id: int, /) -> Customer | None:
        """The customer of that number, as they are now; None: there is none."""
        ...

    async def block_card(self, customer_id: int, /) -> None:
        """Let the customer's card pay nothing any more. Blocking it again does no harm."""
        ...


class _Contents(BaseModel):
    model_config = ConfigDict(extra="forbid")

    customers: list[Customer] = Field(alias="customer")


class CustomersOfFile:
    """Customers that were read from a file; what is done is remembered until the server ends, and not written back."""

    def __init__(self, customers: Iterable[Customer]) -> None:
        self._customers = {each.id: each for each in customers}

    @classmethod
    def read(cls, path: Path = _FILE) -> Self:
        """The customers of a file. Raises `ValueError` that names the file and what is wrong in it."""
        try:
            return cls(_Contents.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))).customers)
        except ValueError as error:
            raise ValueError(f"The customers in {path} need correcting: {error}") from None

    async def find(self, customer_id: int, /) -> Customer | None:
        return self._customers.get(customer_id)

    async def block_card(self, customer_id: int, /) -> None:
        self._customers[customer_id] = self._customers[customer_id].with_card_blocked()
