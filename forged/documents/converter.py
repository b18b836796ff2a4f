"""Process that turns one PDF, HTML or Word file on stdin into markdown on stdout, within limits.

It is started as `python -m forged.documents.converter FORMAT` by `formats`. The file is foreign: the limits
are set before a package looks at it. Exit code 65: the output is the reason why there is no text.
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
import resource
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from forged.documents.formats import CPU_S, DOCX, HTML, MEMORY_BYTES, MOST_FILE_BYTES, PDF, REFUSED

if TYPE_CHECKING:
    from bs4 import BeautifulSoup
    from pypdf import PdfReader

_MOST_UNPACKED = 128 << 20
_NO_TEXT = ("script", "style", "template", "noscript", "svg", "head")
_LEVELS = 6
_STYLES = "p[style-name='Title'] => h1:fresh"
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*){2,}")


class NoTextError(Exception):
    """Raised for a file without usable text, with the reason as a sentence."""


def set_limits() -> None:
    """Limit memory, computing time and written files of this process. macOS knows no limit of memory."""
    for which, most in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(which, (most, resource.getrlimit(which)[1]))


def pdf_text(data: bytes) -> str:
    """Return the text of a PDF file with its bookmarks as headings. Raises NoTextError."""
    from pypdf import PdfReader  # noqa: PLC0415 - an extra, and only after the limits

    reader = PdfReader(io.BytesIO(data), strict=False)
    if reader.is_encrypted and not _opens_without_password(reader):
        raise NoTextError("it is encrypted; save it without a password")
    headings = _headings_by_page(reader)
    pages = [page.extract_text() for page in reader.pages]
    if not any(page.strip() for page in pages):
        raise NoTextError("there is no text in it: it seems to be scanned")
    return "\n\n".join(
        _with_headings(page, headings.get(number, ())) for number, page in enumerate(pages) if page.strip()
    )


def _opens_without_password(reader: PdfReader) -> bool:
    """Return True if a PDF is only protected against changes, and can be read here."""
    from pypdf.errors import DependencyError  # noqa: PLC0415

    try:
        return bool(reader.decrypt(""))
    except (DependencyError, NotImplementedError):
        return False


def _headings_by_page(reader: PdfReader) -> Mapping[int, list[str]]:
    """Return a PDF's bookmarks as lines of markdown headings, by the number of their page."""
    found: dict[int, list[str]] = {}
    with contextlib.suppress(Exception):  # bookmarks are a help: a broken list costs the headings alone
        for level, mark in _bookmarks(reader.outline, 1):
            page = reader.get_destination_page_number(mark)
            if page is not None and (title := " ".join(str(mark.title).split())):
                found.setdefault(page, []).append(f"{'#' * min(level, _LEVELS)} {title}")
    return found


def _bookmarks(outline: Any, level: int) -> Iterator[tuple[int, Any]]:
    """Yield the bookmarks of a nested list with their levels, in order."""
    for each in outline:
        if isinstance(each, list):
            yield from _bookmarks(each, level + 1)
        else:
            yield level, each


def _with_headings(page: str, headings: tuple[str, ...] | list[str]) -> str:
    """Return a page's text with headings in place of the lines that say the same, else before it."""
    lines = page.splitlines()
    places = {" ".join(line.split()).casefold(): number for number, line in reversed([*enumerate(lines)])}
    before = []
    for heading in headings:
        place = places.get(heading.partition(" ")[2].casefold())
        if place is None:
            before.append(heading)
        else:
            lines[place] = f"\n{heading}\n"
    return "\n\n".join((*before, "\n".join(lines)))


def html_text(data: bytes | str) -> str:
    """Return the text of an HTML page as markdown, its title as a heading if it has none."""
    from bs4 import BeautifulSoup  # noqa: PLC0415
    from markdownify import MarkdownConverter  # noqa: PLC0415

    page = BeautifulSoup(data, "lxml")
    title = " ".join(page.title.get_text().split()) if page.title is not None else ""
    has_heading = page.find("h1") is not None
    for part in page(_NO_TEXT):
        part.decompose()
    return (f"# {title}\n\n" if title and not has_heading else "") + _markdown(page, MarkdownConverter)


def _markdown(page: BeautifulSoup, converter: Callable[..., Any]) -> str:
    """Return a parsed page as markdown, without links and pictures."""
    options = {"escape_asterisks": False, "escape_underscores": False, "bullets": "-", "heading_style": "ATX"}
    text: str = converter(strip=["a", "img"], **options).convert_soup(page)
    return text


def docx_text(data: bytes) -> str:
    """Return the text of a Word file as markdown. Raises NoTextError."""
    import mammoth  # noqa: PLC0415

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            unpacked = sum(each.file_size for each in archive.infolist())
            names = archive.namelist()
    except zipfile.BadZipFile as error:
        raise NoTextError("it is damaged: no zip file, which a Word document is") from error
    if unpacked > _MOST_UNPACKED:
        raise NoTextError(f"it unpacks to more than {_MOST_UNPACKED >> 20} MiB; split it")
    if "word/document.xml" not in names:
        raise NoTextError("a zip file, and no Word document")
    pictures = mammoth.images.img_element(lambda _: {})
    made = mammoth.convert_to_html(io.BytesIO(data), convert_image=pictures, style_map=_STYLES)
    return html_text(made.value)


READERS: Mapping[str, Callable[[bytes], str]] = {
    PDF.name: pdf_text,
    HTML.name: html_text,
    DOCX.name: docx_text,
}


def convert(kind: str, data: bytes) -> str:
    """Return the text of a file of a format. Raises NoTextError, also if a package fails."""
    try:
        text = READERS[kind](data)
    except NoTextError:
        raise
    except (MemoryError, RecursionError) as error:
        raise NoTextError("it is too large or too deeply nested to be read here; split it") from error
    except Exception as error:
        raise NoTextError(f"it cannot be read as {kind}: {type(error).__name__}") from error
    if not text.strip():
        raise NoTextError("there is no text in it")
    return _BLANK_LINES.sub("\n\n", text.replace("\0", "")).strip() + "\n"


def main(kind: str) -> int:
    """Convert the file on stdin and print its text, or the reason why not; return the exit code."""
    set_limits()
    logging.disable()
    warnings.simplefilter("ignore")
    try:
        output, code = convert(kind, sys.stdin.buffer.read(MOST_FILE_BYTES)), 0
    except NoTextError as error:
        output, code = str(error), REFUSED
    sys.stdout.buffer.write(output.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
