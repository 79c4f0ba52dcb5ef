"""The agents that the tables call: one that answers at once, one that sleeps."""

from asyncio import sleep

from pydantic import BaseModel

from goalport import Export, achieves_goal, agent


class Person(BaseModel):
    name: str


class Greeting(BaseModel):
    text: str


class Nap(BaseModel):
    seconds: float


class Slept(BaseModel):
    text: str


@agent(description="Greet people")
class Greeter:
    @achieves_goal(
        description="Greet a person", export=Export(remote=True, name="greet", starting_input_types=[Person])
    )
    async def greet(self, person: Person) -> Greeting:
        return Greeting(text=f"Hello, {person.name}!")


@agent(description="Sleep for a while")
class Sleeper:
    @achieves_goal(description="Sleep", export=Export(remote=True, name="sleep", starting_input_types=[Nap]))
    async def sleep(self, nap: Nap) -> Slept:
        await sleep(nap.seconds)
        return Slept(text="Slept")
