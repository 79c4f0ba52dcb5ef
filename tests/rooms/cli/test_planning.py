"""`goalport plan` and what `goalport check` finds in how actions fit together."""

import json
import re
from pathlib import Path

import pytest

from tests.rooms.cli.conftest import Command

PARTY = """
from goalport import Export, PlannerType, UserInput, achieves_goal, action, agent

class Guest: ...
class Cake: ...
class Party: ...

class Hosts:
    @action(cost=0.2)
    def invite(self, user_input: UserInput) -> Guest:
        return Guest()

    @action(cost=0.1)
    def bake(self, user_input: UserInput) -> Cake:
        return Cake()

    @action(cost=0.5)
    def buy(self, user_input: UserInput) -> Cake:
        return Cake()

    @achieves_goal(description="Celebrate", export=Export(starting_input_types=[UserInput]))
    @action
    def celebrate(self, guest: Guest, cake: Cake) -> Party:
        return Party()

@agent(description="Hosts parties")
class Host(Hosts): ...

@agent(description="Improvises", planner=PlannerType.UTILITY)
class Improviser(Hosts): ...

@agent(description="Cannot bake")
class Guestless:
    @achieves_goal(description="Celebrate alone", export=Export(starting_input_types=[UserInput]))
    @action(pre=["hungry"])
    def feast(self, cake: Cake) -> Party:
        return Party()
"""


def test_the_next_best_plan_is_told_with_what_it_costs_more(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "party.py").write_text(PARTY)

    ran = goalport("plan", "Host.celebrate", "--workspace", str(workspace))

    assert ran.code == 0
    assert "  Next best, without bake: " in ran.out
    assert "(cost 0.7, 0.4 more)." in ran.out


def test_a_plan_is_a_line_for_each_step_with_what_it_takes_and_gives(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "party.py").write_text(PARTY)

    ran = goalport("plan", "Host.celebrate", "--workspace", str(workspace))

    assert ran.out.splitlines()[:4] == [
        "celebrate of Host, from UserInput: 3 steps, cost 0.3, net value -0.3",
        "  1. invite       UserInput → Guest",
        "  2. bake         UserInput → Cake",
        "  3. celebrate  Guest, Cake → Party, the goal",
    ]
    assert ran.out.count("Host") == 1


def test_of_a_utility_agent_it_is_said_that_it_may_go_another_way(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "party.py").write_text(PARTY)

    ran = goalport("plan", "Improviser.celebrate", "--workspace", str(workspace))

    assert "A utility agent takes the best step of the moment" in ran.out


def test_programs_get_the_plan_its_reasons_and_the_alternative_as_json(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "party.py").write_text(PARTY)

    ran = goalport("plan", "Host.celebrate", "--format", "json", "--workspace", str(workspace))

    (way,) = json.loads(ran.out)
    assert (way["agent"], way["goal"], way["given"], way["reachable"]) == (
        "Host",
        "Host.celebrate",
        ["UserInput"],
        True,
    )
    assert way["plan"] == {
        "actions": ["Host.invite", "Host.bake", "Host.celebrate"],
        "cost": 0.3,
        "net_value": -0.3,
        "proven": True,
    }
    assert way["steps"][1]["for"] == [{"step": 3, "to": "Host.celebrate", "what": "a Cake"}]
    assert (way["alternative"]["without"], way["alternative"]["dearer_by"]) == ("Host.bake", 0.4)
    assert way["failures"] == []


def test_programs_get_what_is_missing_with_the_same_keys(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "party.py").write_text(PARTY)

    reached = goalport("plan", "Host.celebrate", "--format", "json", "--workspace", str(workspace))
    missed = goalport("plan", "Guestless.feast", "--format", "json", "--workspace", str(workspace))

    (way,) = json.loads(missed.out)
    assert missed.code == 1
    assert way.keys() == json.loads(reached.out)[0].keys()
    assert (way["reachable"], way["plan"], way["alternative"], way["steps"]) == (False, None, None, [])
    facts = {each["fact"]: each["because"] for each in way["failures"][0]["missing"]}
    assert facts["a Cake"] == "no action gives one"


def test_a_plan_is_drawn_with_what_each_step_gives(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "party.py").write_text(PARTY)

    ran = goalport("plan", "Host.celebrate", "--format", "mermaid", "--workspace", str(workspace))

    lines = [line.strip() for line in ran.out.splitlines()]
    assert lines[:2] == ["flowchart LR", 'subgraph w1["Host.celebrate from UserInput"]']
    assert 'w1s2["Host.bake"]' in lines
    assert 'w1s2 -->|"a Cake"| w1s3' in lines
    assert 'w1s3 -->|"a Party"| w1goal' in lines
    assert lines.count("end") == 1


def test_each_start_has_its_part_of_the_picture(goalport: Command, workspace: Path) -> None:
    ran = goalport("plan", "greet", "--format", "mermaid", "--workspace", str(workspace))

    assert ran.out.count("subgraph ") == 2
    assert ran.out.count("flowchart") == 1


