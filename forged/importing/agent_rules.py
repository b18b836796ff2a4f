"""Import rules that agents read: CLAUDE.md and similar files, Cursor rules, Copilot instructions.

Each statement of a file becomes a memory. Conditions in a rule's front matter become cues. A file that
another imports (`@docs/style.md`) is named and not followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from forged.importing.blocks import lines_of
from forged.importing.categories import category_of
from forged.importing.markdown import MarkdownStatement, cut
from forged.importing.values import ImportBatch, ImportItem, SkippedPart, fitting_cues
from forged.memory import Category, Scope

_IMPORT = re.compile(r"(?<![\w`@/])@((?:~/|\.{1,2}/|/)?[\w.-][\w./-]*)")
_CODE_SPAN = re.compile(r"`[^`\n]*`")
_LEADS_TO_FILE = re.compile(r"(?:~|\.{1,2})?/.*|.*\.[A-Za-z]\w{0,5}")
_CUSTOMARY = re.compile(r"(?:Gemini|Qwen)(?: Code)? Added Memories")  # section in which they store memories
_OF_HEADER = re.compile(r"[A-Za-z][\w-]*[ \t]*:|[ \t]|- |#|\Z")
_KEY = re.compile(r"([A-Za-z][\w-]*)[ \t]*:[ \t]*(.*)")
# Front matter keys in all spellings, by meaning.
_MEANINGS = {
    "description": "when",
    "globs": "files",
    "applyto": "files",
    "paths": "files",
    "alwaysapply": "always",
}


def batch_of_rules(text: str, *, where: str, scope: str, folder: str = "") -> ImportBatch:
    """Return a rules file's statements as items, and parts skipped; `folder` is named in each item."""
    header, body, skipped = _split_front_matter(text)
    found_cues, left = _cues_of_header(header, where)
    found = cut(body)
    above = (folder,) if folder else ()
    items: list[ImportItem] = []
    for statement in found.statements:
        left += _skipped_imports(statement, where, skipped)
        if not _is_import_alone(statement):
            items.append(
                _item_of(
                    statement,
                    where=f"{where}:{statement.first + skipped}",
                    above=above,
                    cues=found_cues,
                    scope=scope,
                )
            )
    left += [SkippedPart(f"{where}:{first + skipped}", why) for first, _, why in found.left]
    return ImportBatch(tuple(items), tuple(left))


def _item_of(
    statement: MarkdownStatement, *, where: str, above: tuple[str, ...], cues: tuple[str, ...], scope: str
) -> ImportItem:
    """Return a rule's statement as item: text with headings, their category or a default, cues."""
    statement_said = _text_with_headings(statement, above)
    default = Category.CODING_PREFERENCES if scope == Scope.USER else Category.PROJECT_CONVENTIONS
    category = category_of(statement.lead, *statement.headings) or default.value
    return ImportItem(text=statement_said, where=where, scope=scope, category=category, cues=cues)


def _text_with_headings(statement: MarkdownStatement, above: tuple[str, ...]) -> str:
    """Return a statement as text after `above` and its headings, without customary section names."""
    telling = tuple(each for each in statement.headings if not _CUSTOMARY.fullmatch(each))
    return msgspec.structs.replace(statement, headings=(*above, *telling)).said


# --- imports -------------------------------------------------------------------------------------------


def _skipped_imports(statement: MarkdownStatement, where: str, skipped: int) -> list[SkippedPart]:
    """Return a skipped part for each file that a statement imports by `@path`, as it is not read."""
    at = f"{where}:{statement.first + skipped}"
    return [
        SkippedPart(at, f"{name}, which it includes, is not read; import that file separately")
        for name in _imported_paths(statement.text)
    ]


def _imported_paths(text: str) -> Iterator[str]:
    """Yield the paths that a text includes by `@path`, outside of code."""
    fenced = False
    for line in lines_of(text):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and "@" in line:
            for found in _IMPORT.finditer(_CODE_SPAN.sub("", line)):
                if _LEADS_TO_FILE.fullmatch(name := found[1].rstrip(".,")):
                    yield name


def _is_import_alone(statement: MarkdownStatement) -> bool:
    """Return True if a statement has no words but `@path`."""
    words = statement.text.split()
    return (
        bool(words) and all(word.startswith("@") for word in words) and any(_imported_paths(statement.text))
    )


# --- front matter --------------------------------------------------------------------------------------


def _split_front_matter(text: str) -> tuple[list[str], str, int]:
    """Return front matter lines, the body after them, and the number of lines before the body."""
    lines, header, at = lines_of(text), list[str](), 0
    while (end := _header_end(lines, at)) > at:
        header += ["", *lines[at + 1 : end - 1], ""]
        at = end
    return header, "\n".join(lines[at:]), at


def _header_end(lines: Sequence[str], at: int) -> int:
    """Return the index after front matter that begins here, or `at` if there is none."""
    if at >= len(lines) or lines[at].strip() != "---":
        return at
    for end in range(at + 1, len(lines)):
        if lines[end].strip() == "---":
            return end + 1
        if not _OF_HEADER.match(lines[end]):
            return at
    return at


def _cues_of_header(lines: Sequence[str], where: str) -> tuple[tuple[str, ...], list[SkippedPart]]:
    """Return cues from front matter: description and file patterns; and a skipped part per unknown key."""
    values, left = dict[str, list[str]](), list[SkippedPart]()
    current: list[str] | None = None
    for number, line in enumerate(lines, 1):
        key = _KEY.fullmatch(line)
        if key is not None:
            meaning = _MEANINGS.get(key[1].lower().replace("_", ""))
            current = values.setdefault(meaning, []) if meaning else None
            if meaning is None:
                left.append(SkippedPart(f"{where}:{number}", f"the key {key[1][:40]!r} cannot be imported"))
            elif current is not None:
                current += _listed_texts(key[2])
        elif current is not None and line.strip():
            current += _listed_texts(line.strip().removeprefix("- "))
    return _cues_of_values(values), left


def _listed_texts(value: str) -> Iterable[str]:
    """Return one text, or those of a list in brackets, without quotation marks."""
    inner = value.strip()
    parts = inner[1:-1].split(",") if inner[:1] == "[" and inner[-1:] == "]" else [inner]
    return [part.strip().strip("\"'") for part in parts if part.strip().strip("\"'")]


def _cues_of_values(values: dict[str, list[str]]) -> tuple[str, ...]:
    """Return cues from the description and, unless the rule always applies, its file patterns."""
    always = values.get("always", ["false"])[:1] == ["true"]
    when = [" ".join(values.get("when", ()))]
    globs = [each for value in values.get("files", ()) for each in value.split(",")]
    files = [f"editing {each.strip()}" for each in globs if each.strip() not in {"", "*", "**", "**/*"}]
    return fitting_cues((*when, *(() if always else files)))
