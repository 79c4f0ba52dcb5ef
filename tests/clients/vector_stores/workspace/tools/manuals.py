# LangChain and its stores are in an environment of their own, which goalport's type checker does not see.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUntypedBaseClass=false
"""The manuals of two teams in a vector store of LangChain: Chroma or Qdrant, as the environment says."""

import os
from pathlib import Path
from typing import Any

from langchain_chroma import Chroma
from langchain_openai import OpenAIEmbeddings
from langchain_qdrant import QdrantVectorStore

from goalport import tool
from goalport.knowledge.documents import Chunker, DocumentReader
from goalport.knowledge.rag import LangChainVectorSearch, OneOf, ToolishRag, chroma_filter, qdrant_filter
from goalport.tools import McpToolExport

ASKED: list[dict[str, Any]] = []
"""What the store was asked for, beside the query."""


class AskedChroma(Chroma):
    def similarity_search_with_score(self, query: str, k: int = 4, filter: Any = None, **more: Any) -> Any:
        ASKED.append({"k": k, "filtered": filter is not None})
        return super().similarity_search_with_score(query, k, filter, **more)


class AskedQdrant(QdrantVectorStore):
    def similarity_search_with_score(self, query: str, k: int = 4, filter: Any = None, **more: Any) -> Any:
        ASKED.append({"k": k, "filtered": filter is not None})
        return super().similarity_search_with_score(query, k, filter, **more)


# Somebody else has filled it: forty texts of one team, which are nearer to most questions, and one of the other. They
# differ, since Chroma's approximate index loses one that lies apart from many equal ones.
FRUIT = [f"{'apple ' * (n % 7 + 1)}{'fig ' * (n % 5)}{'cocoa ' * (n % 3)}{'plum ' * (n % 2)}" for n in range(40)]
TEXTS = [*FRUIT, "Hours of ovens"]
PLACES = [{"source": f"https://law.example/{number}", "team": "law", "page": number} for number in range(40)]
PLACES.append({"source": "https://kitchen.example/ovens", "title": "Ovens", "team": "kitchen", "start_index": 7})

if os.environ["VECTOR_STORE"] == "chroma":
    cosine = {"hnsw": {"space": "cosine"}}
    store: Any = AskedChroma.from_texts(TEXTS, OpenAIEmbeddings(), PLACES, collection_configuration=cosine)
    translate = chroma_filter
else:
    store = AskedQdrant.from_texts(TEXTS, OpenAIEmbeddings(), PLACES, location=":memory:", collection_name="manuals")
    translate = qdrant_filter

manuals = LangChainVectorSearch(
    store,
    translate=translate if os.environ["VECTOR_FILTERS"] == "store" else None,
    readable=lambda caller: OneOf("team", tuple(caller.scopes)),
)
export = McpToolExport.from_llm_reference(ToolishRag("manuals", "The manuals of our teams", manuals))


@tool(export=True)
async def take_in(path: str, team: str) -> int:
    """Take in a manual, and return how many chunks it has."""
    async with DocumentReader() as reader:
        document = await reader.read_file(Path(path))
    chunks = await Chunker().chunk(document)
    await manuals.add(chunks, {"team": team})
    return len(chunks)


@tool(export=True)
def asked() -> list[dict[str, Any]]:
    """What the store was asked for since the last time."""
    said = [*ASKED]
    ASKED.clear()
    return said
