"""The agent: it lets the night begin; everything else is a matter of places."""

from goalport import action, agent

from .places import Hall
from .visit import Visit, Visitor

__all__ = ["NightAtTheMuseum"]


@agent(description="A short text adventure with a person as its hero: a night at the museum")
class NightAtTheMuseum:
    """Leads a person through a night at the museum; it needs no model and remembers nothing afterwards."""

    @action
    def wake_up(self, visitor: Visitor) -> Hall:
        """Wake up in the hall after closing time."""
        return Hall(Visit(visitor.name, news=f"You wake up on a bench, {visitor.name}. The museum has closed."))
