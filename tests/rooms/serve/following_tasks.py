"""A client that follows tasks: what the official client does not do of the Tasks extension. No test is in here."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from mcp import Client
from mcp.client import ClaimContext, ClientExtension, ClientSession, ResultClaim
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, ErrorData, Request, RequestParams, Result
from pydantic import ConfigDict, TypeAdapter

from tests.rooms.serve.askers import Answering

TASKS = "io.modelcontextprotocol/tasks"
_FORM: TypeAdapter[ElicitRequestParams] = TypeAdapter(ElicitRequestParams)


class NamedTask(RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


class TaskRequest(Request[NamedTask, Literal["tasks/get", "tasks/update", "tasks/cancel"]]):
    method: Literal["tasks/get", "tasks/update", "tasks/cancel"]
    params: NamedTask


class NamingRequest(TaskRequest):
    """One that names its task in the header `Mcp-Name`, as the specification asks for and some clients forget."""

    name_param = "taskId"


class TaskAnswer(Result):
    """What was answered is kept as it came, but for the `_meta`."""

    model_config = ConfigDict(extra="allow")


class CreatedTask(Result):
    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    ttl_ms: int | None
    poll_interval_ms: int


async def ask(
    session: ClientSession,
    method: Literal["tasks/get", "tasks/update", "tasks/cancel"],
    task: str,
    responses: Mapping[str, Any] | None = None,
    kind: type[TaskRequest] = NamingRequest,
) -> dict[str, Any]:
    """Send one request about a task; `responses` are those of `tasks/update`."""
    params = NamedTask(task_id=task, input_responses=None if responses is None else dict(responses))
    return (await session.send_request(kind(method=method, params=params), TaskAnswer)).model_extra or {}


async def state_of_task(client: Client, task: str, *statuses: str) -> dict[str, Any]:
    """A task, once it has one of the statuses."""
    while True:
        told = await ask(client.session, "tasks/get", task)
        if told["status"] in statuses:
            return told


async def create(client: Client, tool: str, meta: Any = None, **arguments: Any) -> str:
    """The task that a call is answered with."""
    created = await client.session.call_tool(tool, arguments, meta=meta, allow_claimed=True)
    assert isinstance(created, CreatedTask), created
    return created.task_id


class FollowingTasks(ClientExtension):
    """Follows each task to its end, and lets a person answer what it asks, each key once."""

    identifier = TASKS

    def __init__(self, person: Answering | None = None) -> None:
        self.person = person
        self.tasks: list[str] = []
        self.statuses: list[str] = []

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=CreatedTask, resolve=self.resolve),)

    async def resolve(self, task: CreatedTask, context: ClaimContext) -> CallToolResult:
        answered: set[str] = set()
        self.tasks.append(task.task_id)
        while True:
            told = await ask(context.session, "tasks/get", task.task_id)
            if self.statuses[-1:] != [told["status"]]:
                self.statuses.append(told["status"])
            match told:
                case {"status": "completed", "result": result}:
                    return CallToolResult.model_validate(result)
                case {"status": "failed" | "cancelled"}:
                    raise AssertionError(told)
                case {"status": "input_required", "inputRequests": requests}:
                    new = {key: each for key, each in requests.items() if key not in answered}
                    answered |= new.keys()
                    responses = {key: await self._answer(each) for key, each in new.items()}
                    if responses:
                        await ask(context.session, "tasks/update", task.task_id, responses)
                case _:
                    assert told["status"] == "working", told

    async def _answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self.person is not None, request
        assert request["method"] == "elicitation/create"
        answer = await self.person(None, _FORM.validate_python(request["params"]))
        assert isinstance(answer, ElicitResult | ErrorData)
        return answer.model_dump(by_alias=True, mode="json", exclude_none=True)
