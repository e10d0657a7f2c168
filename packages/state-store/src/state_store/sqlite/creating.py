"""A database comes into being whole: built under a temporary name, then given its own.

Invariant: a file of zero bytes under the database's name is always damage and never "new"; what a
crash leaves has a temporary name, `.<name>.<hex>.new`, and is removed by whoever is next alone in
the store. All that is built beside the database, backups too, is built here.
"""

from __future__ import annotations

import errno
import os
import uuid
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from state_store.clock import Clock, to_text
from state_store.errors import StateStoreError
from state_store.sqlite import beside, policy
from state_store.sqlite.connecting import require_not_lost
from state_store.sqlite.faults import translated, unavailable
from state_store.sqlite.schema import APPLICATION_ID, Schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from state_store.sqlite.place import Place


def create(place: Place) -> None:
    """Bring a new database into being, whole and on the disk; no-op when one is there.

    StoreLost when one has been there and is gone.
    Of many processes that do so at once one wins; the others find its file.
    """
    path = place.path
    if os.path.lexists(path):
        return
    require_not_lost(path)
    with building_beside(path) as building:
        with translated(path, waited_ms=0), closing(connect_to_new(building)) as connection:
            policy.use_wal(connection, path)
            policy.sync_fully(connection, path)
            apply_schema(
                connection,
                workspace_id=place.workspace_id,
                clock=place.clock,
                schema=place.schema,
            )
            # A close passes over the errors of its checkpoint, and half a file would be linked.
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        with suppress(FileExistsError):
            os.link(building, path)
        sync_directory(path.parent)


def apply_schema(
    connection: apsw.Connection, *, workspace_id: str, clock: Clock, schema: Schema
) -> None:
    """Make an empty database one of this workspace, in one transaction."""
    now = to_text(clock())
    connection.execute("BEGIN IMMEDIATE")
    for number, migration in schema.after(0):
        migration.apply(connection)
        record_migration(connection, number, migration.name, now=now)
    connection.execute(
        "INSERT INTO store (workspace_id, generation, created_at) VALUES (?, ?, ?)",
        (workspace_id, uuid.uuid4().hex, now),
    )
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute("COMMIT")


def record_migration(connection: apsw.Connection, number: int, name: str, *, now: str) -> None:
    """Write that migration *number* was applied, in the transaction that applied it."""
    connection.execute(
        "INSERT INTO schema_version (version, name, applied_at) VALUES (?, ?, ?)",
        (number, name, now),
    )
    connection.execute(f"PRAGMA user_version={number}")


@contextmanager
def building_beside(path: Path) -> Iterator[Path]:
    """Give an empty file of a temporary name beside *path*, for this user alone.

    It goes at the end. Errors of the system become this package's.
    """
    building = beside.new_building(path)
    try:
        os.close(os.open(building, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        yield building
    except (StateStoreError, ConnectionError):
        raise  # an OSError of ours; or the caller's, whose progress has nobody to tell any more
    except PermissionError as error:
        raise unavailable(building, error) from error  # names what keeps it from being made
    except OSError as error:
        raise unavailable(path, error) from error
    finally:
        try:
            remove_with_sidecars(building)
        except BaseException:  # Ctrl-C, at the very moment of tidying up
            remove_with_sidecars(building)
            raise


def connect_to_new(building: Path) -> apsw.Connection:
    """Open the file that is being built."""
    return apsw.Connection(str(building), flags=apsw.SQLITE_OPEN_READWRITE)


def remove_with_sidecars(file: Path) -> None:
    """Remove a file that is being built, and what SQLite made beside it."""
    for leftover in (file, *(Path(f"{file}{end}") for end in beside.SIDECARS)):
        with suppress(OSError):
            leftover.unlink(missing_ok=True)


def remove_unfinished(path: Path) -> None:
    """Remove what crashes left half built beside *path*. For one who is alone in the store."""
    for leftover in beside.buildings_of(path):
        with suppress(OSError):
            leftover.unlink(missing_ok=True)


def write_synced(file: Path, content: bytes) -> None:
    """Write *content* into an empty file; return when it is on the disk."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        if os.write(descriptor, content) != len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(file: Path) -> None:
    """Return when the content of *file*, which nobody has open, is on the disk."""
    _sync(file, os.O_RDONLY)


def sync_directory(directory: Path) -> None:
    """Return when the names in *directory* are on the disk."""
    _sync(directory, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
