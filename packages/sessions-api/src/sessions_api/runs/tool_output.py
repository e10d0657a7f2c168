"""What becomes of a tool's return value: a text, always, and parts beside it where it has some.

Owns the one rule by which a value becomes text (a string as it is, anything else as strict JSON in
pydantic's JSON mode, NaN and Infinity as strings) and `ToolOutput`, for images and the like.
Invariant: what passes can be stored; what cannot be expressed raises, and is a tool error which the
model reads. Lone surrogates pass: the store repairs them, as it does in all text, and says so.

Must not: import pydantic before a value needs it.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """Text for every reader, and `parts` as content parts that the provider understands.

    A part is a mapping in the form of the service, such as `{"type": "image_url", "image_url":
    {"url": "data:image/png;base64,…"}}`, which all built-in providers take. Parts are stored as
    they are and sent where the service accepts them in a tool's result. TypeError or ValueError
    when they are no JSON; raised inside a tool, that is an error which the model reads.
    """

    text: str
    parts: Iterable[Mapping[str, Any]] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError(f"text must be text, not {type(self.text).__name__}")
        parts = tuple(self.parts)
        if not all(isinstance(part, Mapping) for part in parts):
            raise TypeError("each part must be a mapping")
        plain = json.loads(json.dumps([dict(part) for part in parts], allow_nan=False))
        object.__setattr__(self, "parts", tuple(plain))


def result_text(value: Any) -> str:
    """Return what a tool returned as the text of its result; raises what pydantic raises.

    Sets and generators become arrays. What becomes of NaN in a pydantic model is for its own
    `ser_json_inf_nan` to say.
    """
    if isinstance(value, str):
        return str.__str__(value)  # of a subclass, such as an enum, the text that it is
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError("it returned a coroutine; declare the tool with `async def`")
    from pydantic_core import PydanticSerializationError, to_json  # noqa: PLC0415 - heavy

    try:
        return to_json(value, inf_nan_mode="strings").decode()
    except PydanticSerializationError as error:
        try:
            return json.dumps(
                _plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")
            )
        except (TypeError, ValueError, RecursionError):
            raise error from None


def _plain(value: Any) -> Any:
    """Return *value* in the types of JSON by the same rule, with the lone surrogates it has.

    pydantic writes bytes and so refuses them; names of files often have some.
    """
    from pydantic_core import to_jsonable_python  # noqa: PLC0415 - heavy

    match value:
        case None | bool() | int():
            return value
        case str():
            return str.__str__(value)
        case float():
            if math.isnan(value):
                return "NaN"
            return value if math.isfinite(value) else f"{'-' if value < 0 else ''}Infinity"
        case dict():
            return {_key(key): _plain(one) for key, one in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(one) for one in value]
        case Iterator():
            raise TypeError("it is used up by now")
        case _:
            return _plain(to_jsonable_python(value))


def _key(key: Any) -> str:
    """Return the name that pydantic gives a key."""
    from pydantic_core import to_jsonable_python  # noqa: PLC0415 - heavy

    named = {key: 0} if isinstance(key, str) else to_jsonable_python({key: 0})
    return str.__str__(next(iter(named)))
