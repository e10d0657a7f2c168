"""Sessions from elsewhere. What leaves the store is read by pages, see `histories`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from state_store.sqlite import importing
from state_store.sqlite.methods.basis import StoreBasis

if TYPE_CHECKING:
    from collections.abc import Iterable

    from state_store.records import Imported, Message, Run, Session, ToolExecution


class TransferMethods(StoreBasis):
    """The method that brings a whole session in."""

    def import_session(
        self,
        session: Session,
        *,
        messages: Iterable[Message],
        runs: Iterable[Run] = (),
        executions: Iterable[ToolExecution] = (),
        digest: str,
    ) -> Imported:
        """Store a session that comes from elsewhere. See `SessionStore`."""
        with self._database.write() as connection:
            return importing.import_session(
                connection,
                session,
                records=(messages, runs, executions),
                digest=digest,
                new_id=self._new_id,
                now=self._clock(),
            )
