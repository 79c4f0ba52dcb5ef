"""Goals and chatbots as MCP prompts, which a person picks from a menu and fills in; the model gets one message.

The arguments of a prompt are texts; where the tool takes another type, the message shows them as JSON. Nothing runs.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from mcp_types import GetPromptResult, Prompt, PromptArgument, PromptMessage, TextContent
from pydantic_core import from_json

from goalport.base.errors import BadInput
from goalport.base.words import corrections
from goalport.server.publish.chat_tools import ChatTool
from goalport.server.publish.goal_tools import GoalTool
from goalport.server.publish.known_fields import unknown_fields


@dataclass(frozen=True, slots=True)
class GoalPrompt:
    """A prompt that asks a model to call the tool of a goal or of a chatbot with the given values."""

    prompt: Prompt
    goal: GoalTool | ChatTool

    @classmethod
    def of(cls, name: str, goal: GoalTool | ChatTool) -> "GoalPrompt":
        """The prompt for one tool, with one argument for each argument of the tool."""
        schema = goal.arguments.schema
        required = set(schema.get("required", ()))
        arguments = [
            PromptArgument(name=each, description=_described(each, inner), required=each in required)
            for each, inner in schema.get("properties", {}).items()
        ]
        prompt = Prompt(name=name, title=goal.tool.title, description=goal.tool.description, arguments=arguments)
        return cls(prompt, goal)

    def message(self, given: Mapping[str, str]) -> GetPromptResult:
        """The message with these values; a value that is not JSON of its type stays text, as the tool validates it.

        Some hosts ask for the message once, with `$1` and `$2` in place of values. Raises `BadInput` for unknown
        arguments and for required arguments that are missing.
        """
        schema, tool = self.goal.arguments.schema, self.goal.tool.name
        required = schema.get("required", ())
        missing = (f"{name}: required, but missing" for name in required if name not in given)
        if problems := [*unknown_fields(((name,) for name in given), schema, given), *missing]:
            raise BadInput(corrections(problems))
        arguments = {name: self._parsed(name, text) for name, text in given.items() if text or name in required}
        lines = [
            f"{self.goal.errand}: {self.prompt.description}",
            f"Call the tool {tool} once{' with these values:' if arguments else '; it needs no values.'}",
        ]
        for name, value in arguments.items():
            lines.append(f"- {name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")
        message = PromptMessage(role="user", content=TextContent(type="text", text="\n".join(lines)))
        return GetPromptResult(description=self.prompt.description, messages=[message])

    def options(self, argument: str) -> list[str]:
        """The values of an argument that is an enum, a constant or a boolean; empty for other types."""
        return list(_options(self._field(argument)))

    def _parsed(self, name: str, text: str) -> object:
        """The text itself where the field takes a string or the text is not JSON, else the value of the JSON."""
        if "string" in _types(self._field(name)):
            return text
        try:
            return cast("object", from_json(text))
        except ValueError:
            return text

    def _field(self, name: str) -> Mapping[str, Any]:
        return self.goal.arguments.schema.get("properties", {}).get(name, {})


def _described(name: str, schema: Mapping[str, Any]) -> str:
    text = schema.get("description") or name.replace("_", " ").capitalize()
    kinds = _types(schema) - {"null"}
    return text if kinds <= {"string"} else f"{text} ({' or '.join(sorted(kinds))} as JSON)"


def _types(schema: Mapping[str, Any]) -> set[str]:
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return {
            "string" if isinstance(each, str) else "boolean" if isinstance(each, bool) else "number" for each in values
        }
    alternatives = [each for key in ("anyOf", "oneOf") for each in schema.get(key, ())]
    kinds = schema.get("type", [])
    return {*([kinds] if isinstance(kinds, str) else kinds), *(kind for each in alternatives for kind in _types(each))}


def _options(schema: Mapping[str, Any]) -> Iterator[str]:
    for value in schema.get("enum", [schema["const"]] if "const" in schema else []):
        yield value if isinstance(value, str) else json.dumps(value)
    if schema.get("type") == "boolean":
        yield from ("true", "false")
    for key in ("anyOf", "oneOf"):
        for each in schema.get(key, ()):
            yield from _options(each)
