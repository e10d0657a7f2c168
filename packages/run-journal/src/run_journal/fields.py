"""The rules that a field of an event is checked by.

Owns what may be a value in a journal line: a member of a closed set, a bounded integer, a
boolean, canonical UUID text, a bounded identifier, or the facts of an exception. Invariant: what
passes is plain ASCII of bounded length, so a line can carry no message text, no NUL, no lone
surrogate and no line break. A rule never puts the refused value into its error. What a rule lets
through is described beside it in the words of JSON Schema, under the name `kind`.

Source: redaction by construction (the journal's README, "What can be in a line").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from run_journal.failures import (
    COLLAPSED_FRAMES_SCHEMA,
    FRAME_SCHEMA,
    MAX_STACK_ENTRIES,
    MAX_TYPE_NAMES,
    CollapsedFrames,
    Frame,
)
from run_journal.names import (
    ID_RULE,
    ID_SHAPE,
    IDENTIFIER_RULE,
    IDENTIFIER_SHAPE,
    INVALID_NAME,
    Id,
    Identifier,
    Name,
    is_id,
    is_identifier,
    name_of,
    plain,
)

if TYPE_CHECKING:
    from enum import StrEnum

MAX_INTEGER = 2**63 - 1

_MAX_HTTP_STATUS = 999

Metadata = Mapping[str, Any]


class RuleBroken(Exception):
    """A value breaks a rule; the text names the rule, never the value."""


def _id(value: object) -> Id:
    if is_id(value):
        return plain(value)
    raise RuleBroken(ID_RULE)


def _identifier(value: object) -> Identifier:
    if is_identifier(value):
        return plain(value)
    raise RuleBroken(IDENTIFIER_RULE)


def _count(value: object) -> int:
    if type(value) is int and 0 <= value <= MAX_INTEGER:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_INTEGER:
        return int(value)
    raise RuleBroken("an integer from 0 to 2**63-1")


def _http_status(value: object) -> int:
    # Three digits, whatever they are: a server's odd status must not cost us the event.
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_HTTP_STATUS:
        return int(value)
    raise RuleBroken("an HTTP status: an integer from 0 to 999")


def _flag(value: object) -> bool:
    if type(value) is bool:
        return value
    raise RuleBroken("True or False")


def _stack(value: object) -> tuple[Frame | CollapsedFrames, ...]:
    if (
        isinstance(value, tuple)
        and len(value) <= MAX_STACK_ENTRIES
        and all(type(entry) in (Frame, CollapsedFrames) for entry in value)
    ):
        return value
    raise RuleBroken("what stack_of() returned")


def _type_names(value: object) -> tuple[Name, ...]:
    if isinstance(value, tuple) and len(value) <= MAX_TYPE_NAMES:
        return tuple(map(name_of, value))
    raise RuleBroken("what type_names_of() returned")


def _kind(rule: Rule, kind: str, **schema: Any) -> Metadata:
    return {"rule": rule, "kind": kind, "schema": schema}


def one_of(words: type[StrEnum]) -> Metadata:
    """Rule: a member of *words*, or the exact text of one, which becomes the member."""

    def member(value: object) -> StrEnum:
        if type(value) is words:
            return value
        if isinstance(value, str):
            try:
                return words(value)
            except ValueError:
                pass
        raise RuleBroken(f"one of {', '.join(words)}")

    return _kind(member, words.__name__, enum=[str(word) for word in words])


Rule = Callable[[object], Any]

UUID_TEXT = _kind(_id, "uuid", type="string", pattern=f"^{ID_SHAPE.pattern}$")
IDENTIFIER = _kind(
    _identifier, "identifier", type="string", pattern=f"^{IDENTIFIER_SHAPE.pattern}$"
)
NAME = _kind(
    name_of, "name", type="string", pattern=f"^(?:{IDENTIFIER_SHAPE.pattern}|{INVALID_NAME})$"
)
COUNT = _kind(_count, "count", type="integer", minimum=0, maximum=MAX_INTEGER)
HTTP_STATUS = _kind(
    _http_status, "http_status", type="integer", minimum=0, maximum=_MAX_HTTP_STATUS
)
FLAG = _kind(_flag, "flag", type="boolean")
STACK = _kind(
    _stack,
    "stack",
    type="array",
    maxItems=MAX_STACK_ENTRIES,
    items={"anyOf": [FRAME_SCHEMA, COLLAPSED_FRAMES_SCHEMA]},
)
TYPE_NAMES = _kind(
    _type_names,
    "type_names",
    type="array",
    maxItems=MAX_TYPE_NAMES,
    items={"$ref": "#/$defs/name"},
)
