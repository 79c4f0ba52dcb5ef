from dataclasses import replace

import pytest

from goalport.agents.plan import (
    Available,
    Circular,
    Clash,
    Consumer,
    Excluded,
    Explanation,
    Fact,
    GroupAvailable,
    HasRun,
    Holds,
    LastResult,
    Missing,
    NoAnswer,
    Operator,
    Plan,
    PlanGoal,
    PlanningSystem,
    Problem,
    Reliance,
    Supply,
    Unproduced,
    WorldState,
    explain,
    plan,
)
from tests.rooms.plan.toys import deed, goal, problem, world


def typed(name: str, takes: tuple[str, ...], gives: str) -> Operator:
    guards: dict[Fact, bool] = {Available(gives): False, HasRun(name): False}
    needs: dict[Fact, bool] = {Available(kind): True for kind in takes}
    return Operator(name, name, needs | guards, {Available(gives): True, HasRun(name): True}, cost=0.5)


STAR_NEWS = PlanningSystem(
    [
        typed("extract", ("UserInput",), "Person"),
        typed("retrieve", ("Person",), "Horoscope"),
        typed("find", ("Person", "Horoscope"), "Stories"),
        typed("write", ("Person", "Stories", "Horoscope"), "Writeup"),
    ]
)
WRITEUP = PlanGoal("write", {HasRun("write"): True, Available("Writeup"): True}, value=3.0)


def star_news(*true: Fact, unknown: frozenset[Fact] = frozenset(), excluded: str = "") -> Explanation:
    start = WorldState(frozenset(true), unknown)
    return explain(Problem(STAR_NEWS, start, (WRITEUP,), excluded=frozenset({excluded})))


def only_missing(explanation: Explanation) -> Missing:
    (missing,) = explanation.failures[0].missing
    return missing


def test_a_plan_is_explained_by_what_each_step_is_for() -> None:
    explanation = star_news(Available("UserInput"))
    assert explanation.goal is WRITEUP
    assert explanation.summary() == "The goal write is reached by extract, retrieve, find, write (cost 2, net value 1)."
    assert explanation.text().splitlines() == [
        explanation.summary(),
        "  1. extract, for step 2, retrieve: a Person; for step 3, find: a Person; for step 4, write: a Person",
        "  2. retrieve, for step 3, find: a Horoscope; for step 4, write: a Horoscope",
        "  3. find, for step 4, write: a Stories",
        "  4. write, for the goal: a Writeup and that it has run",
        "  There is no other way: each action is needed.",
    ]


def test_the_next_best_plan_is_the_cheapest_that_does_without_one_of_the_actions() -> None:
    ways = [
        deed("fetch", "", "wood", 1.0),
        deed("buy", "", "wood", 3.0),
        deed("build", "wood", "house", 0.5),
        deed("order", "", "house", 9.0),
    ]
    explanation = explain(problem(ways, goal("house")))

    assert explanation.alternative is not None
    assert (explanation.alternative.without, explanation.alternative.dearer_by) == ("fetch", 2.0)
    assert explanation.text().splitlines()[-1] == "  Next best, without fetch: buy, build (cost 3.5, 2 more)."


def test_an_alternative_may_cost_the_same() -> None:
    explanation = explain(problem([deed("one", "", "a"), deed("other", "", "a")], goal("a")))

    assert str(explanation.alternative) == "Next best, without one: other (cost 1, the same)."


def test_where_there_was_no_time_for_another_way_none_is_denied() -> None:
    asked = problem([deed("one", "", "a"), deed("other", "", "a")], goal("a"))
    found = plan(asked)
    assert isinstance(found, Plan)

    explanation = explain(replace(asked, deadline=0.0), found)

    assert explanation.alternative is None
    assert explanation.text().splitlines()[-1] == "  No other way was found in time."


def test_there_is_no_alternative_to_doing_nothing_and_none_where_there_is_no_plan() -> None:
    assert explain(problem([], goal("a"), start=world("a"))).alternative is None
    assert explain(problem([], goal("a"))).alternative is None


def test_each_supply_names_its_fact_and_who_takes_it() -> None:
    steps = explain(
        problem([deed("earn", "", "money"), deed("buy", "money", "!money bread")], goal("bread !money"))
    ).steps
    assert [step.supplies for step in steps] == [
        (Supply(Holds("money"), value=True, to="buy", step=2),),
        (
            Supply(Holds("bread"), value=True, to="bread !money", step=None),
            Supply(Holds("money"), False, "bread !money", None),
        ),
    ]


