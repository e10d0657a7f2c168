"""From a path to an open database and this store's claim on its runs.

Owns the order of opening: directories, the database, and only then the owner's file, which has to
exist before the first run. Invariant: an opening that fails at any step leaves no descriptor, no
lock and no owner's file behind; a reader makes nothing.
"""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from state_store.sqlite import filesystem
from state_store.sqlite.database import Database, create, sync_directory
from state_store.sqlite.faults import unavailable
from state_store.sqlite.recovery import Recovery, claim

if TYPE_CHECKING:
    from pathlib import Path

    from state_store.clock import Clock
    from state_store.records import Run


def open_database(
    path: Path,
    *,
    workspace_id: str,
    writing: bool,
    owners_dir: Path | None,
    clock: Clock,
    busy_timeout_ms: int,
    allow_network_filesystem: bool,
) -> tuple[Database, Recovery, tuple[Run, ...]]:
    """Return database, recovery, and the runs of dead owners that a writer has recovered."""
    # Another name of the file, or another working directory, must not make an owner look dead.
    path = path.resolve()
    owners_dir = path.parent / "owners" if owners_dir is None else owners_dir.resolve()
    if not allow_network_filesystem:
        filesystem.require_local(path)
    if writing:
        make_directory(path.parent)
        create(path, workspace_id=workspace_id, clock=clock)
    with ExitStack() as undo:
        database = Database.open(
            path, workspace_id=workspace_id, writing=writing, busy_timeout_ms=busy_timeout_ms
        )
        undo.callback(database.close)
        if not writing:
            undo.pop_all()
            return database, Recovery(database, owner=None, owners_dir=owners_dir), ()
        make_directory(owners_dir)
        owner = claim(owners_dir, clock=clock)
        undo.callback(owner.release, keep_file=False)
        recovery = Recovery(database, owner=owner, owners_dir=owners_dir)
        recovered = recovery.recover(clock=clock)
        undo.pop_all()
    return database, recovery, recovered


def make_directory(directory: Path) -> None:
    """Make *directory*, and its parents where they are missing, for this user alone.

    Returns when they are on the disk: a directory that a power loss takes away takes with it
    whatever was acknowledged inside.
    """
    try:
        if directory.is_dir():
            return
        for missing in reversed([directory, *directory.parents]):
            if not missing.is_dir():
                with suppress(FileExistsError):  # somebody else made it first
                    missing.mkdir(mode=0o700)
                sync_directory(missing.parent)
        if not directory.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    except OSError as error:
        raise unavailable(directory, error) from error
