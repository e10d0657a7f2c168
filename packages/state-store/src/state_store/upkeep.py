"""The records of what is done to a whole store: backups, restores, upgrades.

Owns the shapes alone; what was found wrong is in `state_store.findings`. Paths are text, sizes are
bytes, and nothing here is about one session.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 - record types resolve at run time
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """One backup beside a database.

    `version` is its schema. `problem` says why it cannot be restored, and is None for a good one;
    with a problem `version` and `session_count` may be None. `pruned` are the paths of older
    backups that went because this one was made. Where the clock has gone back, `created_at` is
    just after that of the backup before.
    """

    path: str
    created_at: datetime
    size_bytes: int
    version: int | None
    session_count: int | None
    problem: str | None = None
    pruned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What a restore did.

    `erased_count` sessions of the backup had been deleted since and stay deleted;
    `deletions_known` is False when the database was gone, or could not say which.
    `replaced_path` is where it is kept, with its -wal and -shm, and None when there was none.
    """

    backup: Backup
    version: int
    session_count: int
    erased_count: int
    deletions_known: bool
    replaced_path: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """What an upgrade did, or `plan` says it would do: `steps` in their order.

    `backup` is the one made first, None in a plan.
    """

    from_version: int
    to_version: int
    steps: tuple[str, ...]
    needed_bytes: int
    free_bytes: int
    backup: Backup | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """How many bytes the database had before and has after."""

    before_bytes: int
    after_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStore:
    """One lock file of an open store. "alive": its process has the store open on this machine.

    "dead": the process ended without closing; "unknown": the system does not tell. What it wrote
    about itself (`pid`, `host`, `since` as UTC text) is None where it cannot be read.
    """

    id: str
    liveness: Literal["alive", "dead", "unknown"]
    pid: int | None
    host: str | None
    since: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a store stands on, and who is in it, without the database being opened.

    `sqlite_fault` names the fault that this version of SQLite is known for, or is None.
    `filesystem` is its type, None where the system does not tell; `is_shared`: with other machines,
    where WAL mode may lose commits. Sizes are None for what is not there. `is_unfinished`: a
    restore was begun, which the next opening finishes. `owners` are in order of id.
    """

    sqlite_version: str
    sqlite_fault: str | None
    filesystem: str | None
    is_shared: bool
    database_bytes: int | None
    log_bytes: int | None
    free_bytes: int | None
    is_unfinished: bool
    owners: tuple[OpenStore, ...]
