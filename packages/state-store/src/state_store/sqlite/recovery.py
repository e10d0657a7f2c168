"""This store's part in the question whose a pending run is, and what follows from the answer.

Owns the store's claim and every decision on a pending run: a dead owner's run becomes
failed/interrupted, a live owner's is busy, and one that cannot be judged is left alone like a live
one. Invariant: a run is touched only inside a transaction, guarded by its owner and its being
pending, so that many recoverers at once agree and a second time changes nothing.

Must not: wait for anybody, or judge by pid, host or time. Those are shown to people only.
"""

from __future__ import annotations

import os
import socket
import uuid
from typing import TYPE_CHECKING

from state_store.clock import Clock, to_text
from state_store.errors import SessionBusy
from state_store.records import Run, Usage
from state_store.sqlite import ownership, runs, sessions
from state_store.sqlite.faults import unavailable

if TYPE_CHECKING:
    from pathlib import Path

    import apsw

    from state_store.sqlite.database import Database


class Recovery:
    """Judges pending runs for one store. Without a claim (a reader) it can still judge."""

    def __init__(
        self, database: Database, *, owner: ownership.Owner | None, owners_dir: Path | None
    ) -> None:
        self._database = database
        self._owner = owner
        self._owners_dir = owners_dir
        self.owner_id = owner.id if owner else str(uuid.uuid4())

    def as_seen(self, run: Run) -> Run:
        """Return *run*, marked stale when it is pending and its owner is dead."""
        if run.status == "pending" and self._liveness(run) == "dead":
            return runs.as_stale(run)
        return run

    def require_idle(
        self, connection: apsw.Connection, session_id: str, *, clock: Clock
    ) -> tuple[Run, ...]:
        """Recover a dead owner's run in place and return it; SessionBusy for any other."""
        recovered: list[Run] = []
        for run in runs.pending(connection, session_id):
            if self._liveness(run) != "dead":
                facts = self._facts(run)
                raise SessionBusy(
                    session_id, pid=facts.pid, host=facts.host, since=to_text(run.started_at)
                )
            if _interrupt(connection, run, clock=clock):
                recovered.append(runs.get(connection, run.id))
        return tuple(recovered)

    def recover(self, *, clock: Clock) -> tuple[Run, ...]:
        """Make the pending runs of dead owners failed/interrupted and return those runs.

        Takes no write lock when there are none. Files of dead owners without a run go, and those
        of claims that a crash cut off.
        """
        with self._database.read() as connection:
            pending = runs.pending(connection)
        dead = {run.id for run in pending if self._liveness(run) == "dead"}
        recovered: tuple[Run, ...] = ()
        if dead:
            with self._database.write() as connection:
                recovered = tuple(
                    runs.get(connection, run.id)
                    for run in runs.pending(connection)
                    if run.id in dead and _interrupt(connection, run, clock=clock)
                )
        self._remove_dead_owners(in_use={run.owner for run in pending if run.id not in dead})
        return recovered

    def release(self) -> None:
        """Give the claim back. Its file stays when a run of ours is pending still."""
        if self._owner is None:
            return
        pending = True
        try:
            with self._database.read() as connection:
                pending = any(run.owner == self.owner_id for run in runs.pending(connection))
        finally:
            self._owner.release(keep_file=pending)

    def _liveness(self, run: Run) -> ownership.Liveness:
        if run.owner == self.owner_id:
            return "alive"
        if self._owners_dir is None:
            return "unknown"
        return ownership.probe(self._owners_dir, run.owner)

    def _facts(self, run: Run) -> ownership.OwnerFacts:
        if run.owner == self.owner_id or self._owners_dir is None:
            return ownership.OwnerFacts(pid=os.getpid(), host=socket.gethostname())
        return ownership.facts_of(self._owners_dir, run.owner)

    def _remove_dead_owners(self, *, in_use: set[str]) -> None:
        if self._owners_dir is None:
            return
        for path in self._owners_dir.glob("*.lock"):
            if path.stem not in in_use and path.stem != self.owner_id:
                ownership.remove_dead(self._owners_dir, path.stem)
        ownership.remove_unfinished(self._owners_dir)


def claim(owners_dir: Path, *, clock: Clock) -> ownership.Owner:
    """Claim the runs that a store is going to begin, before its first one."""
    try:
        return ownership.Owner.claim(owners_dir, clock=clock)
    except OSError as error:
        raise unavailable(owners_dir, error) from error


def _interrupt(connection: apsw.Connection, run: Run, *, clock: Clock) -> bool:
    now = clock()
    if not runs.interrupt(connection, run, now):
        return False
    sessions.advance(connection, run.session_id, status="failed", now=now, usage=Usage())
    return True