def test_what_is_missing_is_drawn_too(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "party.py").write_text(PARTY)

    ran = goalport("plan", "Guestless.feast", "--format", "mermaid", "--workspace", str(workspace))

    assert ran.code == 1
    assert '["a Cake<br/>no action gives one"]:::missing' in ran.out
    assert '["Guestless.feast"]' in ran.out
    assert "--> w1goal" in ran.out


def test_needs_that_clash_are_drawn_as_what_is_missing(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "torn.py").write_text(
        "from goalport import UserInput, achieves_goal, action, agent\n\n"
        "class Left: ...\n"
        "class Right: ...\n"
        "class Both: ...\n\n"
        '@agent(description="Cannot have both")\n'
        "class Torn:\n"
        "    @action(clear_blackboard=True)\n"
        "    def left(self, user_input: UserInput) -> Left: ...\n\n"
        "    @action(clear_blackboard=True)\n"
        "    def right(self, user_input: UserInput) -> Right: ...\n\n"
        '    @achieves_goal(description="Have both")\n'
        "    def both(self, left: Left, right: Right) -> Both: ...\n"
    )

    ran = goalport("plan", "both", "--given", "UserInput", "--format", "mermaid", "--workspace", str(workspace))

    assert ran.code == 1
    assert "each need can be met, but not all of them together" in ran.out
    assert "]:::missing --> w1goal" in ran.out


def test_check_names_the_place_and_the_fix_of_what_cannot_work(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "party.py").write_text(PARTY)

    ran = goalport("check", "--workspace", str(workspace))

    problems = [line for line in ran.out.splitlines() if line.startswith("problem: ")]
    assert ran.code == 1
    assert len(problems) == 2
    assert all("agents.party: Guestless.feast (" in line and "party.py:3" in line for line in problems)
    assert "somebody to decide the condition 'hungry'" in ran.out
    assert "a way to the goal Guestless.feast from UserInput" in ran.out


def test_check_names_both_places_of_a_clash_between_what_is_planned_together(
    goalport: Command, workspace: Path
) -> None:
    for module in ("one", "two"):
        (workspace / "agents" / f"{module}.py").write_text(
            "from goalport import UserInput, action, component\n\n"
            "class Note: ...\n\n"
            f'@component(name="{module}")\n'
            "class Lent:\n"
            "    @action\n"
            "    def note(self, user_input: UserInput) -> Note:\n"
            "        return Note()\n"
        )

    ran = goalport("check", "--workspace", str(workspace), "--format", "json")

    found = json.loads(ran.out)
    assert ran.code == 1
    assert any("one.py:7" in each and "two.py:7" in each and "'Lent.note'" in each for each in found["problems"])


PLAIN = """
from dataclasses import dataclass
from typing import Callable
from goalport import Export, UserInput, achieves_goal, action, agent

@dataclass
class Search:
    rank: Callable[[str], float]

@dataclass
class Hit:
    text: str

@agent(description="Searches")
class Searcher:
    @action
    def prepare(self, user_input: UserInput) -> Search:
        return Search(len)

    @achieves_goal(description="Find", export=Export(remote=True, name="find", read_only=True))
    def find(self, search: Search) -> Hit:
        return Hit("here")
"""


def test_check_names_the_action_and_the_fix_of_what_a_store_that_outlives_the_program_cannot_write(
    goalport: Command, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "agents" / "searchers.py").write_text(PLAIN)
    said = (
        r"agents\.searchers: Searcher\.prepare \(.*searchers\.py:\d+\) makes Search, so its process ends with the"
        r" program: Search\.rank \(.*\) cannot be stored: code is not stored\. Keep what it works on"
    )
    monkeypatch.setenv("GOALPORT_STORE", "memory")
    ran = goalport("check", "--workspace", str(workspace))
    assert ran.code == 0
    assert re.search(f"^note: .*{said}", ran.out, re.MULTILINE)
    monkeypatch.delenv("GOALPORT_STORE")
    ran = goalport("check", "--workspace", str(workspace))
    assert ran.code == 1
    assert re.search(f"^warning: .*{said}", ran.out, re.MULTILINE)
    assert goalport("check", "--allow-warnings", "--workspace", str(workspace)).code == 0
    assert not (workspace / ".goalport").exists()


CONTEST = """
from goalport.runtime.workflow import ScatterGatherBuilder

class Joke: ...
class Best: ...

def dry() -> Joke:
    return Joke()

def wry() -> Joke:
    return Joke()

scatter = ScatterGatherBuilder.returning(Best).from_elements(Joke).generated_by([dry, wry], max_concurrency=1)
contest = scatter.consolidated_by(lambda jokes: Best()).build_agent("Contest", "Finds the best joke")
"""


def test_the_steps_of_an_opaque_agent_say_what_they_do(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "contest.py").write_text(CONTEST)

    ran = goalport("plan", "Contest.consolidate", "--workspace", str(workspace))

    assert ran.out.splitlines()[1:5] == [
        "  1. generate            nothing → Gathered[Joke]",
        "     Runs 2 functions, 1 at once: dry, wry",
        "  2. consolidate  Gathered[Joke] → Best, the goal",
        "     Makes the result of them with a lambda",
    ]


