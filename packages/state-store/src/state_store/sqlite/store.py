"""The store in a file or in memory: how it is opened and closed, and all of its methods.

Owns the database and this store's claim on its runs. Invariant: see `state_store.protocol`; all
that is added here is what an engine in a file needs: opening, recovery at open, ownership. The
methods are in `state_store.sqlite.methods`, by subject.

Must not: hold a transaction while anybody waits, or know what a provider or a journal is.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Self

from state_store.clock import Clock, IdSource, new_id, utc_now
from state_store.errors import StateStoreError
from state_store.progress import Progress, silent
from state_store.sqlite.database import Database
from state_store.sqlite.methods.branches import BranchMethods
from state_store.sqlite.methods.checking import CheckMethods
from state_store.sqlite.methods.histories import HistoryMethods
from state_store.sqlite.methods.runs import RunMethods
from state_store.sqlite.methods.searching import SearchMethods
from state_store.sqlite.methods.sessions import SessionMethods
from state_store.sqlite.methods.transfer import TransferMethods
from state_store.sqlite.opening import open_database
from state_store.sqlite.place import BUSY_TIMEOUT_MS, Place
from state_store.sqlite.recovery import Recovery

if TYPE_CHECKING:
    from pathlib import Path

    from state_store.upkeep import Upgrade


class SqliteStore(
    SessionMethods,
    RunMethods,
    HistoryMethods,
    SearchMethods,
    BranchMethods,
    TransferMethods,
    CheckMethods,
):
    """A `SessionStore` in one SQLite file. Thread-safe; does not cross a fork.

    Open it with `open` or `in_memory` and close it, or use it as a context manager. `recovered`
    holds the runs of dead processes that this store made failed/interrupted, at opening and since;
    `upgraded` tells of the upgrade that opening it made, if it made one.
    """

    def __init__(
        self, database: Database, recovery: Recovery, *, clock: Clock, new_id: IdSource
    ) -> None:
        super().__init__(database, recovery, clock=clock, new_id=new_id)
        self.upgraded: Upgrade | None = None

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        workspace_id: str,
        writing: bool = True,
        owners_dir: Path | None = None,
        clock: Clock = utc_now,
        new_id: IdSource = new_id,
        busy_timeout_ms: int = BUSY_TIMEOUT_MS,
        allow_network_filesystem: bool = False,
        progress: Progress = silent,
    ) -> Self:
        """Open the database at *path*.

        For writing it is created when missing, its directory and *owners_dir* (default: `owners`
        beside it; the same for all who open it) too, and pending runs of dead processes are
        recovered. A reader creates nothing, raises StoreMissing when there is no database, and
        never waits for a writer. Damaged, newer and foreign files are refused with their bytes
        unchanged. An older schema is backed up and upgraded first, by a reader too: *progress* is
        told, StoreInUse names who is in the way, UpgradeFailed leaves everything as it was.
        Filesystems of other machines (NFS, SMB, 9p, virtiofs, FUSE …) are refused
        with WalUnsupported: *allow_network_filesystem* takes the risk that commits vanish there.
        """
        place = Place.at(
            path,
            workspace_id=workspace_id,
            owners_dir=owners_dir,
            clock=clock,
            busy_timeout_ms=busy_timeout_ms,
            allow_network_filesystem=allow_network_filesystem,
            progress=progress,
        )
        opened = open_database(place, writing=writing)
        store = cls(opened.database, opened.recovery, clock=clock, new_id=new_id)
        store.recovered = opened.recovered
        store.upgraded = opened.upgraded
        return store

    @classmethod
    def in_memory(
        cls, *, workspace_id: str, clock: Clock = utc_now, new_id: IdSource = new_id
    ) -> Self:
        """Make a store with the same meaning that keeps nothing once it is closed."""
        database = Database.in_memory(workspace_id=workspace_id, clock=clock)
        recovery = Recovery(database, owner=None, owners_dir=None)
        return cls(database, recovery, clock=clock, new_id=new_id)

    def close(self) -> None:
        """Close the store; its owner file goes unless a run of ours is pending still.

        A search index that is there is brought on first, for a moment.
        """
        with contextlib.ExitStack() as last:  # each of these, whatever happens to the others
            last.callback(self._database.close)
            last.callback(self._release)
            self._settle_search()

    def _release(self) -> None:
        with contextlib.suppress(StateStoreError):  # what hinders a read must not hinder a close
            self._recovery.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
