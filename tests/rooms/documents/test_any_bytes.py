"""Whatever bytes come: a document whose parts fit together, or a sentence that says why there is none."""

import json

from hypothesis import given, settings, strategies as st

from goalport.base.errors import UnreadableDocument
from goalport.knowledge.documents import Chunker, ChunkerConfig, DocumentReader

BYTES = st.one_of(
    st.binary(max_size=200),
    st.lists(
        st.sampled_from(
            (
                *(b"<p>", b"<table>", b"<tr>", b"<td>", b"<h1>", b"</h1>", b"<ul>", b"<li>", b"<pre>", b"<!--", b"-->"),
                *(b"<main>", b"<title>", b"<svg>", b"</table>", b"&#0;", b"&#xD800;", b"<meta charset=utf-7>", b"\0"),
                *(b"---\n", b"a: b\n", b"&x *x\n", b"? : - [}{\n", b"1e999\n", b"2026-13-45\n", b"# h\n", b"```\n"),
                *(b"text ", b"\xff", b"\xc3\xa9", b",", b'"', b"\n", b"\r", b"|", b"PK\x03\x04"),
            )
        ),
        max_size=30,
    ).map(b"".join),
)
NAMES = st.sampled_from(("a.md", "a.html", "a.csv", "a.txt", "a"))
CHARSETS = st.sampled_from((None, "text/plain", "text/plain; charset=utf-7", "text/html; charset=big5", ";;="))


@settings(max_examples=300)
@given(BYTES, NAMES, CHARSETS)
async def test_any_bytes_are_a_document_or_a_sentence(data: bytes, name: str, media_type: str | None) -> None:
    try:
        document = await DocumentReader().read(data, name, media_type)
    except UnreadableDocument as refusal:
        document, reason = None, str(refusal)
    else:
        reason = ""
    if document is None:
        assert reason.startswith(f"{name} cannot be read: ")
        return
    document.text.encode()
    json.dumps(dict(document.metadata), allow_nan=False)
    for leaf in document.leaves():
        assert document.text[leaf.start : leaf.end] == leaf.text
    for chunk in Chunker(ChunkerConfig(max_chunk_size=100)).split(document):
        assert document.text[chunk.start : chunk.end] == chunk.urtext
