"""Errors of the store.

    StateStoreError                 `hint` says what to do next
    ├── StoreUnavailable            cannot be opened, read or written now (OSError)
    │   ├── StoreFull               no space left; what was acknowledged is safe
    │   └── WalUnsupported          the filesystem cannot carry WAL mode
    ├── StoreMissing                there is no database yet (FileNotFoundError)
    ├── StoreBusy                   another process held the write lock too long (TimeoutError)
    ├── SessionBusy                 another run of the session is under way (TimeoutError)
    ├── StoreInUse                  others have it open or change its files (TimeoutError)
    ├── StoreDamaged                SQLite proved the file corrupt, or it is empty
    │   └── StoreLost               the file is gone, and its log or backups are there
    ├── StoreNewer                  written by a newer version of this package
    ├── StoreOutdated               has to be upgraded first, and this caller cannot
    ├── UpgradeFailed               the database is what it was before the upgrade
    ├── BackupUnusable              not a backup that can be restored here (ValueError)
    ├── StoreForeign                not our database, or another workspace's
    ├── StoreClosed                 used after close (RuntimeError)
    ├── StoreForked                 used in a forked child (RuntimeError)
    ├── SessionNotFound             (LookupError)
    │   └── SessionWasDeleted       a tombstone says so
    ├── SessionExists               the id is taken (ValueError)
    ├── RunNotFound                 (LookupError)
    ├── RunExists                   the id is taken (ValueError)
    ├── IdInvalid                   not the canonical text of a UUID (ValueError)
    ├── RunNotPending               a finish came too late or from a stranger; nothing changed
    ├── HistoryConflict             a saved state contradicts stored originals (ValueError)
    ├── BoundaryInvalid             an exchange would be cut apart there (ValueError)
    ├── NothingToUndo               no turn is left that could be undone (LookupError)
    ├── NothingToRedo               no undone turn can come back (LookupError)
    ├── ImportInvalid               a record that is brought in cannot be stored (ValueError)
    └── CursorInvalid               a page cursor that this listing did not give (ValueError)

Messages carry paths and ids, never content or SQL parameters. Facts are attributes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pathlib import Path

    from state_store.records import ImportRecord

Work = Literal["open", "upgrade", "restore", "compact", "salvage", "delete"]
# A process: pid, host, since when as UTC text.
Holder = tuple[int | None, str | None, str | None]


def _revive(cls: type[StateStoreError], args: tuple[Any, ...], state: dict[str, Any]) -> Any:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class StateStoreError(Exception):
    """Base of all errors of this package."""

    hint: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Survive pickling although constructors take keywords."""
        return (_revive, (type(self), self.args, self.__dict__.copy()))


class StoreUnavailable(StateStoreError, OSError):
    """The database at `path` cannot be opened, read or written now. The file is as it was."""

    def __init__(self, path: Path | str, reason: str, *, hint: str) -> None:
        super().__init__(f"Cannot use {path}: {reason}.")
        self.path = str(path)
        self.reason = reason
        self.hint = hint


class StoreFull(StoreUnavailable):
    """No space is left for `path`. Everything acknowledged before is safe."""


class WalUnsupported(StoreUnavailable):
    """The filesystem under `path` cannot carry WAL mode, which durability depends on."""


class StoreMissing(StateStoreError, FileNotFoundError):
    """There is no database at `path`, and a reader creates none."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(f"There is no database at {path} yet.")
        self.path = str(path)
        self.hint = "It is created by the first conversation in the workspace."


class StoreBusy(StateStoreError, TimeoutError):
    """Another process held the write lock of `path` for longer than `waited_ms`."""

    def __init__(self, path: Path | str, *, waited_ms: int) -> None:
        super().__init__(f"{path} is locked by another process (waited {waited_ms} ms).")
        self.path = str(path)
        self.waited_ms = waited_ms
        self.hint = "Nothing was written. Try again when the other process is done."


class StoreInUse(StateStoreError, TimeoutError):
    """`work` on the files at `path` has to wait for others. Nothing was changed.

    `holders` are the processes that have it open: (pid, host, since as UTC text), each None where
    it is not known, as of readers the time. Empty where the system does not tell.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        work: Work,
        holders: tuple[Holder, ...],
    ) -> None:
        named = [
            f"pid {pid} on {host}" + (f" since {since}" if since else "")
            for pid, host, since in holders
            if pid
        ]
        who = ", ".join(named) or "a process that cannot be identified"
        super().__init__(f"Cannot {work} {path}: it is in use by {who}.")
        self.path = str(path)
        self.work = work
        self.holders = holders
        self.hint = "Nothing was changed. Let it end, or stop it, and try again."


