"""What the compatibility kit of A2A asks of an agent: the id of a message says which of these it wants."""

import anyio
from mcp_types import BlobResourceContents, EmbeddedResource, ResourceLink

from goalport import ActionContext, Export, UserInput, achieves_goal, agent
from goalport.chat import A2aMessage
from goalport.tools import ToolResult

FILE = EmbeddedResource(
    type="resource", resource=BlobResourceContents(uri="file:///output.txt", mime_type="text/plain", blob="dGNr")
)
LINK = ResourceLink(
    type="resource_link", uri="https://example.com/output.txt", name="output.txt", mime_type="text/plain"
)


RESULTS = {
    "tck-artifact-data": ToolResult(structured={"key": "value", "count": 42}),
    "tck-artifact-file-url": ToolResult(blocks=(LINK,)),
    "tck-artifact-file": ToolResult(blocks=(FILE,)),
    "tck-artifact-text": ToolResult("Generated text content"),
}
GREETING = ToolResult("Hello from TCK")


@agent(description="Behaves as the compatibility kit of A2A asks")
class Kit:
    @achieves_goal(
        description="Whatever the kit asks for",
        export=Export(remote=True, name="kit", starting_input_types=[UserInput]),
        examples=["Hello"],
        tags=["tck"],
    )
    async def done(self, said: UserInput, message: A2aMessage | None, context: ActionContext) -> ToolResult:
        scenario = "" if message is None else message.message_id
        while scenario.startswith("tck-input-required"):
            answer = await context.ask("What else?", str)
            if not answer.startswith("TCK history"):
                scenario = ""
        if scenario.startswith("test-resubscribe"):
            await anyio.sleep(4)
        return next((value for name, value in RESULTS.items() if scenario.startswith(name)), GREETING)
