"""What an SQLite result code, or an error of the system, means for a person.

The one place that turns the exceptions of apsw and `os` into this package's. Invariant: only a
proven corruption code, or a stored value that cannot be what was stored, is called damage; busy,
full, read-only, out of descriptors and I/O errors are conditions of the moment, after which the
file has the name and the bytes it had before.
"""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING

import apsw

from state_store.errors import (
    StateStoreError,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreFull,
    StoreUnavailable,
)
from state_store.sqlite import access, filesystem
from state_store.sqlite.beside import backups_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_DAMAGE = (apsw.CorruptError, apsw.NotADBError)
_BUSY = (apsw.BusyError, apsw.LockedError)
_UNAVAILABLE: tuple[tuple[type[apsw.Error], str, str], ...] = (
    (apsw.ReadOnlyError, "it is read-only for this user", "Check its owner and permissions."),
    (
        apsw.CantOpenError,
        "it or its -wal and -shm files cannot be opened",
        "Check the owner and permissions of the file and its directory; never delete the -wal.",
    ),
    (apsw.PermissionsError, "permission was denied", "Check its owner and permissions."),
    (apsw.IOError, "the system reported an I/O error", "Check the disk; nothing was lost so far."),
    (apsw.NoMemError, "memory ran out", "Free memory and try again."),
)
_NO_LOCKS = (apsw.SQLITE_IOERR_LOCK, apsw.SQLITE_IOERR_RDLOCK, apsw.SQLITE_IOERR_SHMLOCK)
# Codes behind which a missing permission may be; SQLite does not say on which file.
_DENIED = (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError)


class UnreadableValue(ValueError):
    """A column holds what this package cannot have written."""


@contextmanager
def translated(path: Path, *, waited_ms: int, writing: bool = True) -> Iterator[None]:
    """Raise this package's errors in place of apsw's, about the database at *path*.

    *writing* says what was attempted, so that the path that hinders it can be named.
    """
    try:
        yield
    except (UnicodeDecodeError, UnreadableValue) as error:
        raise StoreDamaged(
            path, "a stored value cannot be read", backup_path=newest_backup(path)
        ) from error
    except apsw.Error as error:
        known = explain(error, path, waited_ms=waited_ms, writing=writing)
        if known is None:
            raise
        raise known from error


def explain(
    error: apsw.Error, path: Path, *, waited_ms: int, writing: bool = True
) -> StateStoreError | None:
    """Return the error that *error* stands for; None for a programming error."""
    # Errors that apsw finds by itself carry no result code.
    code = getattr(error, "extendedresult", None)
    if isinstance(error, apsw.ConnectionClosedError):
        return StoreClosed()
    if isinstance(error, _DAMAGE) or code == apsw.SQLITE_IOERR_CORRUPTFS:
        return StoreDamaged(path, "SQLite found it corrupt", backup_path=newest_backup(path))
    if isinstance(error, apsw.FullError) or code == apsw.SQLITE_IOERR_SHMSIZE:
        return _full(path)  # the second one is said of the index of the log, which could not grow
    if isinstance(error, _BUSY):
        return StoreBusy(path, waited_ms=waited_ms)
    if isinstance(error, apsw.ProtocolError) or code in _NO_LOCKS:
        return filesystem.refused_by_sqlite(path, "SQLite finds that locks do not work")
    if isinstance(error, _DENIED) and (denied := hindered(path, writing=writing)):
        return denied
    for kind, reason, hint in _UNAVAILABLE:
        if isinstance(error, kind):
            return StoreUnavailable(path, reason, hint=hint)
    return None


def unavailable(path: Path, error: OSError) -> StoreUnavailable:
    """Return what *error*, met while a file or directory was made at *path*, means."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return _full(path)
    if isinstance(error, PermissionError) and (denied := hindered(path, writing=True)):
        return denied
    return StoreUnavailable(
        path,
        error.strerror or type(error).__name__,
        hint="Check its owner, permissions and free space, or set TINYAGENT_STATE_HOME elsewhere.",
    )


def hindered(path: Path, *, writing: bool) -> StoreUnavailable | None:
    """Return the error that names the path which this user may not use; None if all are free."""
    found = access.hindrance(path, writing=writing)
    if found is None:
        return None
    blocked, reason, fix = found
    return StoreUnavailable(blocked, reason, hint=fix)


def _full(path: Path) -> StoreFull:
    return StoreFull(
        path,
        "no space is left on its disk",
        hint="Free space and go on: everything acknowledged before is safe.",
    )


def newest_backup(path: Path) -> str | None:
    """Return the newest backup beside *path*."""
    backups = backups_of(path)
    return str(backups[-1]) if backups else None
