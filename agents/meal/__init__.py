"""The agent that prepares a meal as its guest orders it: `prepare_meal` over MCP.

It is the example of a supervisor agent in docs/planning.md: a model chooses which action comes next. `kitchen` has what
goes in between and out, `agent` the actions.
"""

from .agent import MealPreparation

meal_preparation = MealPreparation()
