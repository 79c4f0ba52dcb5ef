"""An agent that asks a person in each of the kinds that there are but a yes or no. No test is in here."""

from dataclasses import dataclass

from pydantic import BaseModel, Field, SecretStr

from goalport import Export, UserInput, WaitFor, achieves_goal, action, agent
from goalport.agents.domain import VisitedUrl


@dataclass(frozen=True)
class Room:
    id: int
    name: str


class Address(BaseModel):
    city: str = "Bergen"
    street: str


class Guest(BaseModel):
    name: str
    nights: int = Field(1, ge=1)
    home: Address | None = None
    note: str | None = "none"
    code: SecretStr | None = None


class Stay(BaseModel):
    content: str


ROOMS = [Room(12, "Attic"), Room(14, "Garden")]
DRAFT = Guest(name="Ada", nights=2, home=Address(city="Oslo", street="Kirkeveien"), note=None, code=SecretStr("0000"))


@agent(description="Lets rooms")
class Inn:
    @action
    def which(self, user_input: UserInput) -> WaitFor[Room]:
        return WaitFor.choice("Which room?", ROOMS, Room)

    @action
    def why(self, room: Room) -> WaitFor[str]:
        return WaitFor.input("What brings you here?")

    @action
    def deposit(self, reason: str) -> WaitFor[VisitedUrl]:
        return WaitFor.url("Leave a deposit.", "https://example.com/deposit?stay=1")

    @action
    def who(self, paid: VisitedUrl) -> WaitFor[Guest]:
        return WaitFor.form_submission("Is that right?", Guest, prefill=DRAFT)

    @achieves_goal(description="Take a room", export=Export(remote=True, name="take_room"))
    def take(self, room: Room, reason: str, guest: Guest) -> Stay:
        return Stay(content=f"{guest.name}, {guest.nights} nights in {room.name}: {reason}")
