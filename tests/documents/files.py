"""Small real files of the formats that have text in them, written by hand."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Sequence

from pypdf import PdfReader, PdfWriter

_WORDS = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
_MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"


def pdf(*pages: str, bookmarks: Sequence[tuple[str, int]] = (), trailer: str = "") -> bytes:
    """A PDF file with a page for each text, in lines, and bookmarks to pages by number."""
    kids = " ".join(f"{10 + 2 * number} 0 R" for number in range(len(pages)))
    objects = {
        1: "<< /Type /Catalog /Pages 2 0 R /Outlines 4 0 R >>",
        2: f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        3: "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        4: f"<< /Type /Outlines /First 1000 0 R /Last {999 + len(bookmarks)} 0 R /Count {len(bookmarks)} >>"
        if bookmarks
        else "<< /Type /Outlines /Count 0 >>",
    }
    for number, text in enumerate(pages):
        lines = "".join(f"({line}) Tj 0 -14 Td " for line in text.splitlines())
        stream = f"BT /F1 12 Tf 72 700 Td {lines}ET"
        fonts = "/Resources << /Font << /F1 3 0 R >> >>"
        where = "/Parent 2 0 R /MediaBox [0 0 612 792]"
        objects[10 + 2 * number] = f"<< /Type /Page {where} {fonts} /Contents {11 + 2 * number} 0 R >>"
        objects[11 + 2 * number] = f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream"
    for number, (title, page) in enumerate(bookmarks):
        near = f"/Next {1001 + number} 0 R" if number + 1 < len(bookmarks) else ""
        to = f"/Dest [{10 + 2 * page} 0 R /Fit]"
        objects[1000 + number] = f"<< /Title ({title}) /Parent 4 0 R {to} {near} >>"
    return _pdf_of(objects, trailer)


def _pdf_of(objects: dict[int, str], trailer: str) -> bytes:
    data, places = bytearray(b"%PDF-1.4\n"), {}
    for number, body in objects.items():
        places[number] = len(data)
        data += f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1")
    start = len(data)
    data += b"xref\n0 1\n0000000000 65535 f \n"
    for number, place in places.items():
        data += f"{number} 1\n{place:010d} 00000 n \n".encode()
    data += f"trailer\n<< /Size {max(objects) + 1} /Root 1 0 R {trailer} >>\n".encode()
    data += f"startxref\n{start}\n%%EOF\n".encode()
    return bytes(data)


def encrypted_pdf(text: str, password: str) -> bytes:
    """A PDF file that needs a password to be read, or with "" only to be changed."""
    writer = PdfWriter(PdfReader(io.BytesIO(pdf(text))))
    writer.encrypt(password, "owner", algorithm="RC4-128")
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


def zipped(contents: dict[str, bytes]) -> bytes:
    """A zip file."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    return made.getvalue()


def bomb_pdf(unpacked: int) -> bytes:
    """A PDF file whose only page unpacks to so many bytes of drawing."""
    packed = zlib.compress(b"0 0 m " * (unpacked // 6), 9)
    data = bytearray(pdf("x"))
    body = b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(packed), packed)
    at, end = data.index(b"11 0 obj"), data.index(b"endobj", data.index(b"11 0 obj"))
    data[at:end] = b"11 0 obj\n" + body + b"\n"
    return bytes(data)


def docx(*paragraphs: tuple[str, str], more: dict[str, bytes] | None = None) -> bytes:
    """A Word file with paragraphs of a style ("" for plain) and a text."""
    body = "".join(f"<w:p>{_style(style)}<w:r><w:t>{text}</w:t></w:r></w:p>" for style, text in paragraphs)
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="{_id(style)}"><w:name w:val="{style}"/></w:style>'
        for style in dict.fromkeys(style for style, _ in paragraphs if style)
    )
    head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
    parts = {
        "[Content_Types].xml": f'{head}<Types xmlns="{_TYPES}"><Default Extension="rels" ContentType='
        '"application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType='
        f'"application/xml"/><Override PartName="/word/document.xml" ContentType="{_MAIN}"/></Types>',
        "_rels/.rels": f'{head}<Relationships xmlns="{_RELATIONS}"><Relationship Id="rId1" '
        f'Type="{_OFFICE}/officeDocument" Target="word/document.xml"/></Relationships>',
        "word/_rels/document.xml.rels": f'{head}<Relationships xmlns="{_RELATIONS}"><Relationship Id="rId1" '
        f'Type="{_OFFICE}/styles" Target="styles.xml"/></Relationships>',
        "word/styles.xml": f'{head}<w:styles xmlns:w="{_WORDS}">{styles}</w:styles>',
        "word/document.xml": f'{head}<w:document xmlns:w="{_WORDS}"><w:body>{body}</w:body></w:document>',
    }
    return zipped({name: text.encode() for name, text in parts.items()} | (more or {}))


def _id(style: str) -> str:
    return style.replace(" ", "")


def _style(style: str) -> str:
    return f'<w:pPr><w:pStyle w:val="{_id(style)}"/></w:pPr>' if style else ""


HTML = """<!-- made by a tool --><!DOCTYPE html><html><head><title>Handbook</title><style>p {}</style>
<script>alert("otter")</script></head><body><h1>Deploy</h1><p>On <a href="http://x.example/">Mondays</a> &amp;
never later.<h2>Roll back</h2><ul><li>make back<li>tell the team</ul><table><tr><th>who</th><th>when</th></tr>
<tr><td>ada</td><td>noon</td></tr></table></body></html>"""
