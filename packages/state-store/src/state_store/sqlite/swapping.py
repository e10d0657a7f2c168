"""Putting another database in the place of this one, such that a crash at any point is harmless.

First the file that is to be the database is built and verified whole, under a temporary name. Then
an intent is written, and from there on there is no way back, only on: the -wal and -shm go aside,
then the database, then the new file gets the name. Whoever finds an intent finishes these moves
before anything else. The -wal goes first: SQLite would play a left-over one into the new file, and
its integrity check would still say ok.

Invariants: the place holds the old database or the new one, whole; what was replaced is kept, with
its sidecars, as `<name>.replaced-<time>`; nothing is ever copied over a file that is in use. All of
this is for one who is alone in the store (see `gate`).
Source: SQLite documentation, "How To Corrupt An SQLite Database File", section 1.4.
"""

from __future__ import annotations

import json
import os
import uuid
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from state_store.errors import StateStoreError, StoreDamaged
from state_store.sqlite import backups
from state_store.sqlite.beside import SIDECARS, intent_of, new_ready, new_replaced, unproven_of
from state_store.sqlite.creating import building_beside, sync_directory, sync_file, write_synced
from state_store.sqlite.faults import newest_backup, unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from state_store.sqlite.place import Place


class SwapUnfinished(StateStoreError):
    """A swap was begun, or an upgrade, and has to be finished before the database is opened."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(f"A restore or an upgrade of {path} was begun and not finished.")
        self.path = str(path)
        self.hint = "Nothing is lost: whoever opens the store next finishes it."


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What is to be done: names of files in the database's directory, and how to know the new one.

    `generation` is what the table `store` of the new database says.
    """

    ready: str
    replaced: str
    generation: str


def is_begun(path: Path) -> bool:
    """Say whether a swap of the database at *path*, or an upgrade, waits to be finished."""
    return os.path.lexists(intent_of(path)) or os.path.lexists(unproven_of(path))


def require_finished(path: Path) -> None:
    """Raise SwapUnfinished when a swap of the database at *path*, or an upgrade, was begun."""
    if is_begun(path):
        raise SwapUnfinished(path)


def swap(
    place: Place, build: Callable[[Path, str], None], *, generation: str | None = None
) -> Path | None:
    """Put what *build* makes in the place of the database; return where the replaced one is kept.

    *build* gets the path of an empty file and a *generation*, a new one if none is given, and
    leaves a whole, verified, closed database of that generation there; until it has returned
    nothing else has changed. The answer is None when there was no database.
    """
    path, generation = place.path, generation or uuid.uuid4().hex
    with building_beside(path) as building:
        build(building, generation)
        sync_file(building)
        ready = new_ready(building)  # a name that does not go with what is half built
        building.rename(ready)
        sync_directory(path.parent)
    replaced = new_replaced(path, now=place.clock())
    intent = Intent(ready=ready.name, replaced=replaced.name, generation=generation)
    with building_beside(path) as building:
        write_synced(building, json.dumps(asdict(intent)).encode() + b"\n")
        building.rename(intent_of(path))
        sync_directory(path.parent)
    finish(path)
    return replaced if replaced.exists() else None


def finish(path: Path) -> bool:
    """Finish a swap that was begun; False when there was none."""
    intent = _read_intent(path)
    if intent is None:
        return False
    ready, replaced = path.with_name(intent.ready), path.with_name(intent.replaced)
    try:
        if ready.exists():
            # Each name is on the disk before the next move: no log may outlive its database.
            for end in (*SIDECARS, ""):
                _move(Path(f"{path}{end}"), Path(f"{replaced}{end}"))
            _move(ready, path)
        if _generation_of(path) != intent.generation:
            raise StoreDamaged(
                path,
                f"a restore was cut off, and the file {ready} that finishes it is gone; what was"
                f" replaced is kept as {replaced}",
                backup_path=newest_backup(path),
            )
        unproven_of(path).unlink(missing_ok=True)  # it spoke of the database that went
        intent_of(path).unlink()
        sync_directory(path.parent)
    except StateStoreError:  # some of which are OSErrors themselves
        raise
    except OSError as error:
        raise unavailable(path, error) from error
    return True


def _read_intent(path: Path) -> Intent | None:
    file = intent_of(path)
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        names = {name: Path(str(found[name])).name for name in Intent.__dataclass_fields__}
        return Intent(**names)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unavailable(file, error) from error
    except (ValueError, KeyError, TypeError) as error:
        raise StoreDamaged(
            path,
            f"the record of an unfinished restore, {file}, cannot be read",
            backup_path=newest_backup(path),
        ) from error


def _move(old: Path, new: Path) -> None:
    if os.path.lexists(old):
        old.rename(new)
        sync_directory(old.parent)


def _generation_of(path: Path) -> object:
    try:
        with closing(backups.connect(path)) as connection:
            return connection.execute("SELECT generation FROM store").get
    except apsw.Error:
        return None
