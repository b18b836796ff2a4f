import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.cli.terminal import escape, escape_json, escape_line

RAW = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)

PAYLOADS = {
    "colour": ("\x1b[31mred\x1b[0m", "^[[31mred^[[0m"),
    "clear screen": ("\x1b[2J\x1b[H", "^[[2J^[[H"),
    "clipboard, OSC 52": ("\x1b]52;c;cm0gLXJm\x07", "^[]52;c;cm0gLXJm^G"),
    "link, OSC 8": ("\x1b]8;;http://evil\x1b\\ok\x1b]8;;\x1b\\", "^[]8;;http://evil^[\\ok^[]8;;^[\\"),
    "window title": ("\x1b]0;owned\x07", "^[]0;owned^G"),
    "device control": ("\x1bP$q\x1b\\", "^[P$q^[\\"),
    "device status report": ("\x1b[6n", "^[[6n"),
    "carriage return": ("safe\rrm -rf", "safe^Mrm -rf"),
    "backspace": ("ab\x08c", "ab^Hc"),
    "bell": ("\x07", "^G"),
    "null": ("a\x00b", "a^@b"),
    "vertical tab and form feed": ("\x0b\x0c", "^K^L"),
    "delete": ("\x7f", "^?"),
    "C1 CSI": ("\x9b31m", "M-^[31m"),
    "C1 OSC": ("\x9d0;t\x9c", "M-^]0;tM-^\\"),
    "next line": ("\x85", "M-^E"),
    "right-to-left override": ("exe\u202egpj", "exe<U+202E>gpj"),
    "isolates": ("\u2066x\u2069", "<U+2066>x<U+2069>"),
    "arabic letter mark": ("\u061c", "<U+061C>"),
    "zero width": ("a\u200b\u200c\u200d\u2060\ufeffb", "a<U+200B><U+200C><U+200D><U+2060><U+FEFF>b"),
    "tag characters": ("\U000e0001\U000e0041", "<U+E0001><U+E0041>"),
    "variation selectors as bytes": ("\U000e0100\ufe00", "<U+E0100><U+FE00>"),
    "line separators": ("a\u2028b\u2029", "a<U+2028>b<U+2029>"),
    "lone surrogate": ("\udc9b", "<U+DC9B>"),
    "soft hyphen and fillers": ("\u00ad\u3164", "<U+00AD><U+3164>"),
}


@pytest.mark.parametrize(("payload", "shown"), PAYLOADS.values(), ids=PAYLOADS)
def test_what_a_terminal_would_obey_is_shown(payload, shown):
    assert escape(payload) == shown


@pytest.mark.parametrize("text", ["a\nb\tc", "naïve 好 🎉 ❤\ufe0f", "עברית العربية", "^[ \\x1b"])
def test_ordinary_text_is_unchanged_but_a_line_keeps_neither_newline_nor_tab(text):
    assert escape(text) == text
    assert escape_line(text) == text.replace("\n", "^J").replace("\t", "^I")


@given(st.text(alphabet=st.characters(exclude_categories=()) | st.sampled_from("\x1b\x9b\u202e\U000e0041")))
def test_nothing_raw_is_left_in_any_text(text):
    assert not RAW.search(escape(text))
    assert not RAW.search(escape_line(text))


@given(st.text())
def test_escaped_json_is_harmless_and_has_the_same_value(text):
    encoded = escape_json(json.dumps(text, ensure_ascii=False))

    assert not RAW.search(encoded)
    assert json.loads(encoded) == text
