"""Utility agents (section 3.18.1): what is worth most is done next, by whoever contributed it."""

from dataclasses import dataclass, field

import pytest

from goalport import (
    ActionContext,
    AgentPlatform,
    AgentProcess,
    PlannerType,
    ProcessOptions,
    ProcessStatus,
    State,
    achieves_goal,
    action,
    agent,
    component,
    state,
)
from goalport.agents import NIRVANA
from goalport.events import Event, PlanFormulated
from goalport.runtime import Completed, Stuck

BY_UTILITY = ProcessOptions(planner=PlannerType.UTILITY)


def ran(process: AgentProcess) -> list[str]:
    return [each.action.rpartition(".")[2] for each in process.history]


@dataclass(frozen=True)
class Issue:
    id: int
    title: str


@dataclass(frozen=True)
class NewEntity:
    new_entities: tuple[object, ...] = ()


@dataclass(frozen=True)
class IssueAssessment:
    urgency: float


@dataclass
class Community:
    """What is known of issues already, and what was done about urgent ones."""

    known: set[int] = field(default_factory=set[int])
    alarms: list[str] = field(default_factory=list[str])


@component
class IssueActions:
    def __init__(self, community: Community) -> None:
        self.community = community

    @action(output_binding="gh_issue", value=0.5)
    async def save_new_issue(self, issue: Issue, context: ActionContext) -> Issue | None:
        if issue.id in self.community.known:
            return None
        self.community.known.add(issue.id)
        context += NewEntity((issue,))
        return issue

    @action(pre=["expr: newEntity.new_entities | select('instance_of', 'Issue') | size > 0"], value=0.4)
    async def react_to_new_issue(self, issue: Issue, new_entity: NewEntity) -> IssueAssessment:
        return IssueAssessment(0.9 if "crash" in issue.title else 0.0)

    @action(pre=["expr: issueAssessment.urgency > 0.0"], value=0.3)
    async def heavy_hitter_issue(self, issue: Issue, assessment: IssueAssessment) -> None:
        self.community.alarms.append(issue.title)


@pytest.mark.parametrize(
    ("issue", "actions", "alarms"),
    [
        (Issue(1, "typo"), ["save_new_issue", "react_to_new_issue"], []),
        (Issue(2, "crash"), ["save_new_issue", "react_to_new_issue", "heavy_hitter_issue"], ["crash"]),
        (Issue(7, "crash"), ["save_new_issue"], []),
    ],
    ids=["new", "new and urgent", "known"],
)
async def test_each_reaction_depends_on_what_was_found_out(issue: Issue, actions: list[str], alarms: list[str]) -> None:
    community = Community(known={7})
    process = await AgentPlatform([IssueActions(community)]).run("IssueActions", issue, options=BY_UTILITY)
    assert process.status is ProcessStatus.STUCK
    assert ran(process) == actions
    assert community.alarms == alarms


async def test_the_output_is_bound_under_the_name_that_was_given() -> None:
    process = await AgentPlatform([IssueActions(Community())]).run("IssueActions", Issue(1, "typo"), options=BY_UTILITY)
    assert process.blackboard.get("gh_issue") == Issue(1, "typo")


@component
class Labels:
    """Another team's reaction to the same type."""

    @action(cost=0.1, value=0.8)
    async def label(self, issue: Issue, context: ActionContext) -> None:
        context.add(f"label for {issue.title}")


@agent(description="Reacts to issues with what all teams contribute", planner=PlannerType.UTILITY)
class Shepherd:
    @action(cost=0.9, value=0.95)
    async def greet(self, issue: Issue) -> None: ...


async def test_actions_of_several_components_compete_by_value_less_cost() -> None:
    platform = AgentPlatform([Shepherd, IssueActions(Community()), Labels])
    process = await platform.run("Shepherd", Issue(2, "crash"))
    assert ran(process) == ["label", "save_new_issue", "react_to_new_issue", "heavy_hitter_issue", "greet"]


class Plans:
    """Hears what each plan is for."""

    def __init__(self) -> None:
        self.goals: list[str] = []
        self.lengths: list[int] = []

    def on_event(self, event: Event) -> None:
        if isinstance(event, PlanFormulated):
            self.goals.append(event.goal)
            self.lengths.append(len(event.steps))


async def test_nirvana_is_never_reached_and_keeps_the_process_at_work_until_nothing_can_be_done() -> None:
    heard = Plans()
    platform = AgentPlatform([Shepherd, IssueActions(Community())], listeners=[heard])
    process = await platform.run("Shepherd", Issue(2, "crash"))
    assert heard.goals == [NIRVANA.name] * 4
    assert heard.lengths == [1] * 4
    assert isinstance(process.outcome, Stuck)
    assert process.outcome.reason.startswith("Nothing is left to do after IssueActions.save_new_issue")


