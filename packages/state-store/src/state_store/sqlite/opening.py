"""From a path to an open database and this store's claim on its runs.

Owns the order of opening: directories, presence in the store, the database, and only then the
owner's file, which has to exist before the first run. A restore that was cut off is finished, and
an older schema upgraded, before anything else. Invariant: an opening that fails at any step leaves
no descriptor, no lock and no owner's file behind; a reader makes nothing, unless one of these is
due.
"""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import apsw

from state_store.errors import StateStoreError, StoreDamaged, StoreNewer, StoreOutdated, Work
from state_store.sqlite.connecting import connect, require_file
from state_store.sqlite.creating import create, remove_unfinished, sync_directory
from state_store.sqlite.database import Database
from state_store.sqlite.faults import hindered, unavailable
from state_store.sqlite.gate import alone, closed, emptied, enter
from state_store.sqlite.recovery import Recovery, claim
from state_store.sqlite.swapping import SwapUnfinished, finish, is_begun, require_finished

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from state_store.records import Run
    from state_store.sqlite.place import Place
    from state_store.upkeep import Upgrade


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """An open database, this store's part in recovering runs, and what opening it did.

    `recovered` are the runs of dead owners; `upgraded` tells of an upgrade of the schema that this
    opening made, and is None if it made none.
    """

    database: Database
    recovery: Recovery
    recovered: tuple[Run, ...] = ()
    upgraded: Upgrade | None = None


def open_database(place: Place, *, writing: bool) -> Opened:
    """Open the store at *place*; finish a restore, and upgrade the schema, if that is due."""
    if writing:
        make_directory(place.path.parent)
    try:
        return _open(place, writing=writing)
    except SwapUnfinished:
        upgraded = bring_up_to_date(place)
    except StoreOutdated:
        if hindered(place.path, writing=True):
            raise
        upgraded = bring_up_to_date(place)
    return replace(_open(place, writing=writing), upgraded=upgraded)


def bring_up_to_date(place: Place) -> Upgrade | None:
    """Finish a restore that was begun and upgrade the schema, alone in the store.

    None when there is nothing to do any more, for which nobody has to leave: of many who start at
    once one upgrades, and may have gone to work by the time that another one gets here.
    """
    from state_store.sqlite.upgrading import due, upgrade  # noqa: PLC0415 - hardly ever needed

    with closed(place, "upgrade"):
        if not is_begun(place.path) and due(place) is None:
            return None
        with emptied(place, "upgrade"):
            _tidy(place)
            return upgrade(place)


@contextmanager
def alone_in(place: Place, work: Work, *, even_stuck: bool = False) -> Iterator[None]:
    """Be the only one in the store, with nothing left unfinished in it, while the block runs.

    A restore that cannot be finished any more raises StoreDamaged; *even_stuck*, for whoever puts
    another database in its place or saves what there is, it is left as it is.
    """
    with alone(place, work):
        try:
            _tidy(place)
        except StoreDamaged:
            if not even_stuck:
                raise
        yield


def _tidy(place: Place) -> None:
    """Finish what was begun, and remove what crashes left, unless a newer program left it."""
    finish(place.path)
    try:
        require_file(place.path)
        connect(place, rules=())[0].close()
    except StoreNewer:
        return
    except (StateStoreError, apsw.Error):
        pass  # whatever is wrong with it is for the work to find out that is to be done
    remove_unfinished(place.path)


def _open(place: Place, *, writing: bool) -> Opened:
    with ExitStack() as undo:
        presence = enter(place, creating=writing)
        undo.callback(presence.close)
        require_finished(place.path)
        if writing:
            create(place)
        database = Database.open(place, writing=writing, presence=presence)
        undo.callback(database.close)
        if not writing:
            undo.pop_all()
            recovery = Recovery(database, owner=None, owners_dir=place.owners_dir)
            return Opened(database=database, recovery=recovery)
        make_directory(place.owners_dir)
        owner = claim(place.owners_dir, clock=place.clock)
        undo.callback(owner.release, keep_file=False)
        recovery = Recovery(database, owner=owner, owners_dir=place.owners_dir)
        recovered = recovery.recover(clock=place.clock)
        undo.pop_all()
    return Opened(database=database, recovery=recovery, recovered=recovered)


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
