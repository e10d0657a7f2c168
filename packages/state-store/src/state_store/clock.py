"""Time and ids: where they come from and how they look on disk.

Owns the system clock, UUIDv7 (RFC 9562, section 5.7) and the one text form of an instant:
`2026-01-02T03:04:05.000006Z`, fixed width, always UTC, so that text order is time order and any
SQLite tool can read it. Both sources are values that callers inject; nothing here keeps state.

Must not: be asked for an order. Clocks go back; sequence numbers do not.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
IdSource = Callable[[], str]

# What stands for a stored time that is there and cannot be read; its text stays as it is.
UNREADABLE_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def utc_now() -> datetime:
    """Return the current instant, aware, in UTC."""
    return datetime.now(UTC)


def new_id() -> str:
    """Return a new UUIDv7 as canonical text: 48 bits of milliseconds, then 74 random bits."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))


def to_text(instant: datetime) -> str:
    """Return *instant* in the fixed-width form. A naive datetime is refused with ValueError."""
    if instant.tzinfo is None:
        raise ValueError("a time without a zone cannot be stored; pass an aware datetime")
    return instant.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def from_text(text: str) -> datetime:
    """Return the aware datetime that *text* says."""
    return datetime.fromisoformat(text)
