"""Whether the rows of a session agree with one another; nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from state_store.sqlite import sessions
from state_store.sqlite.methods.basis import StoreBasis

if TYPE_CHECKING:
    from state_store.findings import Finding


class CheckMethods(StoreBasis):
    """The method that checks one session; `Maintenance.check` looks a whole database over."""

    def check_session(self, session_id: str) -> tuple[Finding, ...]:
        """Return what is wrong with the session's rows. See `SessionStore`."""
        from state_store.sqlite import checking  # noqa: PLC0415 - seldom needed

        with self._database.read() as connection:
            sessions.require(connection, session_id)
            return checking.check_session(connection, session_id, self._database.path)
