"""Checks every answer of the REST door against its OpenAPI document. No test is in here."""

import re
from typing import Any
from urllib.parse import unquote

import httpx2
import jsonschema
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

ROOT = "urn:openapi"


class Documented:
    """The document of a server, which is read at the first answer if it is not given."""

    def __init__(self, document: dict[str, Any] | None = None) -> None:
        self._document = document

    async def check(self, http: httpx2.AsyncClient, answer: httpx2.Response) -> None:
        """Raises if the answer is not one that the document has for its path, method and status."""
        path = unquote(answer.request.url.path)
        if self._document is None:
            found = await http.get("/openapi.json", headers={"Documented": "no"})
            self._document = found.json()
        is_head = answer.request.method == "HEAD"
        operation = self._operation(path, "get" if is_head else answer.request.method.lower())
        if operation is None:
            assert answer.status_code in {404, 405}, (path, answer.status_code)
            return
        responses = operation["responses"]
        assert str(answer.status_code) in responses, (path, answer.status_code, sorted(responses))
        content = responses[str(answer.status_code)].get("content", {})
        media = answer.headers.get("content-type", "").partition(";")[0]
        assert media in content if content else not media, (path, answer.status_code, media)
        if media.endswith("json") and not is_head:
            await answer.aread()
            problems = [each.message for each in self.errors(content[media]["schema"], answer.json())]
            assert not problems, (path, answer.status_code, problems)

    def errors(self, schema: dict[str, Any], value: object) -> list[jsonschema.ValidationError]:
        """What is wrong with a value by a schema of the document."""
        registry = Registry[Any]().with_resource(ROOT, Resource(self._document, DRAFT202012))
        placed = {"$ref": f"{ROOT}{schema['$ref']}"} if "$ref" in schema else schema
        validator: Any = jsonschema.Draft202012Validator(placed, registry=registry)
        return list(validator.iter_errors(value))

    def _operation(self, path: str, method: str) -> dict[str, Any] | None:
        assert self._document is not None
        for template, operations in self._document["paths"].items():
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
                return operations.get(method)
        return None
