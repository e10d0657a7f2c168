"""What a store stands on and who is in it, without opening the database.

Owns the answer to "can this work at all?": SQLite's version and its known faults, the filesystem,
sizes, free space, and the owners' lock files. Invariant: it reads names, sizes and locks alone, so
that it says the same of a damaged, newer or missing database; nothing is made or changed, and what
cannot be known is None.

Source: SQLite release notes (3.51.3: a checkpoint that races a commit loses it in WAL mode).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import apsw

from state_store.sqlite import filesystem, ownership
from state_store.sqlite.beside import log_of
from state_store.sqlite.swapping import is_begun
from state_store.upkeep import OpenStore, Surroundings

if TYPE_CHECKING:
    from pathlib import Path

    from state_store.sqlite.place import Place

_Version = tuple[int, int, int]
# From, to (both included), and what goes wrong in these versions of SQLite.
_FAULTS: tuple[tuple[_Version, _Version, str], ...] = (
    ((3, 7, 0), (3, 51, 2), "in WAL mode a checkpoint that races a commit can lose it"),
)


def look_around(place: Place) -> Surroundings:
    """Return what there is around the database at *place*, which need not exist."""
    path = place.path
    version = apsw.sqlite_lib_version()
    kind = filesystem.kind_of(path)
    return Surroundings(
        sqlite_version=version,
        sqlite_fault=fault_of(version),
        filesystem=kind,
        is_shared=kind is not None and filesystem.is_shared(kind),
        database_bytes=_size(path),
        log_bytes=_size(log_of(path)),
        free_bytes=_free_bytes(path),
        is_unfinished=is_begun(path),
        owners=tuple(_owners(place.owners_dir)),
    )


def fault_of(version: str) -> str | None:
    """Return the fault that SQLite *version* is known for, None when there is none."""
    found = tuple(int(part) for part in version.split(".")[:3])
    return next((fault for first, last, fault in _FAULTS if first <= found <= last), None)


def _owners(directory: Path) -> list[OpenStore]:
    found = []
    for name in sorted(file.stem for file in directory.glob("*.lock")):
        facts = ownership.facts_of(directory, name)
        found.append(
            OpenStore(
                id=name,
                liveness=ownership.probe(directory, name),
                pid=facts.pid,
                host=facts.host,
                since=facts.since,
            )
        )
    return found


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _free_bytes(path: Path) -> int | None:
    """Return what is free on the disk of the nearest directory that exists."""
    for directory in path.parents:
        try:
            facts = os.statvfs(directory)
        except OSError:
            continue
        return facts.f_bavail * facts.f_frsize
    return None
