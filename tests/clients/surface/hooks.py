"""Loaded by schemathesis beside its own checks: it lets every second request be about a process that is there."""
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUntypedFunctionDecorator=false

import os
from itertools import count
from typing import Any
from urllib.parse import quote

import requests
import schemathesis
from schemathesis import GenerationMode

PROCESSES = f"{os.environ['SURFACE']}/api/v1/process"
WAITING = {"goal": "take_room", "input": {"content": "a room"}}
ENDED = {"goal": "rest", "input": {"seconds": 0}}
KEY = "Idempotency-Key"
NO_RESULT = "urn:goalport:problem:no-result"
turns = count()


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    turn, operation = next(turns), case.operation.definition.raw.get("operationId")
    if case.headers and case.headers.get(KEY):  # its second use with other input is refused
        case.headers[KEY] = f"{case.headers[KEY][:200]}{turn}"
    if operation == "list" and is_positive(case) and (case.query or {}).get("after"):
        case.query["after"] = requests.post(PROCESSES, json=ENDED, timeout=20).json()["processId"]
    if operation == "follow":  # what schemathesis knows of may wait, and its events would come for as long
        requests.delete(f"{PROCESSES}/{quote(str(case.path_parameters['id']), safe='')}", timeout=20)
    if operation in {"look", "end", "follow", "continue"} and turn % 2:
        state = requests.post(PROCESSES, json=ENDED if operation == "follow" else WAITING, timeout=20).json()
        case.path_parameters = {"id": state["processId"]}
        if operation == "continue" and turn % 4 == 1 and is_positive(case):
            case.body = {"awaitableId": state["awaitableId"], "response": state["options"][0]["response"]}


@schemathesis.check
def valid_starts_are_accepted(context: Any, response: Any, case: Any) -> None:
    """As `positive_data_acceptance`, but a goal that was started may fail."""
    if case.operation.definition.raw["operationId"] == "start" and is_positive(case):
        told = response.json()
        assert response.status_code < 400 or told["type"] == NO_RESULT, told


def is_positive(case: Any) -> bool:
    return case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE
