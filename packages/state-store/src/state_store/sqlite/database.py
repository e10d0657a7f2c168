"""One connection to the database: opened by the rules, used by one thread at a time.

Owns opening, the one place where transactions begin and commit, and closing. Invariants: the
file comes into being whole (built under a temporary name, then linked), so that an empty file is
always damage and never "new"; a database that is not ours, or newer, is refused before any write;
a write is acknowledged after COMMIT has returned; a transaction that does not commit leaves
nothing, not even an open transaction.

apsw checks neither threads nor forks: a second thread would silently join an open transaction,
and a child's close would drop the parent's locks. Hence one lock around every transaction, and
the pid is checked on every use. Nobody but SQLite opens the live file.
"""

from __future__ import annotations

import os
import threading
import uuid
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from state_store.clock import Clock, to_text
from state_store.errors import (
    StateStoreError,
    StoreClosed,
    StoreDamaged,
    StoreForeign,
    StoreForked,
    StoreMissing,
    StoreNewer,
    StoreUnavailable,
)
from state_store.sqlite import frozen, policy, schema, shape
from state_store.sqlite.faults import hindered, newest_backup, translated, unavailable
from state_store.sqlite.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

BUSY_TIMEOUT_MS = 5_000
_SIDECARS = ("-journal", "-wal", "-shm")
MEMORY_PATH = Path(":memory:")


class Database:
    """A connection with its rules. Thread-safe; refuses to work in a forked child."""

    def __init__(
        self,
        connection: apsw.Connection,
        path: Path,
        *,
        busy_timeout_ms: int,
        snapshot: frozen.Snapshot | None = None,
        file: tuple[int, int] | None = None,
    ) -> None:
        self.path = path
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

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        workspace_id: str,
        writing: bool,
        busy_timeout_ms: int = BUSY_TIMEOUT_MS,
    ) -> Database:
        """Open the database at *path*, which exists, or raise saying why not.

        A reader takes no write lock and creates nothing but SQLite's own -wal and -shm. Where it
        cannot create these and no -wal exists it reads the file as it stands; see `frozen`.
        """
        _require_file(path)
        if writing and (denied := hindered(path, writing=True)):
            raise denied  # up front: SQLite would open it for reading and fail at the first write
        with translated(path, waited_ms=busy_timeout_ms, writing=writing):
            snapshot = None
            connect = partial(
                _connect, path, workspace_id=workspace_id, writing=writing, wait_ms=busy_timeout_ms
            )
            try:
                connection = connect(str(path))
            except (apsw.CantOpenError, apsw.ReadOnlyError):
                if writing or (snapshot := frozen.take(path)) is None:
                    raise
                connection = connect(frozen.uri_of(path))
                frozen.require_unchanged(path, snapshot)
        return cls(
            connection,
            path,
            busy_timeout_ms=busy_timeout_ms,
            snapshot=snapshot,
            file=_file_at(path) if writing else None,
        )

    @classmethod
    def in_memory(cls, *, workspace_id: str, clock: Clock) -> Database:
        """Make a database that lives as long as this object and touches no disk."""
        connection = apsw.Connection(":memory:")
        for rule in policy.IN_MEMORY:
            rule(connection, MEMORY_PATH)
        _apply_schema(connection, workspace_id=workspace_id, clock=clock)
        return cls(connection, MEMORY_PATH, busy_timeout_ms=0)

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
            with translated(self.path, waited_ms=self._busy_timeout_ms):
                if self._log_is_owed:
                    self._settle_log(self._connection, wait_ms=0)
                policy.settle_log_on_close(self._connection)
                self._connection.close()

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
                if shape.is_as_written(self._connection):
                    raise
                reason = "its tables are not those that this program made"
                backup = newest_backup(self.path)
                raise StoreDamaged(self.path, reason, backup_path=backup) from error


def create(path: Path, *, workspace_id: str, clock: Clock) -> None:
    """Bring a new database into being at *path*, whole and on the disk; no-op when one is there.

    Of many processes that do so at once one wins; the others find its file.
    """
    if os.path.lexists(path):
        return
    building = path.with_name(f".{path.name}.{uuid.uuid4().hex}.new")
    try:
        os.close(os.open(building, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with translated(path, waited_ms=0):
            connection = apsw.Connection(str(building), flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                policy.use_wal(connection, path)
                policy.sync_fully(connection, path)
                _apply_schema(connection, workspace_id=workspace_id, clock=clock)
                # A close passes over the errors of its checkpoint, and half a file would be linked.
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            finally:
                connection.close()
        with suppress(FileExistsError):
            os.link(building, path)
        sync_directory(path.parent)
    except StateStoreError:  # some of which are OSErrors themselves
        raise
    except OSError as error:
        raise unavailable(path, error) from error
    finally:
        for leftover in (building, *(Path(f"{building}{end}") for end in _SIDECARS)):
            with suppress(OSError):
                leftover.unlink(missing_ok=True)


def _apply_schema(connection: apsw.Connection, *, workspace_id: str, clock: Clock) -> None:
    now = to_text(clock())
    connection.execute("BEGIN IMMEDIATE")
    for number in range(1, schema.VERSION + 1):
        connection.execute(schema.read_migration(number))
        connection.execute(
            "INSERT INTO schema_version VALUES (?, ?, ?)",
            (number, schema.MIGRATIONS[number - 1], now),
        )
    connection.execute("INSERT INTO store VALUES (?, ?, ?)", (workspace_id, uuid.uuid4().hex, now))
    connection.execute(f"PRAGMA application_id={schema.APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={schema.VERSION}")
    connection.execute("COMMIT")


def _connect(
    path: Path, name: str, *, workspace_id: str, writing: bool, wait_ms: int
) -> apsw.Connection:
    """Open *path* under the *name* that SQLite takes, by the rules, or leave nothing open."""
    flags = apsw.SQLITE_OPEN_READWRITE if writing else apsw.SQLITE_OPEN_READONLY
    connection = apsw.Connection(name, flags=flags | apsw.SQLITE_OPEN_URI)
    try:
        policy.keep_log_on_close(connection, path)
        Waiting().wait_up_to(connection, wait_ms)
        _check_identity(connection, path, workspace_id)
        for rule in policy.WRITING if writing else policy.READING:
            rule(connection, path)
    except BaseException:
        connection.close(True)
        raise
    return connection


def _file_at(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - asked at every commit, and a Path costs twice as much
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _require_file(path: Path) -> None:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise StoreMissing(path) from None
    except OSError as error:
        raise unavailable(path, error) from error
    if size == 0:
        raise StoreDamaged(path, "the file is empty", backup_path=newest_backup(path))


def _check_identity(connection: apsw.Connection, path: Path, workspace_id: str) -> None:
    application_id = policy.pragma(connection, "application_id")
    version = policy.pragma(connection, "user_version")
    if application_id != schema.APPLICATION_ID or not isinstance(version, int) or version < 1:
        raise StoreForeign(path, "another program made it")
    if version > schema.VERSION:
        raise StoreNewer(path, found=version, supported=schema.VERSION)
    try:
        found = connection.execute("SELECT workspace_id FROM store").get
    except apsw.SQLError:
        found = None
    if not isinstance(found, str):
        raise StoreDamaged(
            path, "its first table is missing or cannot be read", backup_path=newest_backup(path)
        )
    if found != workspace_id:
        raise StoreForeign(path, f"it belongs to workspace {found}, not {workspace_id}")


def sync_directory(directory: Path) -> None:
    """Return when the names in *directory* are on the disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
