"""A conversation in every form of agents' messages, with text planted in unread places.

`SAID` is what a person or the model said and must be read; `HIDDEN` stands in tool content, in reasoning, in
other roles and in private spans. Each form is one conversation, as dicts that could come off a wire.
"""

from __future__ import annotations

from types import SimpleNamespace

SAID, HIDDEN = "WORDS-SAID", "WORDS-HIDDEN"

Form = list[dict[str, object]]


def _user(*parts: object) -> Form:
    return [{"role": "user", "content": list(parts)}]


def _assistant(text: str) -> Form:
    return [{"role": "user", "content": "a question"}, {"role": "assistant", "content": text}]


def _text(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


FORMS: dict[str, Form] = {
    "openai-text": [{"role": "user", "content": SAID}],
    "openai-parts": _user(_text(SAID), {"type": "image_url", "image_url": {"url": HIDDEN}}),
    "openai-tool-calls": [
        {"role": "user", "content": SAID},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": HIDDEN}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": HIDDEN},
        {"role": "tool", "tool_call_id": "1", "content": [_text(HIDDEN)]},
    ],
    "openai-function-call": [
        {"role": "assistant", "content": SAID, "function_call": {"name": "f", "arguments": HIDDEN}},
        {"role": "function", "name": "f", "content": HIDDEN},
    ],
    "openai-other-roles": [
        {"role": "system", "content": HIDDEN},
        {"role": "developer", "content": [_text(HIDDEN)]},
        {"role": "System", "content": HIDDEN},
        {"role": "", "content": HIDDEN},
        {"role": "user", "content": SAID},
    ],
    "openai-refusal-and-reasoning": [
        {"role": "user", "content": SAID},
        {
            "role": "assistant",
            "reasoning_content": HIDDEN,
            "refusal": HIDDEN,
            "content": [
                {"type": "refusal", "refusal": HIDDEN, "text": HIDDEN},
                {"type": "reasoning", "text": HIDDEN, "summary": [_text(HIDDEN)]},
            ],
        },
    ],
    "openai-responses-parts": _user(
        {"type": "input_text", "text": SAID}, {"type": "input_file", "text": HIDDEN, "file_data": HIDDEN}
    ),
    "anthropic-tool-use": [
        {
            "role": "assistant",
            "content": [_text(SAID), {"type": "tool_use", "id": "1", "name": "f", "input": {"a": HIDDEN}}],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "1", "content": HIDDEN},
                {"type": "tool_result", "tool_use_id": "1", "content": [_text(HIDDEN)], "text": HIDDEN},
                {"type": "server_tool_use", "text": HIDDEN},
                {"type": "web_search_tool_result", "content": [{"text": HIDDEN}]},
            ],
        },
    ],
    "anthropic-thinking": [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": HIDDEN, "text": HIDDEN, "signature": "s"},
                {"type": "redacted_thinking", "data": HIDDEN, "text": HIDDEN},
                _text(SAID),
            ],
        }
    ],
    "anthropic-text-around-results": _user(
        {"type": "tool_result", "content": HIDDEN}, _text(SAID), {"type": "tool_result", "content": HIDDEN}
    ),
    "gemini": [
        {"role": "user", "parts": [{"text": SAID}, {"inlineData": {"data": HIDDEN}}]},
        {
            "role": "model",
            "parts": [
                {"text": HIDDEN, "thought": True},
                {"functionCall": {"name": "f", "args": {"text": HIDDEN}}, "thoughtSignature": HIDDEN},
            ],
        },
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"text": HIDDEN}}}]},
        {"role": "function", "parts": [{"text": HIDDEN}, {"functionResponse": {"response": HIDDEN}}]},
    ],
    "gemini-model": [
        {"role": "user", "parts": [{"text": "a question"}]},
        {"role": "model", "parts": [{"text": HIDDEN, "thought": True}, {"text": SAID, "thought": False}]},
    ],
    "gemini-private": [
        {"role": "user", "parts": [{"text": f"{SAID} <private>"}]},
        {"role": "model", "parts": [{"text": HIDDEN}]},
        {"role": "user", "parts": [{"text": f"{HIDDEN}</private>"}, {"text": "after"}]},
    ],
    "forge-xml": _assistant(
        "I write it.\n<tool>\n<server_name>local</server_name>\n<tool_name>write_file</tool_name>\n"
        f"<arguments>\n<content><![CDATA[\n```\n</tool>\n{HIDDEN} <tool>\n```\n]]></content>\n"
        f"</arguments>\n</tool>\n{SAID}"
    ),
    "forge-xml-as-a-result": [
        {"role": "user", "content": SAID},
        {"role": "user", "content": f"<tool_result>\n{HIDDEN}\n</tool_result>"},
    ],
    "forge-xml-cut-short": _assistant(f"{SAID} <tool>\n<arguments><content><![CDATA[{HIDDEN}"),
    "other-xml": _assistant(
        f"{SAID}<function_calls><invoke name='f'><parameter name='p'>{HIDDEN}</parameter></invoke>"
        f"</function_calls><function_results>{HIDDEN}</function_results>"
        f"<invoke>{HIDDEN}</invoke><SYSTEM-REMINDER>{HIDDEN}</SYSTEM-REMINDER>"
    ),
    "xml-over-parts": _user(_text(f"{SAID} <tool_call>"), _text(HIDDEN), _text("</tool_call> after")),
    "private": [{"role": "user", "content": f"<private>{HIDDEN}</private>{SAID} <PRIVATE>{HIDDEN}"}],
    "private-over-parts": _user(
        _text(f"{SAID} <private>"), {"type": "image"}, _text(f"{HIDDEN}</private>"), _text("after")
    ),
    "private-in-json": [
        {
            "role": "user",
            "content": SAID + r' {"a": "\u003cprivate\u003e' + HIDDEN + r'\u003c/private\u003e"}',
        }
    ],
    "private-around-a-tool": _user(
        _text(f"{SAID} <private><tool>"), _text(f"{HIDDEN}</tool> {HIDDEN}</private>")
    ),
}

# Items without a role, which only the client accepts.
ROLELESS: Form = [
    {"role": "user", "content": SAID},
    {"type": "function_call", "name": "f", "arguments": HIDDEN},
    {"type": "function_call_output", "output": HIDDEN, "content": HIDDEN},
    {"type": "reasoning", "content": [_text(HIDDEN)], "summary": []},
]


def as_objects(given: object) -> object:
    """The same as an SDK holds it: every dict an object with attributes."""
    if isinstance(given, dict):
        return SimpleNamespace(**{name: as_objects(each) for name, each in given.items()})
    return [as_objects(each) for each in given] if isinstance(given, list) else given


def mixed(form: Form) -> list[object]:
    """Messages as dicts with parts that are objects, and the other way round, in turns."""
    given: list[object] = []
    for at, message in enumerate(form):
        bodies = [message.get("content"), message.get("parts")]
        if at % 2:
            given.append(SimpleNamespace(**message))
        elif any(isinstance(body, list) for body in bodies):
            given.append({name: as_objects(each) for name, each in message.items()})
        else:
            given.append(message)
    return given


DRESSES = {"dicts": list, "objects": as_objects, "mixed": mixed}
"""How the messages of a form may come."""
