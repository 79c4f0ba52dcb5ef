"""The agent: a model advises, with the customer's own tools; the program decides about the card.

What a model says of a card counts only as a value of a type, and only together with a risk that is high enough: a text
that talks a model into praise, threats or pleas blocks nothing.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from goalport import Ai, Export, achieves_goal, action, agent
from goalport.errors import BadInput
from goalport.models import Templates

from .advice import Assessment, SupportAdvice, SupportRequest
from .customer import Customer
from .customers import Customers

__all__ = ["BankSupport", "CardPolicy"]

_PROMPTS: Final = Templates(Path(__file__).with_name("prompts"))
_DESCRIPTION: Final = (
    "Answer a customer of the bank: gives advice, a risk from 0 to 10, and whether the customer's card is blocked. It"
    " blocks the card when the risk is high enough, and changes nothing else. Needs the customer's number."
)
_BLOCKED: Final = "Your card has been blocked: it pays nothing any more. We shall send you a new one."


@dataclass(frozen=True, slots=True)
class CardPolicy:
    """When a card is blocked."""

    least_risk: int = 7
    """From 0 to 10."""

    def blocks(self, assessment: Assessment) -> bool:
        """Whether an assessment is reason enough."""
        return assessment.block_card and assessment.risk >= self.least_risk


@agent(description="Support customers of a bank")
class BankSupport:
    """Answers one question of one customer; a model sees that customer alone."""

    def __init__(self, customers: Customers, policy: CardPolicy | None = None) -> None:
        self.customers = customers
        self.policy = policy or CardPolicy()

    @action(read_only=True)
    async def find_customer(self, request: SupportRequest) -> Customer:
        """Find who asks."""
        customer = await self.customers.find(request.customer_id)
        if customer is None:
            raise BadInput(f"customer_id: there is no customer {request.customer_id}. Ask for their number.")
        return customer

    @action(read_only=True)
    async def assess(self, request: SupportRequest, customer: Customer, ai: Ai) -> Assessment:
        """Have a model judge the question; it may look things up about this customer."""
        prompt = _PROMPTS.render("assess", {"name": customer.name, "query": request.query})
        return await ai.with_tool_objects(customer).create_object(prompt, Assessment)

    @achieves_goal(
        description="Advise a customer of the bank, and block their card if need be",
        tags=["bank", "support"],
        examples=["What is my balance?", "I just lost my card!"],
        export=Export(
            remote=True,
            name="support_customer",
            title="Support a customer of the bank",
            description=_DESCRIPTION,
            starting_input_types=[SupportRequest],
            read_only=False,
            destructive=True,
            open_world=False,
        ),
    )
    @action
    async def advise(self, customer: Customer, assessment: Assessment) -> SupportAdvice:
        """Do what the policy says about the card, and answer."""
        blocks = self.policy.blocks(assessment) and not customer.card_blocked
        if blocks:
            await self.customers.block_card(customer.id)
        told = f"{assessment.advice}\n\n{_BLOCKED}" if blocks else assessment.advice
        return SupportAdvice(advice=told, block_card=blocks or customer.card_blocked, risk=assessment.risk)
