"""What may stand on a line: a check for each field, which returns the value it means.

Invariant: what passes has the type, form and range that a record needs; whatever else is `Unfit`,
and the words name the field and what it has to be, never what it was. Ids are canonical UUIDs, so
that none can be part of a path or a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from datetime import datetime
from typing import Any

from sessions_api.transfer.strict_json import Unfit, plain_object, require_exact
from state_store import ToolCall, to_text

Check = Callable[[Any], Any]


class Wanted(Unfit):
    """A value is something else; the words say what it must be."""


_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LARGEST = 2**53 - 1  # what every reader of JSON keeps exactly


def text(value: Any) -> str:
    """Take any text."""
    if not isinstance(value, str):
        raise Wanted("a text")
    return value


def uuid_text(value: Any) -> str:
    """Take the canonical text of a UUID."""
    if not isinstance(value, str) or not _UUID.fullmatch(value):
        raise Wanted("a UUID in lower case")
    return value


def instant(value: Any) -> datetime:
    """Take a time in the fixed-width form, which is the only one."""
    try:
        found = datetime.fromisoformat(value)
        if to_text(found) == value:
            return found
    except (TypeError, ValueError, OverflowError):
        pass
    raise Wanted("a time like 2026-01-02T03:04:05.000006Z")


def word(value: Any) -> str:
    """Take a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise Wanted("a text that is not empty")
    return value


def whole(*, least: int = 0, most: int = _LARGEST) -> Check:
    """Return the check for a whole number in this range."""

    def check(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise Wanted(f"a whole number from {least} to {most}")
        return value

    return check


def amount(value: Any) -> float:
    """Take a number that is not negative."""
    if type(value) not in {int, float} or value < 0:
        raise Wanted("a number that is not negative")
    try:
        found = float(value)
    except OverflowError:
        raise Wanted("a number that can be kept") from None
    require_exact(found)
    return found


def flag(value: Any) -> bool:
    """Take true or false."""
    if not isinstance(value, bool):
        raise Wanted("true or false")
    return value


def one_of(*names: str) -> Check:
    """Return the check for one of *names*."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise Wanted(f"one of {', '.join(names)}")
        return value

    return check


def json_object(value: Any) -> dict[str, Any]:
    """Take any JSON object that can be kept exactly."""
    if not isinstance(value, dict):
        raise Wanted("a JSON object")
    require_exact(value)
    return value


def json_objects(value: Any) -> tuple[dict[str, Any], ...]:
    """Take an array of JSON objects."""
    if not isinstance(value, list):
        raise Wanted("an array of JSON objects")
    return tuple(json_object(one) for one in value)


def pair(first: Check, second: Check) -> Check:
    """Return the check for an array of two."""

    def check(value: Any) -> tuple[Any, Any]:
        if not isinstance(value, list) or len(value) != 2:  # noqa: PLR2004 - a pair
            raise Wanted("an array of two")
        return first(value[0]), second(value[1])

    return check


def tool_calls(value: Any) -> tuple[ToolCall, ...]:
    """Take the calls of a message as an archive has them."""
    if not isinstance(value, list):
        raise Wanted("an array of tool calls")
    return tuple(ToolCall(**fields(one, _CALL, _CALL.keys())) for one in value)


def optional(check: Check) -> Check:
    """Return the check for null or what *check* takes."""
    return lambda value: None if value is None else check(value)


def fields(
    value: Any,
    checks: Mapping[str, Check],
    required: Iterable[str] = (),
    *,
    ignored: Container[str] = (),
) -> dict[str, Any]:
    """Return the fields of the object *value* as *checks* read them, by name.

    A field without a check is refused unless it is *ignored*; so is one that is *required* and
    missing.
    """
    found = plain_object(value)
    for name in required:
        if name not in found:
            raise Unfit(f"{name} is missing")
    values = {}
    for name, one in found.items():
        if (check := checks.get(name)) is None:
            if name not in ignored:
                raise Unfit("it has a field that is not known here")
            continue
        try:
            values[name] = check(one)
        except Unfit as unfit:
            joint = " must be " if isinstance(unfit, Wanted) else ": "
            raise Unfit(f"{name}{joint}{unfit}") from None
    return values


_CALL: dict[str, Check] = {"id": text, "name": text, "arguments": text}
