"""Goals of every kind for requests of every kind: nested input, questions, results that are no objects, failures."""

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal

import anyio
from pydantic import BaseModel, Field

from goalport import Export, UserInput, WaitFor, achieves_goal, action, agent


class Address(BaseModel):
    street: str
    city: str = "Bergen"


class Line(BaseModel):
    article: Annotated[str, Field(pattern="^[a-z]{2,8}$")]
    pieces: Annotated[int, Field(ge=1, le=99)] = 1


class Delivery(BaseModel):
    to: Address
    lines: Annotated[list[Line], Field(min_length=1, max_length=3)]
    on: date | None = None
    speed: Literal["slow", "fast"] = "slow"
    notes: dict[str, str] = {}


class Parcel(BaseModel):
    content: str
    delivery: Delivery


@agent(description="Sends parcels")
class Post:
    @achieves_goal(description="A parcel", export=Export(remote=True, name="send_parcel"))
    def send(self, delivery: Delivery) -> Parcel:
        return Parcel(content=f"To {delivery.to.city}", delivery=delivery)


class Tree(BaseModel):
    name: str
    branches: list["Tree"] = []


@agent(description="Prunes")
class Gardener:
    @achieves_goal(description="The branches of a tree", export=Export(remote=True, name="prune"))
    def prune(self, tree: Tree) -> list[Tree]:
        return tree.branches


class Nap(BaseModel):
    seconds: Annotated[float, Field(ge=0, le=0.05)]


@agent(description="Takes its time")
class Sleeper:
    @achieves_goal(description="Rest", export=Export(remote=True, name="rest", long=True))
    async def rest(self, nap: Nap) -> int:
        await anyio.sleep(nap.seconds)
        return round(nap.seconds)

    @achieves_goal(description="A dream, which never comes", export=Export(remote=True, name="dream"))
    def dream(self, nap: Nap) -> Address:
        raise RuntimeError("it was only a dream")


@dataclass(frozen=True)
class Room:
    id: int
    name: str


class Guest(BaseModel):
    name: Annotated[str, Field(min_length=1)]
    nights: Annotated[int, Field(ge=1)] = 1
    home: Address | None = None


class Stay(BaseModel):
    content: str


@agent(description="Lets rooms")
class Inn:
    @action
    def which(self, user_input: UserInput) -> WaitFor[Room]:
        return WaitFor.choice("Which room?", [Room(12, "Attic"), Room(14, "Garden")], Room)

    @action
    def who(self, room: Room) -> WaitFor[Guest]:
        return WaitFor.form_submission("Who stays?", Guest)

    @achieves_goal(description="A room", export=Export(remote=True, name="take_room"))
    def take(self, room: Room, guest: Guest) -> Stay:
        return Stay(content=f"{guest.name}: {room.name}")
