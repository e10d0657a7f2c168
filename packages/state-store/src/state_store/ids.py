"""What an id is: the canonical text of a UUID, lower case, and nothing else.

Ids become parts of paths and keys, here and in what is built on this package, so they are checked
by pattern where they enter. `uuid.UUID()` is no validator: it takes braces, prefixes and more.
"""

from __future__ import annotations

import re

from state_store.errors import IdInvalid

_CANONICAL = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_canonical(text: str) -> bool:
    """Say whether *text* is the canonical text of a UUID."""
    return _CANONICAL.fullmatch(text) is not None


def require_id(text: str, *, kind: str) -> None:
    """Raise IdInvalid unless *text* is the canonical text of a UUID."""
    if not is_canonical(text):
        raise IdInvalid(kind=kind)
