"""The agent: what is worth most is done first, until a state has answered the ticket.

Finding what a ticket refers to is worth more than routing it, so it is done before; the action of the state that the
route leads to ends it.
"""

from goalport import PlannerType, action, agent

from .clues import Clues, clues_in
from .handling import HANDLINGS, Case, Handling
from .rules import Rules, Urgency
from .ticket import Ticket

__all__ = ["TicketTriage"]


@agent(description="Routes and answers support tickets by rules", planner=PlannerType.UTILITY)
class TicketTriage:
    """Triages support tickets; it needs no model, and its rules are in a file that people edit."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.rules = rules or Rules.read()

    @action(value=0.9, read_only=True)
    def find_clues(self, ticket: Ticket) -> Clues:
        """Find what the ticket refers to, and what it leaves out."""
        return clues_in(ticket)

    @action(value=0.8, read_only=True)
    def gauge(self, ticket: Ticket) -> Urgency:
        """Gauge how urgent the ticket is."""
        return self.rules.urgency(ticket)

    @action(value=0.5, read_only=True)
    def route(self, ticket: Ticket, urgency: Urgency) -> Handling:
        """Choose the route, and with it the way of handling."""
        found = self.rules.route(ticket)
        priority = self.rules.priority(found.route, urgency)
        more = f", {urgency.reason}" if urgency.reason else ""
        why = f" Priority {priority}: {found.route.priority} for the route{more}."
        case = Case(
            ticket,
            found.route,
            priority,
            self.rules.reply_within(priority, ticket.tier),
            found.reason + why,
            tuple(self.rules.articles_for(ticket)),
        )
        return HANDLINGS[found.route.handling](case)
