"""Goals with large results and large arguments."""

from pydantic import BaseModel

from goalport import Export, achieves_goal, agent


class Length(BaseModel):
    characters: int


class Page(BaseModel):
    text: str


class Text(BaseModel):
    text: str


class Count(BaseModel):
    characters: int


@agent(description="Write pages")
class Writer:
    @achieves_goal(
        description="A page of so many characters",
        export=Export(remote=True, name="page", starting_input_types=[Length]),
    )
    async def write(self, length: Length) -> Page:
        return Page(text="x" * length.characters)


@agent(description="Count characters")
class Counter:
    @achieves_goal(
        description="Count the characters of a text",
        export=Export(remote=True, name="count", starting_input_types=[Text]),
    )
    async def count(self, text: Text) -> Count:
        return Count(characters=len(text.text))
