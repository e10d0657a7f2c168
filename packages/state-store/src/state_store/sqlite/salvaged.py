"""How a session says that damage took something of it: `"salvaged": true` in its metadata.

It is there so that people, programs and a later check can tell what is missing by damage from what
cannot be missing. Invariant: whatever else the metadata holds stays as it is.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from state_store.sqlite.rows import to_json

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEY = "salvaged"


def marked(metadata: str | None) -> str:
    """Return the JSON text of *metadata* with the mark."""
    return to_json(as_salvaged(_object(metadata)))


def as_salvaged(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return *metadata* with the mark."""
    return {**metadata, _KEY: True}


def is_marked(metadata: str | None) -> bool:
    """Say whether *metadata*, which is the JSON text of an object, carries the mark."""
    # Most metadata needs no parsing to know that.
    return metadata is not None and _KEY in metadata and is_salvaged(_object(metadata))


def is_salvaged(metadata: Mapping[str, Any]) -> bool:
    """Say whether *metadata* carries the mark."""
    return metadata.get(_KEY) is True


def _object(metadata: str | None) -> dict[str, Any]:
    return {} if metadata is None else json.loads(metadata)
