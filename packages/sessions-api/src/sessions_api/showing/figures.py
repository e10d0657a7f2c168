"""Times, amounts and counts as people read them.

Invariant: what is not known is shown as a dash and never as zero. Instants are shown in the local
zone with its offset; ages are rounded down, so that nothing looks older than it is.
"""

from __future__ import annotations

from datetime import UTC, datetime

UNKNOWN = "-"
_STEPS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def ago(then: datetime, *, now: datetime | None = None) -> str:
    """Return how long ago *then* was, in its largest unit: "3 h ago"."""
    seconds = int(((now or datetime.now(UTC)) - then).total_seconds())
    for unit, length in _STEPS:
        if seconds >= length:
            return f"{seconds // length} {unit} ago"
    return "now"


def at(instant: datetime | None) -> str:
    """Return the instant in the local zone: "2026-01-02 03:04:05+01:00"."""
    if instant is None:
        return UNKNOWN
    return instant.astimezone().isoformat(sep=" ", timespec="seconds")


def count(number: int, noun: str) -> str:
    """Return "1 message", "2 messages"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def tokens(number: int | None) -> str:
    """Return a number of tokens with groups of three digits."""
    return UNKNOWN if number is None else f"{number:,}"


def cost(usd: float | None) -> str:
    """Return an amount in USD."""
    return UNKNOWN if usd is None else f"${usd:.4f}"


def size(byte_count: int) -> str:
    """Return a size in the largest unit that leaves at least one: "3.2 MB" (of 1000 kB)."""
    amount, unit = float(byte_count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1000:  # noqa: PLR2004 - SI units
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
