# LangChain is in an environment of its own, which goalport's type checker does not see.
# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportUnknownVariableType=false
"""In place of the package of this name: embeddings that need no key and no network."""

from langchain_core.embeddings import Embeddings


class OpenAIEmbeddings(Embeddings):
    """One number for each vowel."""

    def embed_query(self, text: str) -> list[float]:
        return [text.lower().count(vowel) + 0.1 for vowel in "aeiou"]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return list(map(self.embed_query, texts))
