"""The places of the museum: each a state that asks what to do there and leads to the next.

A place's `ask` is answered by a person, its `go` acts on the answer. `go` clears the blackboard, so that one can come
back to a place and be asked again. At dawn every way leads to the end.
"""

from dataclasses import dataclass, replace
from typing import Literal

from pydantic import BaseModel, Field

from goalport import Export, State, WaitFor, achieves_goal, action

from .endings import EndingName, Tale, tale
from .visit import Visit, Visitor

__all__ = ["Hall"]


class Place(State):
    """Somewhere in the museum."""

    visit: Visit


class InTheHall(BaseModel):
    """What one can do in the hall."""

    choice: Literal["try the front door", "enter the Egyptian room", "follow the smell of tea", "climb to the roof"] = (
        Field(description="What to do in the hall")
    )


class InTheEgyptianRoom(BaseModel):
    """What one can do among the mummies."""

    choice: Literal["open the sarcophagus", "read the small print", "go back to the hall"] = Field(
        description="What to do in the Egyptian room"
    )


class InTheTeaRoom(BaseModel):
    """What one can do where the tea is."""

    choice: Literal[
        "make a pot of tea", "look into the cloakroom", "search the coat of the guard", "go to the hall"
    ] = Field(description="What to do in the tea room")


class OnTheRoof(BaseModel):
    """What one can do on the roof."""

    choice: Literal["jump with what you have", "admire the view", "climb down again"] = Field(
        description="What to do on the roof"
    )


@dataclass(frozen=True)
class Courage:
    """What it takes to open what says that it must not be opened."""


class End(Place):
    """The night is over."""

    ending: EndingName

    @achieves_goal(
        description="A night at the museum, played to its end",
        examples=["I would like to play a game", "Let's have an adventure"],
        export=Export(
            remote=True,
            name="play_adventure",
            title="A night at the museum",
            description=(
                "Play a short text adventure: a person wakes up in a museum after closing time and chooses what to do"
                " until the night has ended in one of five ways. Each answer but the last asks for the person's next"
                " choice: show them the message and the choices, and let them choose."
            ),
            starting_input_types=[Visitor],
            read_only=True,
            open_world=False,
        ),
    )
    def tell(self) -> Tale:
        """Tell how the night ended."""
        return tale(self.visit.name, self.ending, self.visit.choices)


class Hall(Place):
    """Where one wakes up, and where all ways meet."""

    @action
    def ask(self) -> WaitFor[InTheHall]:
        """Ask what to do in the hall."""
        place = (
            "You are in the hall of the museum. The stuffed walrus looks at you as it looks at everybody. There is the"
            " front door, an arch with hieroglyphs, a smell of tea, and a spiral staircase."
        )
        return WaitFor.form_submission(self.visit.told(place), InTheHall)

    @action(clear_blackboard=True)
    def go(self, answer: InTheHall) -> "Hall | EgyptianRoom | TeaRoom | Roof | End":
        """Do it."""
        visit = self.visit.on()
        if answer.choice == "try the front door" and visit.has("a key"):
            return End(visit, "exit")
        if visit.is_over:
            return End(visit, "exhibit")
        match answer.choice:
            case "try the front door":
                return Hall(replace(visit, news="Locked. The walrus could have told you, but nobody asks the walrus."))
            case "enter the Egyptian room":
                return EgyptianRoom(visit)
            case "follow the smell of tea":
                return TeaRoom(visit)
            case "climb to the roof":
                return Roof(visit)


class EgyptianRoom(Place):
    """Where the sarcophagus is."""

    @action
    def ask(self) -> WaitFor[InTheEgyptianRoom]:
        """Ask what to do among the mummies."""
        place = (
            "The Egyptian room. One sarcophagus, well dusted. Someone inside it is snoring, in a dignified way."
            " Beside it is a plate with small print."
        )
        return WaitFor.form_submission(self.visit.told(place), InTheEgyptianRoom)

    @action(clear_blackboard=True)
    def go(self, answer: InTheEgyptianRoom) -> "EgyptianRoom | Sarcophagus | Hall | End":
        """Do it."""
        visit = self.visit.on()
        if visit.is_over:
            return End(visit, "exhibit")
        match answer.choice:
            case "open the sarcophagus":
                return Sarcophagus(visit)
            case "read the small print":
                return EgyptianRoom(replace(visit, news="«Cursed, but fond of company. Bring refreshments.»"))
            case "go back to the hall":
                return Hall(visit)


class Sarcophagus(Place):
    """Where one has to be sure."""

    @action
    def ask(self) -> WaitFor[Courage]:
        """Ask whether one is sure. It is asked once a night: a no stands."""
        return WaitFor.confirmation(Courage(), "Your hands are on the lid. It says «DO NOT OPEN». Open it?")

    @action(clear_blackboard=True)
    def open(self, courage: Courage) -> End:
        """Open it."""
        return End(self.visit, "tea" if self.visit.has("a pot of tea") else "guard")

    @action(clear_blackboard=True, cost=5)
    def step_back(self) -> EgyptianRoom:
        """Leave it closed; what is left when the person said no."""
        news = (
            "You reach for the lid, but it has heard your answer and does not ask twice."
            if self.visit.refused_the_lid
            else "You step back. Somewhere under the lid somebody turns over, disappointed."
        )
        return EgyptianRoom(replace(self.visit, news=news, refused_the_lid=True))


class TeaRoom(Place):
    """Where the useful things are."""

    @action
    def ask(self) -> WaitFor[InTheTeaRoom]:
        """Ask what to do where the tea is."""
        place = (
            "The tea room. A kettle, a cloakroom with what people forgot, and the coat of the guard, who has gone home"
            " without it."
        )
        return WaitFor.form_submission(self.visit.told(place), InTheTeaRoom)

    @action(clear_blackboard=True)
    def go(self, answer: InTheTeaRoom) -> "TeaRoom | Hall | End":
        """Do it."""
        visit = self.visit
        match answer.choice:
            case "make a pot of tea":
                visit = visit.taking(
                    "a pot of tea", "You make a pot of tea. It helps, as it does.", "One pot is plenty."
                )
            case "look into the cloakroom":
                visit = visit.taking("an umbrella", "You find a large umbrella. It hums.", "Only odd gloves are left.")
            case "search the coat of the guard":
                visit = visit.taking("a key", "In a pocket, beside a sandwich: a key.", "You leave him the sandwich.")
            case "go to the hall":
                visit = visit.on()
        if visit.is_over:
            return End(visit, "exhibit")
        return Hall(visit) if answer.choice == "go to the hall" else TeaRoom(visit)


class Roof(Place):
    """Where the wind is."""

    @action
    def ask(self) -> WaitFor[OnTheRoof]:
        """Ask what to do on the roof."""
        place = "The roof. Below you the town is asleep; around you the wind is not."
        return WaitFor.form_submission(self.visit.told(place), OnTheRoof)

    @action(clear_blackboard=True)
    def go(self, answer: OnTheRoof) -> "Roof | Hall | End":
        """Do it."""
        visit = self.visit.on()
        if answer.choice == "jump with what you have" and visit.has("an umbrella"):
            return End(visit, "flight")
        if visit.is_over:
            return End(visit, "exhibit")
        match answer.choice:
            case "jump with what you have":
                return Roof(replace(visit, news="You have nothing to jump with, and, on reflection, you do not."))
            case "admire the view":
                return Roof(replace(visit, news="You can see your house from here. The light is on. Who is that?"))
            case "climb down again":
                return Hall(visit)
