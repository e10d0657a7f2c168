"""Removing for good what a person named: backups, or a whole store with all of its files.

Invariant: a whole store goes only from one who is alone in it, so that nobody's open database
loses its name; its lock files stay until the rest is gone, because whoever waits at them must find
nothing behind them. The log goes after the database: the other way round SQLite would take the
database for whole without its newest commits.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from state_store.errors import BackupUnusable
from state_store.sqlite import backups
from state_store.sqlite.beside import SIDECARS, backups_of, gate_of, presence_of
from state_store.sqlite.creating import sync_directory
from state_store.sqlite.faults import unavailable
from state_store.sqlite.gate import alone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from state_store.sqlite.place import Place


def holding(place: Place, session_id: str) -> tuple[str, ...]:
    """Return the backups that hold the session, or cannot be read and may, oldest first."""
    return backups.holding(place.path, session_id)


def remove_backups(place: Place, paths: Iterable[str]) -> tuple[str, ...]:
    """Remove *paths*, each a backup beside the database; return those that were there.

    BackupUnusable, before any is removed, for a path that is no backup of this store.
    """
    named = {str(one) for one in backups_of(place.path)}
    chosen = list(paths)
    for one in chosen:
        if one not in named and Path(one).exists():
            raise BackupUnusable(one, "it is no backup of this database")
    removed = []
    for one in chosen:
        try:
            for end in (*SIDECARS, ""):
                Path(f"{one}{end}").unlink(missing_ok=True)
        except OSError as error:
            raise unavailable(Path(one), error) from error
        removed.append(one)
    if removed:
        sync_directory(place.path.parent)
    return tuple(removed)


def remove_store(place: Place, first: Callable[[], None], kept: frozenset[str]) -> None:
    """Remove the directory of the store but for the names *kept*, alone in it.

    *first* is called when nobody else is in any more and nothing was removed yet.
    """
    path = place.path
    directory = path.parent
    with alone(place, "delete"):
        first()
        locks = [gate_of(path), presence_of(path)]
        ordered = [path, *(Path(f"{path}{end}") for end in SIDECARS)]
        try:
            for file in ordered:
                file.unlink(missing_ok=True)
            for one in sorted(directory.iterdir()):
                if one not in locks and one.name not in kept:
                    _remove(one)
            for lock in locks:
                lock.unlink(missing_ok=True)
            if any(directory.iterdir()):
                sync_directory(directory)
            else:
                directory.rmdir()
                sync_directory(directory.parent)
        except OSError as error:
            raise unavailable(directory, error) from error


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
