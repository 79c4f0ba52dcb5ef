"""The agent that routes and answers support tickets: `triage_ticket` over MCP, by the rules in `rules.toml`.

`ticket` has what goes in and comes out, `rules` reads the file and weighs a ticket, `clues` finds what a ticket refers
to, `handling` has the states: one way of handling a ticket each. All of it is pure but for reading the file once.
"""

from .agent import TicketTriage

ticket_triage = TicketTriage()
