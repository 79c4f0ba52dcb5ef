"""What the requests of the REST door may say, as models; the document at `/openapi.json` shows their schemas."""

from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from goalport.runtime.process import ProcessStatus
from goalport.runtime.process.lifecycle import ID

_LONGEST_WAIT: Final = 300.0
_LARGEST_PAGE: Final = 500
_LARGEST_NUMBER: Final = 2**53
_ANSWERS: Final = frozenset({"response", "declined"})
_Wait = Annotated[
    float,
    Field(
        ge=0,
        le=_LONGEST_WAIT,
        allow_inf_nan=False,
        description="For how many seconds the answer may wait for the result; 0: not at all",
    ),
]


class StartRequest(BaseModel):
    """The body of a request that starts a process."""

    model_config = ConfigDict(extra="forbid", strict=True)

    goal: str | None = Field(None, description="The published goal")
    agent: str | None = Field(None, description="In place of the goal, if the agent has only one that is published")
    input: dict[str, Any] | None = Field(None, description="The arguments of the goal, as its tool takes them")
    bindings: dict[str, Any] | None = Field(
        None, description="In place of the input: each object to start from, by its type's name in snake case"
    )
    wait: _Wait = 30.0


class ContinueRequest(BaseModel):
    """The body of a request that answers a question."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"oneOf": [{"required": [each]} for each in sorted(_ANSWERS)]}
    )

    awaitable_id: str | None = Field(
        None, alias="awaitableId", description="The question; needed only if several are open"
    )
    response: Any = Field(None, description="The person's answer, valid against the schema of the question")
    declined: str = Field(
        default_factory=str,
        min_length=1,
        max_length=2_000,
        description="In place of the response: why the person says no",
    )
    wait: _Wait = 30.0

    @model_validator(mode="after")
    def _has_one_answer(self) -> Self:
        if len(self.model_fields_set & _ANSWERS) != 1:
            raise PydanticCustomError("one_answer", "give either response or declined")
        return self


class StateQuery(BaseModel):
    """The query of a request for the state of a process."""

    model_config = ConfigDict(extra="forbid")

    wait: _Wait = 0.0


class EndQuery(BaseModel):
    """The query of a request that kills a process."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field("Its caller deleted it.", min_length=1, max_length=2_000, description="Why, in a sentence")
    erase: bool = Field(default=False, description="Whether nothing of it and of what it started stays stored")


class EraseQuery(BaseModel):
    """The query of a request that erases what a caller left."""

    model_config = ConfigDict(extra="forbid")

    caller: str = Field("", max_length=1_000, description="Whose; by default your own; for admins alone")
    issuer: str | None = Field(None, max_length=1_000, description="Who issued the id of that caller, if several did")
    dry_run: bool = Field(default=False, alias="dryRun", description="Whether it is only counted")


class ListQuery(BaseModel):
    """The query of a request for processes."""

    model_config = ConfigDict(extra="forbid")

    after: str = Field(
        "", pattern=f"^({ID.pattern})?$", description="The id of the process after which the page begins"
    )
    limit: int = Field(50, ge=1, le=_LARGEST_PAGE)
    status: list[ProcessStatus] = Field(default_factory=list[ProcessStatus], description="Only those; may be repeated")
    newest_first: bool = Field(default=True, alias="newestFirst")
    of_all: bool = Field(default=False, alias="all", description="Those of all callers; for admins alone")


class NoQuery(BaseModel):
    """The query of a request that takes none."""

    model_config = ConfigDict(extra="forbid")


class EventsQuery(BaseModel):
    """The query of a request for events."""

    model_config = ConfigDict(extra="forbid")

    after: int = Field(0, ge=0, le=_LARGEST_NUMBER, description="The number of the event after which to begin")
