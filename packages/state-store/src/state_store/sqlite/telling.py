"""A statement that takes long tells that it goes on, and can be ended.

Invariant: what the caller's progress raises, and Ctrl-C, which Python sees only while it runs, end
the statement; SQLite then takes back what it did. Must not: be used where a statement must not end
so.

Source: SQLite documentation, "Query Progress Callbacks".
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import apsw

    from state_store.progress import Progress

# Of SQLite's virtual machine: some milliseconds, and too seldom to be felt.
STEPS_BETWEEN = 50_000


@contextmanager
def telling(connection: apsw.Connection, progress: Progress, what: str) -> Iterator[None]:
    """Call *progress* with *what* now, and again and again while a statement of the block runs."""

    def tell() -> bool:
        progress(what, 0, 0)
        return False  # go on

    tell()
    connection.set_progress_handler(tell, STEPS_BETWEEN)
    try:
        yield
    finally:
        connection.set_progress_handler(None)
