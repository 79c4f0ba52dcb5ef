"""Small files of several kinds, made by hand: a PDF, office files, archives."""

import zipfile
from collections.abc import Mapping
from io import BytesIO

DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_WORDS = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def pdf(heading: str, text: str, *, encrypted: bool = False, title: str = "", top: int = 700) -> bytes:
    """A PDF with one page. An encrypted one has keys that no password opens. `top`: where the heading is, of 800."""
    drawn = f"BT /F1 24 Tf 72 {top} Td ({heading}) Tj /F1 12 Tf 0 -40 Td ({text}) Tj 0 -20 Td (The end.) Tj ET"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R/Resources << /Font << /F1 5 0 R >> >> >>",
        f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        f"<< /Filter /Standard /V 1 /R 2 /O <{'41' * 32}> /U <{'42' * 32}> /P -4 >>",
        f"<< /Title ({title}) /Author (untitled) >>",
    ]
    written, places = "%PDF-1.4\n", list[int]()
    for number, each in enumerate(objects, start=1):
        places.append(len(written))
        written += f"{number} 0 obj\n{each}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    about = " /Info 7 0 R" if title else ""
    keys = " /Encrypt 6 0 R /ID [<00><00>]" if encrypted else ""
    return (
        f"{written}xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
        f"trailer << /Size {len(objects) + 1} /Root 1 0 R{keys}{about} >>\nstartxref\n{len(written)}\n%%EOF\n"
    ).encode()


def archive(files: Mapping[str, str | bytes]) -> bytes:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as files_in:
        for name, content in files.items():
            files_in.writestr(name, content)
    return packed.getvalue()


def docx(heading: str, *paragraphs: str) -> bytes:
    """A Word file with a heading, paragraphs, and a table of two rows."""
    text = "".join(f"<w:p><w:r><w:t>{each}</w:t></w:r></w:p>" for each in paragraphs)
    cells = "".join(
        f"<w:tr>{''.join(f'<w:tc><w:p><w:r><w:t>{each}</w:t></w:r></w:p></w:tc>' for each in row)}</w:tr>"
        for row in ("ab", "12")
    )
    return archive(
        {
            "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override '
            f'PartName="/word/document.xml" ContentType="{DOCX}.main+xml"/></Types>',
            "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r" Type='
            '"http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
            'Target="word/document.xml"/></Relationships>',
            "word/document.xml": f'<w:document xmlns:w="{_WORDS}"><w:body><w:p><w:pPr><w:pStyle w:val="Heading1"/>'
            f"</w:pPr><w:r><w:t>{heading}</w:t></w:r></w:p>{text}<w:tbl>{cells}</w:tbl></w:body></w:document>",
        }
    )
