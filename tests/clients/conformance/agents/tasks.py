"""Goals that clients follow as tasks: they take long, ask, fail, or cannot say their result."""

from dataclasses import dataclass
from typing import Annotated

import anyio
from pydantic import BaseModel, Field

from goalport import Export, WaitFor, achieves_goal, action, agent


class Greeting(BaseModel):
    name: str


@agent(description="Greets")
class Greeter:
    """It takes no time and asks nobody, so it is never a task."""

    @achieves_goal(description="A greeting", export=Export(remote=True, name="greet"))
    @action
    async def greet(self, greeting: Greeting) -> str:
        return f"Hello, {greeting.name}!"


class Computation(BaseModel):
    seconds: Annotated[float, Field(ge=0)]
    label: str = ""


@agent(description="Computes for as long as it is told")
class SlowComputer:
    @achieves_goal(description="A computation", export=Export(remote=True, name="slow_compute", long=True))
    @action
    async def compute(self, computation: Computation) -> str:
        await anyio.sleep(computation.seconds)
        return f"{computation.label} took {computation.seconds:g} s"


@agent(description="Fails after a while")
class FailingJob:
    @achieves_goal(description="Never done", export=Export(remote=True, name="failing_job", task_required=True))
    @action
    async def fail(self) -> str:
        await anyio.sleep(1)
        raise ValueError("This job fails on purpose")


class Unspeakable(BaseModel):
    """What cannot be told breaks the answer itself: a fault of the server, not of the goal."""

    done: bool = True

    @property
    def content(self) -> str:
        raise RuntimeError("This result cannot be told")


@agent(description="Does its work, and cannot tell the result")
class ProtocolErrorJob:
    @achieves_goal(description="A riddle", export=Export(remote=True, name="protocol_error_job", long=True))
    @action
    async def work(self) -> Unspeakable:
        return Unspeakable()


class Deletion(BaseModel):
    filename: str


class Confirmed(BaseModel):
    confirm: bool


@agent(description="Deletes a file after a question")
class Deleter:
    @action
    async def ask(self, deletion: Deletion) -> WaitFor[Confirmed]:
        return WaitFor.form_submission(f"Delete {deletion.filename}?", Confirmed)

    @achieves_goal(description="A deletion", export=Export(remote=True, name="confirm_delete"))
    @action
    async def delete(self, deletion: Deletion, confirmed: Confirmed) -> str:
        return f"{deletion.filename} was deleted" if confirmed.confirm else f"{deletion.filename} was kept"


@dataclass(frozen=True)
class Name:
    name: str


@dataclass(frozen=True)
class Buyer:
    name: str
    confirm: bool


@dataclass(frozen=True)
class Seller:
    name: str
    confirm: bool


@agent(description="Asks two people at once")
class TwoQuestions:
    @action
    async def ask_buyer(self) -> WaitFor[Buyer]:
        return WaitFor.form_submission("Who buys?", Buyer)

    @action
    async def ask_seller(self) -> WaitFor[Seller]:
        return WaitFor.form_submission("Who sells?", Seller)

    @achieves_goal(description="A contract", export=Export(remote=True, name="multi_input"))
    @action
    async def finish(self, buyer: Buyer, seller: Seller) -> str:
        return f"{buyer.name} buys from {seller.name}: {buyer.confirm and seller.confirm}"


@agent(description="Asks for a name before it becomes a task")
class AskingFirst:
    """With a `wait_budget` a call waits for its first questions, and becomes a task when they are answered."""

    @action
    async def ask(self) -> WaitFor[Name]:
        return WaitFor.form_submission("What is your name?", Name)

    @achieves_goal(
        description="A greeting at last",
        export=Export(remote=True, name="test_tool_with_task", task_required=True, wait_budget=10),
    )
    @action
    async def greet(self, name: Name) -> str:
        return f"Hello, {name.name}!"
