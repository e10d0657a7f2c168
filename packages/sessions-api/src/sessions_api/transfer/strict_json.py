"""JSON lines of others, taken apart strictly: what is not said exactly is refused.

Owns the way from bytes to values. Invariant: what passes can be stored and written again with the
same meaning: valid UTF-8, one object, no name twice, no NaN, no number beyond what can be stored,
no nesting that would exhaust the stack. Every refusal is an `Unfit` with words that hold no
content.

Source: RFC 8259 and RFC 7493 (I-JSON), whose "must be unique" and number rules are taken strictly.
"""

from __future__ import annotations

import json
import math
from typing import Any

from sessions_api.providers.exact_json import members

DEEPEST = 200


class Unfit(ValueError):
    """What is read is not what it has to be; the words are for a person and hold no content."""


class _Twice(dict[str, Any]):
    """An object in which a name stood twice."""


def object_in(line: bytes) -> dict[str, Any]:
    """Return the object that *line* is; names inside it are not looked at yet."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise Unfit("it is not valid UTF-8") from None
    try:
        found = _DECODER.decode(text)
    except RecursionError:
        raise Unfit("it is nested too deeply") from None
    except Unfit:
        raise
    except ValueError:
        raise Unfit("it is not valid JSON, or was cut off") from None
    return plain_object(found)


def plain_object(value: Any) -> dict[str, Any]:
    """Return *value* if it is an object without a name that stands twice."""
    if not isinstance(value, dict):
        raise Unfit("it is not a JSON object")
    if isinstance(value, _Twice):
        raise Unfit("a name stands twice in it")
    return value


def exact_members(line: bytes) -> list[tuple[str, str]]:
    """Return name and exact text of each member of *line*, which `object_in` has accepted."""
    return list(members(line.decode()))


def require_exact(value: Any) -> None:
    """Raise Unfit unless *value* comes back as it is from a store of JSON."""
    waiting: list[tuple[Any, int]] = [(value, 1)]
    while waiting:
        one, depth = waiting.pop()
        if depth > DEEPEST:
            raise Unfit("it is nested too deeply")
        if isinstance(one, _Twice):
            raise Unfit("a name stands twice in it")
        if isinstance(one, float) and not math.isfinite(one):
            raise Unfit("it holds a number too large to be kept")
        if isinstance(one, dict):
            waiting += [(inner, depth + 1) for inner in one.values()]
        elif isinstance(one, list):
            waiting += [(inner, depth + 1) for inner in one]


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _Twice(found)


def _no_number(name: str) -> Any:
    raise Unfit(f"{name} is no number in JSON")


def _integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:  # Python's own limit, against work that grows with the square of the digits
        raise Unfit("it holds a number of too many digits") from None


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_no_number, parse_int=_integer)
