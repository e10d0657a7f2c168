"""The texts that an event may hold, each a type of its own: ids, names, identifiers.

Owns what such a text looks like and the one function that makes each. Invariant: to the type
checker a plain `str` is none of them, so no text gets into an event by mistake; because a type can
be claimed, an event checks its fields once more when it is made.

Source: redaction by construction (the journal's README, "What can be in a line").
"""

from __future__ import annotations

import re
from typing import NewType, TypeGuard, TypeVar, cast

from run_journal.errors import EventInvalid

Id = NewType("Id", str)
Name = NewType("Name", str)
Identifier = NewType("Identifier", str)
_Text = TypeVar("_Text", bound=str)

INVALID_NAME = Name("<invalid>")
ID_RULE = "a UUID in canonical lower-case text"
IDENTIFIER_RULE = "an identifier: 1 to 64 of A-Z a-z 0-9 _ . : / -"

ID_SHAPE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
IDENTIFIER_SHAPE = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")


def is_id(value: object) -> TypeGuard[Id]:
    """Whether *value* is a UUID in canonical text: 36 lower-case characters with hyphens."""
    return isinstance(value, str) and ID_SHAPE.fullmatch(value) is not None


def is_identifier(value: object) -> TypeGuard[Identifier]:
    """Whether *value* is 1 to 64 of the characters that an identifier is made of."""
    return isinstance(value, str) and IDENTIFIER_SHAPE.fullmatch(value) is not None


def _is_name(value: object) -> TypeGuard[Name]:
    return isinstance(value, str) and IDENTIFIER_SHAPE.fullmatch(value) is not None


def id_of(text: str) -> Id:
    """Return *text* as the id of a session, a run or a workspace.

    Raises `EventInvalid` for what is no UUID in canonical text: 36 lower-case characters.
    """
    if is_id(text):
        return plain(text)
    raise EventInvalid(event="id_of", field="text", rule=ID_RULE)


def identifier_of(text: str) -> Identifier:
    """Return *text* as an identifier. Raises `EventInvalid` for what is none."""
    if is_identifier(text):
        return plain(text)
    raise EventInvalid(event="identifier_of", field="text", rule=IDENTIFIER_RULE)


def name_of(text: object) -> Name:
    """Return the name of a model, tool or provider, or `<invalid>` for what is no identifier.

    Raises nothing: a model can invent a tool name that is the user's text.
    """
    return plain(text) if _is_name(text) else INVALID_NAME


def plain(text: _Text) -> _Text:
    """Return *text* without the ways of a subclass, which could say something else later."""
    return text if type(text) is str else cast("_Text", str.__str__(text))
