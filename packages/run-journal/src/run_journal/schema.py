"""The JSON Schema of a line, made from the event classes.

Owns the description of format version 1 for programs that are not this one. Invariant: it lets
through what this version of the package writes and nothing else, so whoever gets a journal can
prove with any validator that no free text stands in it. The package carries the same as
`schema.json`, and `docs/formats.md` of the repository shows it; a test keeps the three alike.

`schema_text` is what stands in that file. Source: JSON Schema, draft 2020-12.
"""

from __future__ import annotations

import json
from dataclasses import Field, fields
from typing import TYPE_CHECKING, Any

from run_journal.event_base import PHASE, fact_names
from run_journal.events import EVENT_CLASSES, SessionDeleted, WorkspaceDecided
from run_journal.fields import COUNT, UUID_TEXT
from run_journal.lines import DELETED_SESSION_ID, FORMAT_VERSION
from run_journal.vocabulary import WorkspaceVerdict

if TYPE_CHECKING:
    from run_journal.event_base import Event
    from run_journal.fields import Metadata

_NULL = {"type": "null"}
_TIME = r"^[0-9]{4}(?:-[0-9]{2}){2}T[0-9]{2}(?::[0-9]{2}){2}\.[0-9]{6}Z$"


def line_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of one line of a journal, as a new object.

    Later versions of the package add fields and events within format 1: a reader that must take
    those as well drops `oneOf` and `unevaluatedProperties`.
    """
    kinds: dict[str, Any] = {}
    events = {cls.__name__: _event_schema(cls, kinds) for cls in EVENT_CLASSES}
    properties = {
        "v": {"const": FORMAT_VERSION},
        "seq": {"type": "integer", "minimum": 1},
        "ts": {"type": "string", "pattern": _TIME},
        "event": {"type": "string"},
        "workspace_id": _reference(UUID_TEXT, kinds),
        "session_id": _reference(UUID_TEXT, kinds, or_null=True),
        "run_id": _reference(UUID_TEXT, kinds, or_null=True),
        "phase": _reference(PHASE, kinds),
        "duration_ms": _reference(COUNT, kinds, or_null=True),
        "chain": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A line of a run journal, format {FORMAT_VERSION}",
        "type": "object",
        "required": list(properties),
        "properties": properties,
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in sorted(events)],
        "unevaluatedProperties": False,
        "$defs": dict(sorted((kinds | events).items())),
    }


def schema_text() -> str:
    """Return the schema as JSON text with one definition a line."""
    lines = []
    for key, value in line_schema().items():
        if key in {"properties", "$defs"}:
            inner = ",\n".join(f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            lines.append(f"  {json.dumps(key)}: {{\n{inner}\n  }}")
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _event_schema(cls: type[Event], kinds: dict[str, Any]) -> dict[str, Any]:
    own = {one.name: one for one in fields(cls)}
    properties: dict[str, Any] = {"event": _names_schema(cls)}
    for common in ("session_id", "run_id"):
        properties[common] = _field_schema(own[common], kinds) if common in own else _NULL
    if cls is SessionDeleted:
        properties[DELETED_SESSION_ID] = properties["session_id"]
        properties["session_id"] = _NULL
    properties |= {fact: _field_schema(own[fact], kinds) for fact in fact_names(cls)}
    return {"required": list(properties), "properties": properties}


def _names_schema(cls: type[Event]) -> dict[str, Any]:
    if cls is WorkspaceDecided:
        return {"enum": [str(WorkspaceDecided(verdict=one).name) for one in WorkspaceVerdict]}
    return {"const": str(cls.EVENT)}


def _field_schema(field: Field[Any], kinds: dict[str, Any]) -> dict[str, Any]:
    return _reference(field.metadata, kinds, or_null=field.default is None)


def _reference(
    metadata: Metadata, kinds: dict[str, Any], *, or_null: bool = False
) -> dict[str, Any]:
    kind = metadata["kind"]
    kinds[kind] = metadata["schema"]
    described = {"$ref": f"#/$defs/{kind}"}
    if or_null:
        kind = f"{kind}_or_null"
        kinds[kind] = {"anyOf": [described, _NULL]}
        described = {"$ref": f"#/$defs/{kind}"}
    return described
