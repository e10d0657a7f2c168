"""How a session says that damage took something of it: `"salvaged": true` in its metadata.

It is there so that people, programs and a later check can tell what is missing by damage from what
cannot be missing. Invariant: whatever else the metadata holds stays as it is.
"""

from __future__ import annotations

import json
from typing import Any

from state_store.sqlite.rows import to_json

_KEY = "salvaged"


def marked(metadata: str | None) -> str:
    """Return the JSON text of *metadata* with the mark."""
    return to_json({**_object(metadata), _KEY: True})


def is_marked(metadata: str | None) -> bool:
    """Say whether *metadata*, which is the JSON text of an object, carries the mark."""
    # Most metadata needs no parsing to know that.
    return metadata is not None and _KEY in metadata and _object(metadata).get(_KEY) is True


def _object(metadata: str | None) -> dict[str, Any]:
    return {} if metadata is None else json.loads(metadata)