GUARDED = """
from goalport import Export, UserInput, achieves_goal, agent

@agent(description="Pays", access="finance:read")
class Cashier:
    @achieves_goal(description="Pay", export=Export(remote=True, name="pay", scopes=["finance:write", "audit"]))
    def pay(self, said: UserInput) -> str:
        return "paid"
"""


def test_a_plan_says_who_may_run_its_actions(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "cashier.py").write_text(GUARDED)

    planned = goalport("plan", "Cashier.pay", "--workspace", str(workspace))

    assert "     runs only for callers with finance:read\n" in planned.out


AUTHOR = """
from goalport import Ai, UserInput, WaitFor, achieves_goal, action, agent, condition

class Draft: ...
class Consent: ...
class Book: ...

@agent(description="Writes")
class Author:
    @action(post=["good"], cost=0.1)
    def write(self, user_input: UserInput, ai: Ai) -> Draft:
        return Draft()

    @condition
    def good(self, draft: Draft) -> bool:
        return True

    @action(pre=["!good"], post=["good"], can_rerun=True)
    def revise(self, draft: Draft) -> Draft:
        return draft

    @action
    def ask(self, draft: Draft) -> WaitFor[Consent]:
        return WaitFor.form_submission("May it be printed?", Consent)

    @achieves_goal(description="Publish")
    @action(pre=["good"])
    def publish(self, draft: Draft, consent: Consent) -> Book:
        return Book()

@agent(description="Pays")
class Payer:
    @condition
    def rich(self, user_input: UserInput) -> bool:
        return True

    @action(pre=["rich"])
    def buy(self, user_input: UserInput) -> Draft:
        return Draft()

    @action(cost=0.5)
    def make(self, user_input: UserInput) -> Draft:
        return Draft()

    @achieves_goal(description="Print")
    @action
    def print(self, draft: Draft) -> Book:
        return Book()

@agent(description="Sorts")
class Sorter:
    @action
    def sort(self, user_input: UserInput) -> Draft | Consent:
        return Draft()

    @achieves_goal(description="File")
    @action(tool_groups=["web"])
    def file(self, draft: Draft) -> Book:
        return Book()
"""
SERVERS = '{"mcpServers": {"fetch": {"command": "uvx", "args": ["mcp-server-fetch"]}}}'


def planned(goalport: Command, workspace: Path, goal: str, *options: str) -> str:
    (workspace / "agents" / "author.py").write_text(AUTHOR)
    (workspace / "mcp_config.json").write_text(SERVERS)
    ran = goalport("plan", goal, "--given", "UserInput", *options, "--workspace", str(workspace))
    assert ran.code == 0, ran.err
    return ran.out


def test_a_plan_says_which_steps_ask_a_person_a_model_or_a_server(goalport: Command, workspace: Path) -> None:
    book = planned(goalport, workspace, "Author.publish").splitlines()[1:4]
    file = planned(goalport, workspace, "Sorter.file").splitlines()[1:3]

    asked = [each.partition("; asks ")[2] for each in (*book, *file)]
    assert asked == ["a model", "a person", "", "", "the servers of 'web'"]


def test_a_plan_says_how_it_goes_on_where_a_condition_or_a_result_turns_out_otherwise(
    goalport: Command, workspace: Path
) -> None:
    assert "  If the condition good is false after write: ask, revise, publish.\n" in planned(
        goalport, workspace, "Author.publish"
    )
    assert "  If the condition rich is false: make, print.\n" in planned(goalport, workspace, "Payer.print")
    assert "  If it is sort → Consent: the goal cannot be reached.\n" in planned(goalport, workspace, "Sorter.file")


def test_programs_get_who_is_asked_and_the_branches_as_json(goalport: Command, workspace: Path) -> None:
    (way,) = json.loads(planned(goalport, workspace, "Author.publish", "--format", "json"))
    assert [each["asks"] for each in way["steps"]] == [["a model"], ["a person"], []]
    (branch,) = way["branches"]
    assert branch["if"] == "the condition good is false after Author.write"
    assert branch["plan"]["actions"] == ["Author.ask", "Author.revise", "Author.publish"]


def test_check_names_both_lines_of_two_methods_with_one_name(goalport: Command, workspace: Path) -> None:
    method = "    @achieves_goal(description='Tells')\n    def tell(self, said: UserInput) -> str:\n        return ''\n"
    head = "from goalport import UserInput, achieves_goal, agent\n@agent(description='Tells')\nclass Teller:\n"
    (workspace / "agents" / "teller.py").write_text(head + method + method)

    ran = goalport("check", "--workspace", str(workspace))

    assert ran.code == 1
    assert "Teller (" in ran.out
    assert "tell is defined in line 5 and again in line 8, and Python keeps the second alone" in ran.out


def test_lists_warn_of_what_could_not_be_loaded(goalport: Command, workspace: Path) -> None:
    (workspace / "agents" / "torn.py").write_text("raise RuntimeError('torn')\n")

    ran = goalport("agents", "--workspace", str(workspace))

    assert ran.code == 0
    assert "warning: " in ran.err
    assert "torn.py:1" in ran.err