def test_a_goal_that_holds_needs_no_steps() -> None:
    explanation = star_news(HasRun("write"), Available("Writeup"))
    assert explanation.text() == explanation.summary() == "The goal write is reached already."


def test_no_goals_are_explained_too() -> None:
    explanation = explain(problem([deed("go", "", "a")]))
    assert explanation.goal is None
    assert explanation.text() == explanation.summary() == "There is no goal to plan for."


def test_a_plan_says_which_unknown_conditions_it_relies_on() -> None:
    asked = problem(
        [deed("pay", "verified !blocked", "paid")], goal("paid sober"), start=world(unknown="blocked verified sober")
    )
    explanation = explain(asked)
    assert explanation.relies_on == (
        Reliance(Holds("verified"), value=True, wanted_by="pay"),
        Reliance(Holds("blocked"), value=False, wanted_by="pay"),
        Reliance(Holds("sober"), value=True, wanted_by="paid sober"),
    )
    assert "  pay relies on what is not known yet: it needs condition blocked to be false." in explanation.text()


def test_what_nothing_gives_is_missing_with_those_who_need_it() -> None:
    explanation = star_news()
    missing = only_missing(explanation)
    assert (missing.fact, missing.value, missing.why) == (Available("UserInput"), True, Unproduced())
    assert [consumer.operator.name for consumer in missing.chain] == ["extract", "write"]
    assert explanation.summary() == "The goal write cannot be reached: it needs a UserInput, but no action gives one."
    assert explanation.text().splitlines() == [
        "The goal write cannot be reached.",
        "  It needs a UserInput, but no action gives one.",
        "    To give a Person, extract needs a UserInput; to give a Writeup, write needs a Person.",
    ]


def test_what_a_failed_action_would_give_is_missing_because_it_is_left_out() -> None:
    explanation = star_news(Available("UserInput"), excluded="find")
    assert only_missing(explanation).why == Excluded(("find",))
    assert explanation.summary() == (
        "The goal write cannot be reached: it needs a Stories, but find, which would bring that about, is left out."
    )


def test_an_action_that_is_spent_is_told_with_what_it_would_give() -> None:
    explanation = star_news(Available("UserInput"), HasRun("extract"))
    assert (only_missing(explanation).fact, only_missing(explanation).value) == (HasRun("extract"), False)
    assert explanation.text().splitlines() == [
        "The goal write cannot be reached.",
        "  It needs a Person, but extract, which would give one, has run already.",
        "    To give a Writeup, write needs a Person.",
    ]


def test_what_must_not_be_there_and_cannot_be_cleared_is_named() -> None:
    stale = star_news(Available("Writeup"))
    assert "it needs there to be no Writeup, but there is one, and no action clears it" in stale.summary()


def test_of_two_ways_the_one_that_lacks_less_is_told() -> None:
    ways = [deed("short way", "p q", "a"), deed("long way", "r", "a"), deed("detour", "s", "r")]
    missing = only_missing(explain(problem(ways, goal("a"))))
    assert missing.fact == Holds("s")
    assert [consumer.operator.name for consumer in missing.chain] == ["detour", "long way"]


def test_what_two_steps_lack_in_common_is_told_once() -> None:
    ways = [deed("one", "z", "a"), deed("two", "z", "b")]
    assert [str(each.fact) for each in explain(problem(ways, goal("a b"))).failures[0].missing] == ["condition z"]


def test_actions_that_wait_for_each_other_are_told() -> None:
    missing = only_missing(explain(problem([deed("hen", "egg", "hen"), deed("egg", "hen", "egg")], goal("hen"))))
    assert missing.why == Circular(("hen",))
    assert (
        str(missing) == "it needs condition hen to be true, but hen, which would bring that about, needs the same first"
    )


def test_a_condition_without_an_answer_is_told() -> None:
    missing = only_missing(explain(problem([deed("go", "open", "a")], goal("a"), start=world(undecidable="open"))))
    assert missing.why == NoAnswer()
    assert str(missing).endswith("but it was asked for and there was no answer")


