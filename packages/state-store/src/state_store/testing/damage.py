"""Damage to a database that nobody has open: to its bytes, and to its rows past every rule.

What tests of reading, checking and salvaging do to a file first. Invariant: the same source of
chances makes the same damage; each function says what a disk or a bug does that damages like it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING, Any

import apsw

if TYPE_CHECKING:
    from pathlib import Path

Damage = Callable[[bytearray, Random], None]
PAGE_SIZE = 4096


def zeroed_header(content: bytearray, _: Random) -> None:
    """Overwrite bytes 0 to 99."""
    content[:100] = bytes(100)


def destroyed_schema(content: bytearray, source: Random) -> None:
    """Overwrite the first page with nothing, or with noise."""
    content[:PAGE_SIZE] = source.choice((bytes(PAGE_SIZE), source.randbytes(PAGE_SIZE)))


def cut(content: bytearray, source: Random) -> None:
    """Cut the file in half, or anywhere behind the first page."""
    half = len(content) // 2 + 1000
    del content[source.choice((half, source.randrange(PAGE_SIZE, len(content)))) :]


def zeroed_pages(content: bytearray, source: Random) -> None:
    """Overwrite one to four pages behind the first."""
    for number in source.sample(range(1, len(content) // PAGE_SIZE), source.randint(1, 4)):
        content[number * PAGE_SIZE : (number + 1) * PAGE_SIZE] = bytes(PAGE_SIZE)


def misdirected_page(content: bytearray, source: Random) -> None:
    """Write a page to the place of another, as a disk does that mixes up addresses."""
    one, other = source.sample(range(1, len(content) // PAGE_SIZE), 2)
    page = content[one * PAGE_SIZE : (one + 1) * PAGE_SIZE]
    content[other * PAGE_SIZE : (other + 1) * PAGE_SIZE] = page


def exchanged_pages(content: bytearray, source: Random) -> None:
    """Let two pages change places."""
    one, other = (n * PAGE_SIZE for n in source.sample(range(1, len(content) // PAGE_SIZE), 2))
    first, second = content[one : one + PAGE_SIZE], content[other : other + PAGE_SIZE]
    content[one : one + PAGE_SIZE], content[other : other + PAGE_SIZE] = second, first


def flipped_bytes(content: bytearray, source: Random) -> None:
    """Flip some bits of a few bytes that lie together, in the header too."""
    start = source.randrange(0, len(content) - 64)
    for offset in range(start, start + source.choice((1, 1, 2, 8, 64))):
        content[offset] ^= source.randrange(1, 256)


def change(path: Path, *statements: str, **values: object) -> None:
    """Do to the rows what damage does, past every rule."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("PRAGMA foreign_keys=OFF; PRAGMA ignore_check_constraints=ON")
        for statement in statements:
            connection.execute(statement, values)


def rows(path: Path, statement: str) -> list[Any]:
    """Return what *statement* finds in the database at *path*."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        return connection.execute(statement).fetchall()
