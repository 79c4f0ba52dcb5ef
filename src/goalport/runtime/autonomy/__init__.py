"""Autonomy: choosing an agent or a goal by what somebody said (user guide, sections 3.1 and 3.16).

Below: processes, models and agents. Above: the platform, which passes itself in, and `publish`, `cli`.
"""

from goalport.runtime.autonomy.autonomy import (
    Achieved,
    Autonomy,
    Candidate,
    Choice,
    FrontAgent,
    PlannedGoal,
    Ranked,
    Ranker,
    Ranking,
    start_objects,
)

__all__ = [
    "Achieved",
    "Autonomy",
    "Candidate",
    "Choice",
    "FrontAgent",
    "PlannedGoal",
    "Ranked",
    "Ranker",
    "Ranking",
    "start_objects",
]
