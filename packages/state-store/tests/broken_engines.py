"""The engine with one guard removed each: controls that a contract about processes must refuse.

Each function patches the package in the process that calls it, which is a job's child and ends
with it, and then opens the store.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from state_store import SqliteStore, to_text
from state_store.sqlite import creating, opening, ownership, policy, recovery, runs
from state_store.sqlite.database import Database
from state_store.testing.sqlite_engine import WORKSPACE_ID

if TYPE_CHECKING:
    from collections.abc import Iterator

    from state_store import Clock
    from state_store.sqlite.place import Place


def _open(location: str) -> SqliteStore:
    return SqliteStore.open(Path(location), workspace_id=WORKSPACE_ID)


def acknowledging_before_commit(location: str) -> SqliteStore:
    """Return from a write with the transaction open, and commit with the next use."""

    @contextmanager
    def write(self: Database) -> Iterator[apsw.Connection]:
        with self._use() as connection:
            if connection.in_transaction:
                connection.execute("COMMIT")
            connection.execute("BEGIN IMMEDIATE")
            yield connection

    @contextmanager
    def read(self: Database) -> Iterator[apsw.Connection]:
        with self._use() as connection:
            yield connection

    return _patched(location, (Database, "write", write), (Database, "read", read))


def committing_by_halves(location: str) -> SqliteStore:
    """Commit after each statement instead of once."""

    @contextmanager
    def write(self: Database) -> Iterator[apsw.Connection]:
        with self._use() as connection:
            yield connection

    return _patched(location, (Database, "write", write))


def probing_exclusively(location: str) -> SqliteStore:
    """Ask for the lock that only one prober can have."""

    def probe(directory: Path, owner_id: str) -> str:
        try:
            descriptor = os.open(directory / f"{owner_id}.lock", os.O_RDONLY)
        except FileNotFoundError:
            return "dead"
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            time.sleep(0.002)  # a busy machine's
        except BlockingIOError:
            return "alive"
        else:
            return "dead"
        finally:
            os.close(descriptor)

    return _patched(location, (ownership, "probe", probe))


def judging_stopped_owners_dead(location: str) -> SqliteStore:
    """Judge by what the process does and not by its lock, as a heartbeat would."""
    honest = ownership.probe

    def probe(directory: Path, owner_id: str) -> str:
        pid = ownership.facts_of(directory, owner_id).pid
        status = Path(f"/proc/{pid}/stat")
        if status.exists() and status.read_text().rpartition(")")[2].split()[0] == "T":
            return "dead"
        return honest(directory, owner_id)

    return _patched(location, (ownership, "probe", probe))


def recovering_without_a_guard(location: str) -> SqliteStore:
    """Write what was read before the transaction, whatever the row says by now."""

    def recover(self: recovery.Recovery, *, clock: Clock) -> tuple[Any, ...]:
        with self._database.read() as connection:
            pending = runs.pending(connection)
        dead = [run for run in pending if self._liveness(run) == "dead"]
        if not dead:
            return ()
        time.sleep(0.02)  # a busy machine's
        with self._database.write() as connection:
            for run in dead:
                connection.execute(
                    "UPDATE runs SET status = 'failed', error_type = 'interrupted',"
                    " finished_at = ? WHERE id = ?",
                    (to_text(clock()), run.id),
                )
                runs.close_open_tools(connection, run.id, clock())
        return tuple(dead)

    return _patched(location, (recovery.Recovery, "recover", recover))


def beginning_without_judging(location: str) -> SqliteStore:
    """Take any pending run for a dead owner's."""

    def require_idle(
        self: recovery.Recovery, connection: apsw.Connection, session_id: str, *, clock: Clock
    ) -> tuple[Any, ...]:
        pending = runs.pending(connection, session_id)
        return tuple(run for run in pending if runs.interrupt(connection, run, clock()))

    return _patched(location, (recovery.Recovery, "require_idle", require_idle))


def creating_in_place(location: str) -> SqliteStore:
    """Let each opener that finds no database make one under its final name."""

    def create(place: Place) -> None:
        if place.path.exists():
            return
        connection = apsw.Connection(str(place.path))
        policy.use_wal(connection, place.path)
        creating.apply_schema(
            connection, workspace_id=place.workspace_id, clock=place.clock, schema=place.schema
        )
        connection.close()

    return _patched(location, (opening, "create", create))


def _patched(location: str, *patches: tuple[Any, str, Any]) -> SqliteStore:
    for target, name, replacement in patches:
        setattr(target, name, replacement)
    return _open(location)
