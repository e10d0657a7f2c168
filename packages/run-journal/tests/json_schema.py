"""A validator for the words of JSON Schema that the journal's schema uses, and for no others.

Owns the check of one value against one schema. Invariant: a word that it does not know is an
error, so that nothing in a schema is passed over in silence. Source: JSON Schema, draft 2020-12.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
_ANNOTATIONS = {"$schema", "title", "$defs"}


def is_valid(value: Any, root: Mapping[str, Any]) -> bool:
    """Whether *value* fits the schema *root*."""
    return _evaluated(value, root, root) is not None


def _evaluated(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> set[str] | None:
    """Return the members of *value* that *schema* spoke about, or None if it does not fit."""
    seen: set[str] = set()
    for word, wanted in schema.items():
        match word:
            case "$ref":
                inner = _evaluated(value, root["$defs"][wanted.removeprefix("#/$defs/")], root)
                if inner is None:
                    return None
                seen |= inner
            case "anyOf" | "oneOf":
                fitting = [one for one in wanted if _evaluated(value, one, root) is not None]
                if not fitting or (word == "oneOf" and len(fitting) > 1):
                    return None
                for one in fitting:
                    seen |= _evaluated(value, one, root) or set()
            case "properties":
                for name in wanted.keys() & value.keys():
                    if _evaluated(value[name], wanted[name], root) is None:
                        return None
                    seen.add(name)
            case "unevaluatedProperties":
                pass  # after all others, below
            case _ if word not in _ANNOTATIONS and not _fits(value, word, wanted, root):
                return None
    if schema.get("unevaluatedProperties") is False and set(value) - seen:
        return None
    return seen


def _fits(value: Any, word: str, wanted: Any, root: Mapping[str, Any]) -> bool:
    match word:
        case "type":
            if wanted == "integer":
                return type(value) is int
            return isinstance(value, _TYPES[wanted])
        case "const":
            return type(value) is type(wanted) and bool(value == wanted)
        case "enum":
            return value in wanted
        case "pattern":
            return re.search(wanted.replace("$", r"\Z"), value) is not None
        case "minimum":
            return bool(value >= wanted)
        case "maximum":
            return bool(value <= wanted)
        case "minItems":
            return bool(len(value) >= wanted)
        case "maxItems":
            return bool(len(value) <= wanted)
        case "items":
            return all(_evaluated(one, wanted, root) is not None for one in value)
        case "prefixItems":
            return all(
                _evaluated(one, schema, root) is not None
                for one, schema in zip(value, wanted, strict=False)
            )
        case "required":
            return set(wanted) <= set(value)
        case _:
            raise AssertionError(f"the validator does not know {word}")