def test_an_action_without_an_output_is_wanted_for_its_run() -> None:
    notify = Operator("notify", "notify", {Holds("a"): True}, {HasRun("notify"): True})
    told = PlanGoal("notify", {HasRun("notify"): True})
    assert only_missing(explain(problem([notify], told))).wanted_by == "to run, notify needs condition a to be true"
    assert str(explain(problem([notify], told, start=world("a"))).steps[0]) == "notify, for the goal: that it has run"


def test_the_goal_itself_may_need_what_nobody_mentions() -> None:
    explanation = explain(problem([], goal("a")))
    assert only_missing(explanation).chain == ()
    assert explanation.text().splitlines()[1:] == [
        "  It needs condition a to be true, but no action makes it true.",
        "    The goal itself needs that.",
    ]


def test_needs_that_can_be_met_but_not_together_clash() -> None:
    steps = [deed("a", "match", "x !match"), deed("b", "match", "y !match")]
    failure = explain(problem(steps, goal("x y"), start=world("match"))).failures[0]
    assert failure.clash == Clash(Holds("match"), value=True, wanted_by="b", undone_by="a")
    assert str(failure) == (
        "The goal x y cannot be reached: each need can be met, but not all of them together: "
        "b needs condition match to be true, and a undoes that."
    )


def test_a_goal_may_clash_with_the_steps_to_it() -> None:
    failure = explain(problem([deed("use up", "match", "x !match")], goal("match x"), start=world("match"))).failures[0]
    assert failure.clash == Clash(Holds("match"), value=True, wanted_by="match x", undone_by="use up")


def test_of_several_goals_out_of_reach_the_nearest_comes_first() -> None:
    explanation = explain(problem([deed("go", "p q", "a")], goal("a"), goal("b")))
    assert [failure.goal.name for failure in explanation.failures] == ["b", "a"]
    assert explanation.goal is explanation.failures[0].goal
    assert explanation.text().count("cannot be reached.") == 2


def test_a_search_that_was_cut_short_claims_nothing() -> None:
    asked = replace(problem([deed("go", "", "a")], goal("a"), goal("b")), deadline=0.0)
    first, second = explain(asked).failures
    assert str(first).startswith("No plan for the goal a was found in the time that planning may take.")
    assert second.missing[0].fact == Holds("b")
    assert explain(asked).text().splitlines()[0] == str(first)


def test_every_kind_of_fact_can_be_missing_in_words() -> None:
    wanted: dict[Fact, bool] = {
        HasRun("ghost"): True,
        LastResult("Message"): True,
        Available("Thing", "thing_one"): True,
        GroupAvailable("web", ("fetch",)): True,
        Holds("quiet"): False,
        LastResult("Noise"): False,
    }
    start = WorldState(frozenset({Holds("quiet"), LastResult("Noise")}))
    operator = Operator("go", "go", wanted, {Holds("a"): True})
    failure = explain(Problem(PlanningSystem([operator]), start, (goal("a"),))).failures[0]
    assert [str(missing) for missing in failure.missing] == [
        "it needs ghost to have run, but there is no such action",
        "it needs a Message as the last result, but no action gives one",
        "it needs a Thing named thing_one, but no action gives one",
        "it needs the tool group web with fetch, but there is none: put such a ToolGroup into tools/",
        "it needs condition quiet to be false, but no action makes it false",
        "it needs there to be no Noise as the last result, but there is one, and no action clears it",
    ]


def test_two_ways_that_are_both_left_out_are_named_together() -> None:
    asked = problem([deed("one", "", "a"), deed("other", "", "a")], goal("!x a"))
    missing = only_missing(explain(replace(asked, excluded=frozenset({"one", "other"}))))
    assert missing.because == "one and other, which would bring that about, are left out"


@pytest.mark.parametrize(
    ("gives", "value", "words"),
    [
        (HasRun("write"), True, "to run"),
        (Available("Story"), True, "to give a Story"),
        (Available("Story"), False, "to leave no Story"),
        (Holds("paid"), False, "to make condition paid false"),
        (HasRun("write"), False, "to bring about that write has not run"),
    ],
)
def test_what_an_action_needs_a_fact_for_is_told_by_what_it_then_gives(gives: Fact, words: str, *, value: bool) -> None:
    assert Consumer(typed("write", (), "Story"), gives, value).purpose == words
