"""Goals that ask a person: in the middle of the call, or by its result, as the client's revision has it."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, Field, WithJsonSchema

from goalport import ActionContext, Export, WaitFor, achieves_goal, action, agent


class Wanted(BaseModel):
    message: str


class Contact(BaseModel):
    username: str = Field(description="User's response")
    email: str = Field(description="User's email address")


@agent(description="Asks for a name and an address")
class Contacts:
    @action
    async def ask(self, wanted: Wanted) -> WaitFor[Contact]:
        return WaitFor.form_submission(wanted.message, Contact)

    @achieves_goal(description="A contact", export=Export(remote=True, name="test_elicitation"))
    @action
    async def tell(self, contact: Contact) -> str:
        return f"User response: {contact}"


class Review(BaseModel):
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


@agent(description="Asks with default values")
class Reviewer:
    @action
    async def ask(self) -> WaitFor[Review]:
        return WaitFor.form_submission("Please review these values", Review)

    @achieves_goal(
        description="A reviewed record", export=Export(remote=True, name="test_elicitation_sep1034_defaults")
    )
    @action
    async def tell(self, review: Review) -> str:
        return f"Elicitation completed: {review}"


TITLED = [{"const": f"value{number}", "title": title} for number, title in ((1, "First"), (2, "Second"), (3, "Third"))]
Value = Annotated[Literal["value1", "value2", "value3"], WithJsonSchema({"type": "string", "oneOf": TITLED})]
Option = Literal["option1", "option2", "option3"]


class Choices(BaseModel):
    """Every kind of choice that a form can show; titles are in the JSON Schema, as pydantic takes them."""

    untitled_single: Option | None = Field(None, alias="untitledSingle")
    titled_single: Value | None = Field(None, alias="titledSingle")
    legacy: Literal["opt1", "opt2"] | None = Field(
        None, alias="legacyEnum", json_schema_extra={"enumNames": ["Option One", "Option Two"]}
    )
    untitled_multi: list[Option] = Field([], alias="untitledMulti")
    titled_multi: list[Value] = Field([], alias="titledMulti")


@agent(description="Asks with every kind of choice")
class Chooser:
    @action
    async def ask(self) -> WaitFor[Choices]:
        return WaitFor.form_submission("Please choose", Choices)

    @achieves_goal(description="What was chosen", export=Export(remote=True, name="test_elicitation_sep1330_enums"))
    @action
    async def tell(self, choices: Choices) -> str:
        return f"Elicitation completed: {choices}"


class Approval(BaseModel):
    ok: bool


@agent(description="Asks, and wants its state back")
class StateKeeper:
    @action
    async def ask(self) -> WaitFor[Approval]:
        return WaitFor.form_submission("Please confirm", Approval)

    @achieves_goal(
        description="An approval", export=Export(remote=True, name="test_input_required_result_request_state")
    )
    @action
    async def tell(self, approval: Approval) -> str:
        return "state-ok"


@agent(description="Asks, and takes no other state back")
class StateGuard:
    @action
    async def ask(self) -> WaitFor[Approval]:
        return WaitFor.form_submission("Please confirm", Approval)

    @achieves_goal(
        description="A guarded approval", export=Export(remote=True, name="test_input_required_result_tampered_state")
    )
    @action
    async def tell(self, approval: Approval) -> str:
        return "state-ok"


@dataclass(frozen=True)
class Person:
    name: str


@dataclass(frozen=True)
class Favourite:
    color: str


@agent(description="Asks one thing after the other")
class TwoSteps:
    @action
    async def ask_name(self) -> WaitFor[Person]:
        return WaitFor.form_submission("Step 1: What is your name?", Person)

    @action
    async def ask_color(self, person: Person) -> WaitFor[Favourite]:
        return WaitFor.form_submission("Step 2: What is your favorite color?", Favourite)

    @achieves_goal(
        description="A favorite color", export=Export(remote=True, name="test_input_required_result_multi_round")
    )
    @action
    async def tell(self, person: Person, favourite: Favourite) -> str:
        return f"The favorite color of {person.name} is {favourite.color}"


@agent(description="Tells what it does, and asks")
class TellingAsker:
    """The stream of its call has notifications and the question as its result, but no request of the server."""

    @action
    async def ask(self, context: ActionContext) -> WaitFor[Approval]:
        context.progress("About to ask")
        return WaitFor.form_submission("Please confirm", Approval)

    @achieves_goal(description="An approval, with news", export=Export(remote=True, name="test_streaming_elicitation"))
    @action
    async def tell(self, approval: Approval) -> str:
        return f"Approved: {approval.ok}"
