"""Goals that ask: in every kind of form, at an address, for a short time only, and only those who follow tasks."""

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, Field

from goalport import Export, UserInput, WaitFor, achieves_goal, action, agent
from goalport.agents.domain import VisitedUrl


@dataclass(frozen=True)
class Room:
    """A room that can be let."""

    id: int
    name: str


class Guest(BaseModel):
    """Who comes, and how."""

    name: str = Field(min_length=2, title="Name", description="Who comes")
    nights: int = Field(ge=1, le=14)
    most: float = Field(gt=0, description="The most that a night may cost")
    meal: Literal["breakfast", "supper"] = "breakfast"
    pets: bool = False
    street: str
    city: str = Field(title="Home: City")


class Extras(BaseModel):
    """What a guest would like besides."""

    wanted: list[Literal["towels", "bicycle", "boat"]]


class Offer(BaseModel):
    """What a stay costs."""

    euros: int


class Stay(BaseModel):
    """What was agreed."""

    content: str


ROOMS = [Room(12, "Attic"), Room(14, "Garden")]
DRAFT = Guest(name="Ada", nights=2, most=99.5, street="Kirkeveien 1", city="Oslo")


@agent(description="Lets rooms")
class Innkeeper:
    """Asks for a choice, a text, a form with a draft, several choices, and a yes."""

    @action
    def which(self, user_input: UserInput) -> WaitFor[Room]:
        return WaitFor.choice("Which room?", ROOMS, Room)

    @action
    def why(self, room: Room) -> WaitFor[str]:
        return WaitFor.input("What brings you here?")

    @action
    def who(self, reason: str) -> WaitFor[Guest]:
        return WaitFor.form_submission("Who comes?", Guest, prefill=DRAFT)

    @action
    def extras(self, guest: Guest) -> WaitFor[Extras]:
        return WaitFor.form_submission("What else?", Extras)

    @action
    def agree(self, guest: Guest, extras: Extras) -> WaitFor[Offer]:
        return WaitFor.confirmation(Offer(euros=90 * guest.nights), f"{90 * guest.nights} euros?")

    @achieves_goal(description="Take a room", export=Export(remote=True, name="take_room"))
    @action
    def take(self, room: Room, reason: str, guest: Guest, extras: Extras, offer: Offer) -> Stay:
        who = f"{guest.name} of {guest.street}, {guest.city}"
        how = f"{guest.nights} nights, {guest.meal}, {guest.most:g} euros at most, pets: {guest.pets}"
        return Stay(content=f"{room.name} for {who}; {how}; with {extras.wanted}; {reason}; {offer.euros} euros")


@agent(description="Lets a room to whoever answers quickly")
class HastyInnkeeper:
    """Asks once, and waits for the answer only a short time."""

    @action
    def which(self, user_input: UserInput) -> WaitFor[Room]:
        return WaitFor.choice("Which room?", ROOMS, Room)

    @achieves_goal(description="Hold a room", export=Export(remote=True, name="hold_room", wait_budget=0.5))
    @action
    def hold(self, room: Room) -> Stay:
        return Stay(content=f"{room.name} is held")


@agent(description="Lets a room to whoever follows tasks")
class PatientInnkeeper:
    """Asks once, in a task."""

    @action
    def which(self, user_input: UserInput) -> WaitFor[Room]:
        return WaitFor.choice("Which room?", ROOMS, Room)

    @achieves_goal(description="Reserve a room", export=Export(remote=True, name="reserve_room", task_required=True))
    @action
    def reserve(self, room: Room) -> Stay:
        return Stay(content=f"{room.name} is reserved")


@agent(description="Takes deposits")
class Cashier:
    """Has a person pay at an address."""

    @action
    def deposit(self, user_input: UserInput) -> WaitFor[VisitedUrl]:
        return WaitFor.url("Leave a deposit.", "https://example.com/deposit?stay=1")

    @achieves_goal(description="Take a deposit", export=Export(remote=True, name="take_deposit"))
    @action
    def take(self, visited: VisitedUrl) -> Stay:
        return Stay(content=f"paid at {visited.url}")