class SessionBusy(StateStoreError, TimeoutError):
    """A run of `session_id` is under way: process `pid` on `host`, `since` (UTC text)."""

    def __init__(
        self, session_id: str, *, pid: int | None, host: str | None, since: str | None
    ) -> None:
        who = f"pid {pid} on {host}" if pid is not None else "a process that cannot be identified"
        super().__init__(f"Session {session_id[-8:]} is in use by {who} since {since}.")
        self.session_id = session_id
        self.pid = pid
        self.host = host
        self.since = since
        self.hint = "Wait for it to end, stop that process, or start a new session."


class StoreDamaged(StateStoreError):
    """The database at `path` is damaged. It was not changed; nothing is put in its place.

    `backup_path` is the newest backup beside it, or None.
    """

    def __init__(self, path: Path | str, reason: str, *, backup_path: str | None = None) -> None:
        super().__init__(f"The database {path} is damaged: {reason}.")
        self.path = str(path)
        self.reason = reason
        self.backup_path = backup_path
        self.hint = (
            f"Keep the file. The newest backup is {backup_path}."
            if backup_path
            else "Keep the file. There is no backup beside it; the run journals are readable still."
        )


class StoreLost(StoreDamaged):
    """The database at `path` is gone, although its log or its backups are still there.

    A new one in its place would hide what was lost, and SQLite would play the old log into it.
    """

    def __init__(self, path: Path | str, *, backup_path: str | None = None) -> None:
        super().__init__(
            path, "it is gone, although its log or its backups are there", backup_path=backup_path
        )
        self.hint = (
            f"Restore the newest backup, {backup_path}, or put the database back."
            if backup_path
            else "Put the database back beside its -wal, which may hold the newest messages."
        )


class StoreNewer(StateStoreError):
    """The database has schema `found`, this package knows up to `supported`."""

    def __init__(self, path: Path | str, *, found: int, supported: int) -> None:
        super().__init__(
            f"The database {path} has schema version {found}, this program supports {supported}."
        )
        self.path = str(path)
        self.found = found
        self.supported = supported
        self.hint = "Upgrade tinyagent; the database was not touched."


class StoreOutdated(StateStoreError):
    """The database has schema `found`, needs `needed`, and cannot be upgraded by this caller."""

    def __init__(self, path: Path | str, *, found: int, needed: int) -> None:
        super().__init__(
            f"The database {path} has schema version {found} and has to be upgraded to {needed}."
        )
        self.path = str(path)
        self.found = found
        self.needed = needed
        self.hint = "Open it once as the user who may write it; a backup is made first."


class UpgradeFailed(StateStoreError):
    """The upgrade of `path` from schema `found` to `wanted` failed at `step`.

    The database has the content it had before. `restored`: it had to be put back from
    `backup_path`, which stays, and what the upgrade had made of it was kept beside it.
    """

    def __init__(
        self,
        path: Path | str,
        reason: str,
        *,
        step: str,
        found: int,
        wanted: int,
        backup_path: Path | str,
        restored: bool = False,
    ) -> None:
        super().__init__(
            f"Upgrading {path} from schema version {found} to {wanted} failed at {step}: {reason}."
        )
        self.path = str(path)
        self.reason = reason
        self.step = step
        self.found = found
        self.wanted = wanted
        self.backup_path = str(backup_path)
        self.restored = restored
        self.hint = (
            f"Nothing is lost: the database is as it was, and the backup {backup_path} holds the"
            " same. Use the version of the program that wrote it, and report this failure."
        )


class BackupUnusable(StateStoreError, ValueError):
    """The file at `path` is not a backup of this database that can be restored."""

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(f"Cannot use {path} as a backup: {reason}.")
        self.path = str(path)
        self.reason = reason
        self.hint = "Nothing was changed. Choose another backup."


class StoreForeign(StateStoreError):
    """The file at `path` is not the expected database: another program's or workspace's."""

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(f"{path} is not this workspace's database: {reason}.")
        self.path = str(path)
        self.reason = reason
        self.hint = "It was not touched. Check TINYAGENT_STATE_HOME, or move the file away."


class StoreClosed(StateStoreError, RuntimeError):
    """The store was closed before this call."""

    def __init__(self) -> None:
        super().__init__("The store is closed.")
        self.hint = "Open a new one."


