"""A goal that sends a person to another page: what clients with addresses call."""

from pydantic import BaseModel

from goalport import Export, WaitFor, achieves_goal, action, agent
from goalport.domain import VisitedUrl


class Bill(BaseModel):
    """What is to be paid."""

    euros: int


class Receipt(BaseModel):
    """What was paid."""

    content: str


@agent(description="Has bills paid")
class Cashier:
    """Asks a person to pay where no model reads what they enter."""

    @action
    def send(self, bill: Bill) -> WaitFor[VisitedUrl]:
        return WaitFor.url(f"Pay {bill.euros} euros there", f"https://bank.example/pay/{bill.euros}")

    @achieves_goal(description="Pay a bill", export=Export(remote=True, name="pay_bill"))
    @action
    def paid(self, bill: Bill, visited: VisitedUrl) -> Receipt:
        return Receipt(content=f"{bill.euros} euros were paid at {visited.url}")
