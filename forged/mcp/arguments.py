"""Arguments of a tool, held against the schema that the tool is listed with. Pure.

In go the tool as `offered.py` lists it and what a model wrote; out come the arguments that count, without
those that are null. Raised is WrongArgument, whose sentence says to a model what to write instead.
"""

from __future__ import annotations

from forged.mcp.messages import Json


class WrongArgument(Exception):  # noqa: N818 - reads as what it is about
    """An argument that means nothing; the sentence says what to do."""


def checked(tool: Json, given: object) -> Json:
    """The arguments of a call. Raises WrongArgument."""
    name, schema = tool["name"], tool["inputSchema"]
    assert isinstance(schema, dict)
    known = schema["properties"]
    if not isinstance(given, dict):
        raise WrongArgument(f"the arguments of {name} are no object")
    there = {field: value for field, value in given.items() if value is not None}
    for field in there:
        if field not in known:
            takes = ", ".join(known) or "no arguments"
            raise WrongArgument(f"{name} knows no {field[:40]!r}; it takes {takes}")
    for field in schema.get("required", ()):
        if field not in there:
            raise WrongArgument(f"{field} is missing: {known[field]['description']}")
    return {field: _value(field, known[field], value) for field, value in there.items()}


def _value(field: str, schema: Json, value: object) -> object:
    if schema["type"] == "array":
        return _list(field, schema, value)
    if schema["type"] == "integer":
        return _count(field, schema, value)
    return _text(field, schema, value)


def _list(field: str, schema: Json, value: object) -> list[str]:
    least, most = schema["minItems"], schema["maxItems"]
    if not isinstance(value, list) or not least <= len(value) <= most:  # type: ignore[operator]
        raise WrongArgument(f"{field} must be a list of {least} to {most} texts: {schema['description']}")
    items = schema["items"]
    assert isinstance(items, dict)
    return [_text(f"each of {field}", items, each) for each in value]


def _count(field: str, schema: Json, value: object) -> int:
    least, most = schema["minimum"], schema["maximum"]
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    if not isinstance(whole, int) or isinstance(whole, bool) or not least <= whole <= most:  # type: ignore[operator]
        raise WrongArgument(f"{field} must be a whole number from {least} to {most}")
    return whole


def _text(field: str, schema: Json, value: object) -> str:
    words = schema.get("enum")
    if isinstance(words, list):
        if value not in words:
            raise WrongArgument(f"{field} must be one of {', '.join(words)}")
    elif not isinstance(value, str) or not value.strip():
        raise WrongArgument(f"{field} must be a text that says something")
    elif len(value) > schema["maxLength"]:  # type: ignore[operator]
        raise WrongArgument(f"{field} may have {schema['maxLength']} characters and has {len(value)}")
    return str(value)
