"""Whatever a client sends, the answer is one that the document has, and no request is answered by a bug."""

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings, strategies as st

from tests.rooms.rest.test_processes import Adventure
from tests.rooms.rest.web import PROCESS, web
from tests.rooms.serve.askers import Cashier, Pizzeria

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["ham", "Castle", "play"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
_MEMBERS = st.sampled_from(
    ["goal", "agent", "input", "bindings", "wait", "awaitableId", "response", "declined", "size", "name", "portions"]
)
_BODIES = st.dictionaries(_MEMBERS, _VALUES, max_size=4) | st.fixed_dictionaries(
    {"goal": st.sampled_from(["order_pizza", "pay", "play"]), "wait": st.just(0.01)},
    optional={"input": st.dictionaries(_MEMBERS, _VALUES, max_size=3) | st.just({"size": 1})},
)
_TEXTS = st.text(max_size=5) | st.integers(0, 9).map(str)
_REQUESTS = st.tuples(
    st.sampled_from(["GET", "POST", "DELETE", "PUT", "HEAD"]),
    st.sampled_from(
        [
            PROCESS,
            f"{PROCESS}/{{id}}",
            f"{PROCESS}/{{id}}/continue",
            f"{PROCESS}/nobody",
            "/api/v1/processes",
            "/api/v1/platform-info",
            "/api/v1/platform-info/models",
            "/events/process/nobody",
        ]
    ),
    st.dictionaries(
        st.sampled_from(["after", "limit", "status", "newestFirst", "wait"]), st.text(max_size=5), max_size=2
    ),
    _BODIES | _VALUES,
)


async def test_every_answer_is_documented_and_none_is_a_bug(tmp_path: Path) -> None:
    found: list[tuple[str, str, dict[str, str], Any]] = []

    @settings(max_examples=250, database=None, derandomize=True)
    @given(_REQUESTS)
    def collect(request: tuple[str, str, dict[str, str], Any]) -> None:
        found.append(request)

    collect()
    async with web(tmp_path, Adventure(), Pizzeria(), Cashier()) as server:
        state = (await server.start("order_pizza", {"size": 30})).json()
        for method, path, query, body in found:
            content = json.dumps(body).encode()
            place = path.replace("{id}", state["processId"])
            answer = await server.http.request(
                method, place, params=query, content=content, headers={"Content-Type": "application/json"}
            )
            assert answer.status_code < 500, (method, place, query, body, answer.text)
            if answer.status_code == 202 and "processId" in answer.json():
                state = answer.json()
