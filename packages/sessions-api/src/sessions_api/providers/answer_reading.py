"""How the parts of an answer are read, whatever service it came from: looked at, then used.

Owns the ways in which an answer can be none. Invariant: a message says what is wrong with which
part and never what the part holds; nothing is made up for what is missing.

Must not: import a provider's package, or know a wire format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


_MOST_TOKENS = 10**12


class AnswerMalformed(ValueError):
    """The answer is not of its format; the message says what is wrong, never what it holds."""


class AnswerCutShort(ValueError):
    """The stream ended in an orderly way before the model had finished."""


class FailureReported(Exception):
    """The service sent an error in place of an answer; `status` is its code if it is an HTTP one.

    `status` is None otherwise.
    """

    def __init__(self, status: int | None) -> None:
        super().__init__(status)
        self.status = status


def http_status(code: object) -> int | None:
    """Read an error code as an HTTP error status; None when it is a name or something else."""
    try:
        status = int(code) if isinstance(code, int | str) else 0
    except ValueError:
        return None
    return status if 400 <= status <= 599 else None  # noqa: PLR2004 - the error range of HTTP


def count_in(value: object) -> int | None:
    """Return *value* if it is a count, and None for all else: unknown is not 0.

    Services whose language has one kind of number write 5.0. A number beyond what any model can
    read or write is none either, so that the sums of a session stay within 64 bits.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None


def tokens_in(usage: object, name: str, details: str | None = None) -> int | None:
    """Return the count *name* of *usage*, or of its *details*; None where there is no such count.

    A usage that cannot be read is unknown; the answer beside it is as good as any.
    """
    holder = usage.get(details) if details is not None and isinstance(usage, dict) else usage
    return count_in(holder.get(name)) if isinstance(holder, dict) else None


def object_in(value: object, what: str) -> Mapping[str, Any]:
    """Return *value* if it is an object; AnswerMalformed names *what* it should have been."""
    if not isinstance(value, dict):
        raise AnswerMalformed(f"{what} is not an object")
    return value


def list_in(value: object, what: str) -> list[Any]:
    """Return *value* if it is a list, and an empty one for None; AnswerMalformed otherwise."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise AnswerMalformed(f"{what} are not a list")
    return value


def text_in(value: object, what: str) -> str | None:
    """Return *value* if it is text or None; AnswerMalformed otherwise."""
    if value is not None and not isinstance(value, str):
        raise AnswerMalformed(f"{what} is not text")
    return value
