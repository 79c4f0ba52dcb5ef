"""Autonomy: choosing an agent or a goal by what somebody said (user guide, sections 3.1 and 3.16).

Below: processes, models and agents. Above: the platform, which hands itself over, and `publish`, `cli`.
"""

from goalport.autonomy.autonomy import Autonomy, PlannedGoal
from goalport.autonomy.choice import Achieved, Choice
from goalport.autonomy.front_agent import front_agent
from goalport.autonomy.ranking import Candidate, Ranked, Ranker, Ranking
from goalport.autonomy.start_objects import start_objects

__all__ = [
    "Achieved",
    "Autonomy",
    "Candidate",
    "Choice",
    "PlannedGoal",
    "Ranked",
    "Ranker",
    "Ranking",
    "front_agent",
    "start_objects",
]