@dataclass(frozen=True)
class Ticket:
    id: str
    description: str


@dataclass(frozen=True)
class ResolvedTicket:
    id: str
    resolution: str
    handled_by: str


@state
class TicketCategory:
    """The base of the states that tickets are classified into."""


@dataclass(frozen=True)
class CriticalTicket(TicketCategory):
    ticket: Ticket

    @achieves_goal(description="Handle a critical ticket")
    @action
    async def handle_critical(self) -> ResolvedTicket:
        return ResolvedTicket(self.ticket.id, "Escalated", "CRITICAL_RESPONSE_TEAM")


@dataclass(frozen=True)
class BugTicket(TicketCategory):
    ticket: Ticket

    @achieves_goal(description="Handle a bug report")
    @action
    async def handle_bug(self) -> ResolvedTicket:
        return ResolvedTicket(self.ticket.id, "Logged", "ENGINEERING_TEAM")


@dataclass(frozen=True)
class GeneralTicket(TicketCategory):
    ticket: Ticket

    @achieves_goal(description="Handle a general inquiry")
    @action
    async def handle_general(self) -> ResolvedTicket:
        return ResolvedTicket(self.ticket.id, "Answered", "SUPPORT_TEAM")


@agent(description="Sorts and processes tickets", planner=PlannerType.UTILITY)
class TicketTriageAgent:
    @action
    async def triage_ticket(self, ticket: Ticket) -> TicketCategory:
        text = ticket.description.lower()
        if "down" in text:
            return CriticalTicket(ticket)
        return BugTicket(ticket) if "bug" in text else GeneralTicket(ticket)


@pytest.mark.parametrize(
    ("description", "team", "step"),
    [
        ("Site is DOWN", "CRITICAL_RESPONSE_TEAM", "handle_critical"),
        ("A bug in the form", "ENGINEERING_TEAM", "handle_bug"),
        ("How do I log in?", "SUPPORT_TEAM", "handle_general"),
    ],
)
async def test_the_classification_decides_which_goal_is_reached(description: str, team: str, step: str) -> None:
    process = await AgentPlatform([TicketTriageAgent]).run("TicketTriageAgent", Ticket("T-1", description))
    assert process.result_of_type(ResolvedTicket).handled_by == team
    assert ran(process) == ["triage_ticket", step]
    assert process.last(Ticket) == Ticket("T-1", description)


class Mood(State): ...


@dataclass(frozen=True)
class Walk:
    miles: int


class Rested(Mood):
    @action(value=0.9)
    def go(self) -> "Tired":
        return Tired()

    @action(value=0.8)
    def run_about(self) -> Walk:
        raise AssertionError


class Tired(Mood):
    @achieves_goal(description="Sleep")
    @action(value=0.1)
    def sleep(self) -> ResolvedTicket:
        return ResolvedTicket("", "", "bed")


@agent(description="Gets tired", planner=PlannerType.UTILITY)
class Dog:
    @action
    def wake(self, ticket: Ticket) -> Rested:
        return Rested()


async def test_what_could_still_be_done_in_a_state_that_was_left_is_done_no_more() -> None:
    process = await AgentPlatform([Dog]).run("Dog", Ticket("", ""))
    assert isinstance(process.outcome, Completed)
    assert ran(process) == ["wake", "go", "sleep"]


@dataclass(frozen=True)
class Reading:
    value: int


@dataclass(frozen=True)
class Chart:
    text: str


@agent(description="Charts readings")
class Charts:
    """The same steps under both planners: one looks ahead, the other takes what pays now."""

    @action(cost=0.9)
    async def smooth(self, issue: Issue) -> Reading:
        return Reading(1)

    @achieves_goal(description="Chart")
    @action(cost=0.1)
    async def draw(self, reading: Reading) -> Chart:
        return Chart(str(reading.value))

    @action(value=0.9)
    async def admire(self, issue: Issue) -> Walk:
        return Walk(0)


async def test_a_goal_planner_leaves_out_what_a_utility_planner_does_because_it_pays() -> None:
    platform = AgentPlatform([Charts])
    ahead = await platform.run("Charts", Issue(1, ""))
    greedy = await platform.run("Charts", Issue(1, ""), options=BY_UTILITY)
    assert ran(ahead) == ["smooth", "draw"]
    assert ran(greedy) == ["admire", "smooth", "draw"]
