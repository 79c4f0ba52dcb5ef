"""The actions of the kitchen. A supervisor model chooses which comes next; it may choose several at once."""

from collections.abc import Sequence

from goalport import Ai, Export, PlannerType, UserInput, achieves_goal, action, agent

from .kitchen import COOKS, Cook, Meal, Order

__all__ = ["MealPreparation"]


@agent(description="Prepares a meal as a guest orders it", planner=PlannerType.SUPERVISOR)
class MealPreparation:
    """Asks a model who cooks, what is ordered, and how the meal is announced."""

    def __init__(self, cooks: Sequence[Cook] = COOKS) -> None:
        self.cooks = tuple(cooks)

    @action(read_only=True)
    async def choose_cook(self, user_input: UserInput, ai: Ai) -> Cook | None:
        """Choose the cook who suits the order best."""
        known = "\n".join(f"- {each.name}: {each.speciality}" for each in self.cooks)
        prompt = (
            f"Choose the cook for this order.\n\n<cooks>\n{known}\n</cooks>\n<order>\n{user_input.content}\n</order>"
        )
        chosen = await ai.create_object(prompt, Cook)
        return next((each for each in self.cooks if each.name.casefold() == chosen.name.casefold()), None)

    @action(read_only=True)
    async def take_order(self, user_input: UserInput, ai: Ai) -> Order | None:
        """Note the dish, how many portions, and for whom."""
        prompt = f"Take the order of a guest.\n\n<order>\n{user_input.content}\n</order>"
        return await ai.create_object_if_possible(prompt, Order)

    @achieves_goal(
        description="Prepare the meal that a guest orders",
        export=Export(
            remote=True, name="prepare_meal", starting_input_types=[UserInput], read_only=True, open_world=False
        ),
        examples=["Nina wants two pizzas", "A carrot cake for six, please"],
    )
    @action(read_only=True)
    async def prepare_meal(self, cook: Cook, order: Order, ai: Ai) -> Meal:
        """Cook the meal according to the order, and announce it."""
        guest = f" for {order.guest}" if order.guest else ""
        prompt = (
            f"In one sentence, {cook.name} announces that the meal is ready: {order.quantity} x {order.dish}{guest}."
        )
        announced = await ai.generate_text(prompt)
        return Meal(
            content=announced,
            dish=order.dish,
            quantity=order.quantity,
            ordered_by=order.guest,
            cooked_by=cook.name,
        )
