"""What every method of the store stands on: the database, the claim on runs, the clock, the ids.

Invariant: a method is one transaction, begun by `Database.read` or `Database.write`, and one that
must not meet a run under way begins with `_idle`.
"""

from __future__ import annotations

import contextlib
from functools import cached_property
from typing import TYPE_CHECKING

from state_store.sqlite.search import is_there

if TYPE_CHECKING:
    from collections.abc import Iterator

    import apsw

    from state_store.clock import Clock, IdSource
    from state_store.records import Run
    from state_store.sqlite.database import Database
    from state_store.sqlite.recovery import Recovery
    from state_store.sqlite.search.searching import Search


class StoreBasis:
    """Base of the subjects. `recovered` grows with each run of a dead process that it meets."""

    def __init__(
        self, database: Database, recovery: Recovery, *, clock: Clock, new_id: IdSource
    ) -> None:
        self._database = database
        self._recovery = recovery
        self._clock = clock
        self._new_id = new_id
        self.recovered: tuple[Run, ...] = ()

    @cached_property
    def _search(self) -> Search:
        from state_store.sqlite.search.searching import Search  # noqa: PLC0415 - seldom needed

        return Search(self._database)

    def _settle_search(self) -> None:
        """Bring a search index that is there on; no error of it is the caller's."""
        if is_there(self._database):
            self._search.settle()

    @contextlib.contextmanager
    def _idle(self, session_id: str) -> Iterator[apsw.Connection]:
        """Write while no run of the session is pending; a dead owner's is recovered first."""
        with self._database.write() as connection:
            recovered = self._recovery.require_idle(connection, session_id, clock=self._clock)
            yield connection
        self.recovered += recovered
