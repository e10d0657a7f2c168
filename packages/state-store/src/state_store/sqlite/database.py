"""One open database: the one place where transactions begin and commit.

Invariants: a write is acknowledged after COMMIT has returned; a transaction that does not commit
leaves nothing, not even an open transaction; it is the schema of this program that is open, and
nobody changes the files beneath it, because it is present in the store (see `gate`).

apsw checks neither threads nor forks: a second thread would silently join an open transaction,
and a child's close would drop the parent's locks. Hence one lock around every transaction, and
the pid is checked on every use. Nobody but SQLite opens the live file.
"""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from state_store.errors import (
    StoreClosed,
    StoreDamaged,
    StoreForked,
    StoreOutdated,
    StoreUnavailable,
)
from state_store.sqlite import frozen, policy
from state_store.sqlite.connecting import connect, require_file
from state_store.sqlite.creating import apply_schema
from state_store.sqlite.faults import hindered, newest_backup, translated
from state_store.sqlite.gate import Presence
from state_store.sqlite.schema import SCHEMA, Schema
from state_store.sqlite.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from state_store.clock import Clock
    from state_store.sqlite.place import Place

MEMORY_PATH = Path(":memory:")
_FORK_PATIENCE_S = 1.0


class Database:
    """A connection with its rules. Thread-safe; refuses to work in a forked child."""

    def __init__(
        self,
        connection: apsw.Connection,
        path: Path,
        *,
        busy_timeout_ms: int,
        schema: Schema,
        presence: Presence,
        snapshot: frozen.Snapshot | None = None,
        file: tuple[int, int] | None = None,
    ) -> None:
        self.path = path
        self._schema = schema
        self._presence = presence
        self._file = file
        self._connection = connection
        self._busy_timeout_ms = busy_timeout_ms
        self._snapshot = snapshot
        self._log_is_owed = False
        self._lock = threading.RLock()
        self._waiting = Waiting()
        self._waiting.wait_up_to(connection, busy_timeout_ms)
        self._pid = os.getpid()
        self._closed = False
        self._transaction: object = None
        _databases[id(self)] = self

    @classmethod
    def open(cls, place: Place, *, writing: bool, presence: Presence) -> Database:
        """Open the database at *place*, which exists, or raise saying why not.

        A reader takes no write lock and creates nothing but SQLite's own -wal and -shm. Where it
        cannot create these and no -wal exists it reads the file as it stands; see `frozen`.
        StoreOutdated when it has to be upgraded first. It takes over *presence* when it succeeds.
        """
        path, schema = place.path, place.schema
        require_file(path)
        if writing and (denied := hindered(path, writing=True)):
            raise denied  # up front: SQLite would open it for reading and fail at the first write
        rules = policy.WRITING if writing else policy.READING
        with translated(path, waited_ms=place.busy_timeout_ms, writing=writing):
            snapshot = None
            try:
                connection, version = connect(place, rules=rules, writing=writing)
            except (apsw.CantOpenError, apsw.ReadOnlyError):
                if writing or (snapshot := frozen.take(path)) is None:
                    raise
                connection, version = connect(place, rules=rules, name=frozen.uri_of(path))
                frozen.require_unchanged(path, snapshot)
        if version < schema.version:
            connection.close()
            raise StoreOutdated(path, found=version, needed=schema.version)
        return cls(
            connection,
            path,
            busy_timeout_ms=place.busy_timeout_ms,
            schema=schema,
            presence=presence,
            snapshot=snapshot,
            file=_file_at(path) if writing else None,
        )

    @classmethod
    def in_memory(cls, *, workspace_id: str, clock: Clock, schema: Schema = SCHEMA) -> Database:
        """Make a database that lives as long as this object and touches no disk."""
        connection = apsw.Connection(":memory:")
        for rule in policy.IN_MEMORY:
            rule(connection, MEMORY_PATH)
        apply_schema(connection, workspace_id=workspace_id, clock=clock, schema=schema)
        presence = Presence(None)
        return cls(connection, MEMORY_PATH, busy_timeout_ms=0, schema=schema, presence=presence)

    @property
    def is_on_disk(self) -> bool:
        """Whether it lies in a file."""
        return self.path != MEMORY_PATH

    @property
    def is_written(self) -> bool:
        """Whether it lies in a file and was opened for writing."""
        return self._file is not None

    @contextmanager
    def write(self) -> Iterator[apsw.Connection]:
        """Hold the write lock for one transaction; commit at the end, roll back on any error.

        BEGIN IMMEDIATE: a transaction that reads first and asks for the lock later fails at
        once, whatever the time-out, when another has written in between. A file that was removed
        or replaced is not written any more, and a commit that it met midway is not acknowledged.
        """
        self._waiting.let_others_pass()
        with self._transact("BEGIN IMMEDIATE") as connection:
            self._require_in_place()
            yield connection
            connection.execute("COMMIT")
            self._require_in_place()
            if self._log_is_owed:
                self._settle_log(connection, wait_ms=0)

    @contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """Read one consistent snapshot. Leave before anything slow: a reader pins the WAL."""
        try:
            with self._transact("BEGIN DEFERRED") as connection:
                yield connection
        except StoreDamaged:
            self._require_unchanged()
            raise
        self._require_unchanged()

    def _require_in_place(self) -> None:
        if self._file is not None and _file_at(self.path) != self._file:
            raise StoreUnavailable(
                self.path,
                "it was removed or replaced while this program had it open",
                hint="Nothing is saved any more. Put the file back, or start the program again.",
            )

    def _require_unchanged(self) -> None:
        if self._snapshot is not None:
            frozen.require_unchanged(self.path, self._snapshot)

    def checkpoint(self) -> bool:
        """Move the write-ahead log into the database and cut it to nothing.

        False when a reader, or an error of the moment, holds it back. Then it is tried again
        after every later write, without waiting, and at close.
        """
        with self._use() as connection:
            self._settle_log(connection, wait_ms=self._busy_timeout_ms)
            return not self._log_is_owed

    def _settle_log(self, connection: apsw.Connection, *, wait_ms: int) -> None:
        self._log_is_owed = True
        self._waiting.wait_up_to(connection, wait_ms)
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self._log_is_owed = False
        except apsw.Error:
            pass  # what was committed is safe in the log; a caller must not take it for undone
        finally:
            self._waiting.wait_up_to(connection, self._busy_timeout_ms)

    def close(self) -> None:
        """Close the connection. Doing it twice, or in a forked child, does nothing."""
        if os.getpid() != self._pid:
            return  # and without the lock: a thread that the child lacks may hold it
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                with translated(self.path, waited_ms=self._busy_timeout_ms):
                    if self._log_is_owed:
                        self._settle_log(self._connection, wait_ms=0)
                    policy.settle_log_on_close(self._connection)
                    self._connection.close()
            finally:
                self._presence.close()

    @contextmanager
    def _transact(self, begin: str) -> Iterator[apsw.Connection]:
        """Roll back at the end whatever is not committed by then.

        Ctrl-C can strike between this generator's yield and the caller's block. The suspended
        generator, and with it the transaction, then lives as long as the traceback. So the next
        use of the connection ends it, and its late clean-up must not end a transaction of others.
        """
        with self._use() as connection:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            mine = self._transaction = object()
            try:
                connection.execute(begin)
                yield connection
            finally:
                if self._transaction is mine and connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def _use(self) -> Iterator[apsw.Connection]:
        if os.getpid() != self._pid:
            raise StoreForked(opened_by=self._pid, used_by=os.getpid())
        with self._lock, translated(self.path, waited_ms=self._busy_timeout_ms):
            if self._closed:
                raise StoreClosed
            try:
                yield self._connection
            except apsw.SQLError as error:
                # All SQL here is constant: either it is wrong, which a test finds, or the schema
                # in the file is damaged, of which SQLite says no more than "no such column".
                if self._schema.matches(self._connection, self._schema.version):
                    raise
                reason = "its tables are not those that this program made"
                backup = newest_backup(self.path)
                raise StoreDamaged(self.path, reason, backup_path=backup) from error


def _file_at(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - asked at every commit, and a Path costs twice as much
    except OSError:
        return None
    return found.st_dev, found.st_ino


# SQLite has locks of the whole process. A child that is forked while another thread is inside has
# them locked by a thread that it lacks, and hangs in its first call. So a fork waits for whoever is
# inside, but never for long: where a lock does not come it goes on.
_databases: weakref.WeakValueDictionary[int, Database] = weakref.WeakValueDictionary()
_locked_for_fork: list[threading.RLock] = []


def _wait_until_nobody_is_inside() -> None:
    for reference in _databases.valuerefs():
        database = reference()
        if database is not None and database._lock.acquire(timeout=_FORK_PATIENCE_S):  # noqa: SLF001 - its own module
            _locked_for_fork.append(database._lock)  # noqa: SLF001 - the same


def _let_them_in_again() -> None:
    while _locked_for_fork:
        _locked_for_fork.pop().release()


os.register_at_fork(
    before=_wait_until_nobody_is_inside,
    after_in_parent=_let_them_in_again,
    after_in_child=_let_them_in_again,
)