class StoreForked(StateStoreError, RuntimeError):
    """A store was used in a forked child. SQLite connections do not cross a fork."""

    def __init__(self, *, opened_by: int, used_by: int) -> None:
        super().__init__(f"This store was opened by process {opened_by}, not by {used_by}.")
        self.opened_by = opened_by
        self.used_by = used_by
        self.hint = "Open a store of its own in the child."


class SessionNotFound(StateStoreError, LookupError):
    """No session has the id `session_id`."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"There is no session {session_id}.")
        self.session_id = session_id
        self.hint = "List the sessions to see their ids."


class SessionWasDeleted(SessionNotFound):
    """The session was deleted at `deleted_at`; nothing brings it back by accident."""

    def __init__(self, session_id: str, *, deleted_at: str) -> None:
        StateStoreError.__init__(self, f"Session {session_id} was deleted at {deleted_at}.")
        self.session_id = session_id
        self.deleted_at = deleted_at
        self.hint = "Start a new session."


class SessionExists(StateStoreError, ValueError):
    """A session with the id `session_id` is there already."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"Session {session_id} exists already.")
        self.session_id = session_id
        self.hint = "Leave the id out to get a new one."


class RunNotFound(StateStoreError, LookupError):
    """No run has the id `run_id`."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"There is no run {run_id}.")
        self.run_id = run_id
        self.hint = "List the session's runs to see their ids."


class RunExists(StateStoreError, ValueError):
    """A run with the id `run_id` is there already. Nothing was written."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"Run {run_id} exists already.")
        self.run_id = run_id
        self.hint = "Give every run an id of its own; `new_id` makes one."


class IdInvalid(StateStoreError, ValueError):
    """An id of a `kind` (session, run) is not the canonical, lower-case text of a UUID."""

    def __init__(self, *, kind: str) -> None:
        super().__init__(f"This is no {kind} id: it is not the canonical text of a UUID.")
        self.kind = kind
        self.hint = "Let the store make ids, or make them with `new_id`."


class RunNotPending(StateStoreError):
    """A write to `run_id` was refused: it is `status` now, or belongs to another owner."""

    def __init__(self, run_id: str, *, status: str) -> None:
        super().__init__(f"Run {run_id} is {status} already, or belongs to another process.")
        self.run_id = run_id
        self.status = status
        self.hint = "Nothing was changed. The stored run tells how it ended."


class HistoryConflict(StateStoreError, ValueError):
    """A state lacks or changes the stored original at `seq`. Nothing was written."""

    def __init__(self, session_id: str, *, seq: int) -> None:
        super().__init__(f"The state contradicts message {seq} of session {session_id}.")
        self.session_id = session_id
        self.seq = seq
        self.hint = "Load the session again and append to what is stored, or save under a new id."


class BoundaryInvalid(StateStoreError, ValueError):
    """No exchange ends at `seq`; the nearest places where one does are `before` and `after`."""

    def __init__(self, session: str, *, seq: int, before: int | None, after: int | None) -> None:
        super().__init__(f"Message {seq} of session {session} does not end an exchange.")
        self.session_id = session
        self.seq, self.before, self.after = seq, before, after
        near = " or ".join(str(one) for one in (before, after) if one is not None)
        self.hint = f"Nothing was written. The nearest that does is {near or 'not there yet'}."


class NothingToUndo(StateStoreError, LookupError):
    """The session `session_id` has no turn that is not undone already."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"Session {session_id} has no turn to undo.")
        self.session_id = session_id
        self.hint = "Undone turns can be brought back until something new is said."


class NothingToRedo(StateStoreError, LookupError):
    """The session `session_id` has no undone turn that could come back."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"Session {session_id} has no turn to redo.")
        self.session_id = session_id
        self.hint = "A turn that was undone before something new was said stays undone."


class ImportInvalid(StateStoreError, ValueError):
    """The `field` of the `record` (session, message …) with this `number`, from 1, cannot be."""

    def __init__(self, *, record: ImportRecord, number: int, field: str) -> None:
        super().__init__(f"Cannot import {record} {number}: its {field} is not possible there.")
        self.record, self.number, self.field = record, number, field
        self.hint = "Nothing was imported. Mend the source, or export it again."


class CursorInvalid(StateStoreError, ValueError):
    """A page cursor that this listing did not give."""

    def __init__(self, *, listing: str) -> None:
        super().__init__(f"This is not a cursor of {listing}.")
        self.listing = listing
        self.hint = "Pass the next_cursor of the page before, or none to start over."
