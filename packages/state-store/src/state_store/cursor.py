"""Page cursors: opaque text that says where a listing goes on.

A cursor names its listing and the key of the last row given (keyset paging), so that rows which
come, go or share a time between two pages are neither skipped nor repeated. A cursor of another
listing, or damaged text, is refused; it is never read as "from the start".
"""

from __future__ import annotations

import base64
import binascii
import json

from state_store.errors import CursorInvalid
from state_store.text import repair_text

Key = tuple[str | int, ...]
_LARGEST_INTEGER = 2**63 - 1


def encode_cursor(listing: str, key: Key) -> str:
    """Return the cursor after *key* in *listing*."""
    payload = json.dumps([listing, *key], separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(payload).rstrip(b"=").decode()


def decode_cursor(listing: str, cursor: str, shape: tuple[type, ...]) -> Key:
    """Return the key that *cursor* carries; CursorInvalid unless it is of *listing* and *shape*."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        found = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        raise CursorInvalid(listing=listing) from None
    if (
        not isinstance(found, list)
        or [type(item) for item in found] != [str, *shape]
        or found[0] != listing
        or not all(_storable(item) for item in found)
    ):
        raise CursorInvalid(listing=listing)
    return tuple(found[1:])


def check_limit(limit: int | None) -> None:
    """Raise ValueError for a limit below 1; None means all."""
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be at least 1, or None for all; it is {limit}")


def fetch_count(limit: int | None) -> int:
    """Return how many rows to ask an engine for: one more tells that there is a next page.

    -1 is "no limit"; so is a limit that no table reaches, which an engine could not take.
    """
    check_limit(limit)
    return -1 if limit is None or limit >= _LARGEST_INTEGER else limit + 1


def _storable(item: str | int) -> bool:
    """Whether an engine can compare with *item*; a forged cursor may hold anything."""
    if isinstance(item, str):
        return repair_text(item) is item
    return abs(item) <= _LARGEST_INTEGER
