"""One workspace, opened: its identity, its store, its journal.

Owns the order of opening and closing the three, and what happens when the store cannot be used.
Invariants: what is opened for reading creates nothing; a conversation is never believed saved
when it is not (`saving`, `notices`); a damaged, newer or foreign database always refuses, and so
does one whose upgrade failed; what a delete that was cut off has left is removed at the next start.

Must not: know agents, runs or providers.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from state_store import (
    Clock,
    Deleted,
    IdSource,
    Progress,
    SqliteStore,
    StateStoreError,
    StoreBusy,
    StoreInUse,
    StoreMissing,
    StoreUnavailable,
    Upgrade,
    new_id,
    silent,
    utc_now,
)
from workspace_identity import (
    Inspection,
    RegistryBusy,
    StateHomeUnusable,
    Workspace,
    WorkspacePaths,
    inspect_workspace,
    open_workspace,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from sessions_api.story import WorkspaceStory

Persistence = Literal["required", "best-effort", "ephemeral"]
_UNUSABLE = (StoreUnavailable, StoreBusy, StoreInUse, StateHomeUnusable, RegistryBusy)
# At one start. Each is a commit of its own, and nobody waits for a thousand of them.
_FINISHED_DELETES_LIMIT = 50


@dataclass(slots=True, kw_only=True)
class WorkspaceState:
    """What an agent or a command works on. Thread-safe where the store is; does not cross a fork.

    `saving` is False when nothing is kept after closing. `notices` are lines for a person, about
    the workspace or about what is not saved; `upgrade_notice` is the one of them that tells of an
    upgrade of the database, which opening it has made.
    """

    root: Path
    workspace_id: str | None
    paths: WorkspacePaths | None
    store: SqliteStore
    story: WorkspaceStory | None
    saving: bool
    notices: tuple[str, ...] = ()
    upgrade_notice: str | None = None
    _told_recovered_count: int = field(default=0, init=False)

    def lost_lines_notice(self) -> str | None:
        """Return a line for a person when lines of the journal could not be written, else None."""
        count = 0 if self.story is None else self.story.journal.failed_count
        if not count:
            return None
        return (
            f"{count} of the journal's lines could not be written; the conversation itself is"
            " saved. Check the journal's directory: tinyagent path"
        )

    def delete(self, session_id: str) -> Deleted:
        """Delete a session everywhere: its rows, then its journal; a tombstone stays.

        What was said in it is recalled at no prompt any more. A journal that cannot be removed,
        because another process holds it, is named in `notices` and goes at a later start.
        """
        from sessions_api.typed_lines import FILE_NAME, TypedLines  # noqa: PLC0415 - not for reading

        typed = TypedLines(None if self.paths is None else self.paths.state_dir / FILE_NAME)
        said = self._said_in(session_id) if typed.exist else set()
        deleted = self.store.delete(session_id)
        if said:
            typed.forget(said)
        if self.story is None:
            return deleted
        if self.story.deleted(deleted):
            with suppress(StateStoreError):  # the next start finds that nothing is left
                self.store.mark_erased(session_id)
        else:
            journal = self.story.journal.path_for(session_id)
            self.notices += (
                f"The session is deleted; its journal stayed and may go too: {journal}",
            )
        return deleted

    def _said_in(self, session_id: str) -> set[str]:
        """Return the messages of the user as they may have been typed."""
        said: set[str] = set()
        cursor: str | None = None
        with suppress(StateStoreError):  # what cannot be read can be deleted all the same
            while True:
                page = self.store.messages(session_id, view="all", limit=500, cursor=cursor)
                for text in (one.content or "" for one in page.items if one.role == "user"):
                    said |= {text, f"/{text}"}  # one that begins with a slash is typed with two
                if (cursor := page.next_cursor) is None:
                    break
        return said

    def finish_deletes(self) -> None:
        """Remove what deletes that were cut off have left: journals of sessions without rows.

        What cannot be removed now is tried again at the next start.
        """
        if self.story is None:
            return
        with suppress(StateStoreError):
            for session_id in self.store.unerased()[:_FINISHED_DELETES_LIMIT]:
                if self.story.erased(session_id):
                    self.store.mark_erased(session_id)

    def tell_recovered(self) -> None:
        """Tell the journal of runs that the store has recovered since it was last asked."""
        recovered = self.store.recovered
        if self.story is not None and len(recovered) > self._told_recovered_count:
            self.story.recovered(recovered[self._told_recovered_count :])
        self._told_recovered_count = len(recovered)

    def close(self) -> None:
        """Close store and journal. Doing it twice does nothing."""
        self.store.close()
        if self.story is not None:
            self.story.journal.close()


def open_state(
    workspace: str | os.PathLike[str],
    *,
    state_home: str | os.PathLike[str] | None = None,
    persistence: Persistence = "required",
    secrets: Callable[[], Iterable[str]] = tuple,
    progress: Progress = silent,
    clock: Clock = utc_now,
    new_id: IdSource = new_id,
) -> WorkspaceState:
    """Open *workspace* for writing and recover what dead processes left pending.

    With "best-effort" a store that cannot be used (permission, filesystem, full, busy, in use by
    one who changes its files) gives way to memory and a notice; with "ephemeral" nothing is read or
    written at all. An older database is upgraded, and *progress* told.
    """
    if persistence == "ephemeral":
        return _in_memory(Path(workspace), notices=(), clock=clock, new_id=new_id)
    try:
        return _open(
            workspace,
            state_home=state_home,
            secrets=secrets,
            progress=progress,
            clock=clock,
            new_id=new_id,
        )
    except _UNUSABLE as error:
        if persistence == "required":
            raise
        notice = f"Nothing of this conversation will be saved: {error} {error.hint}"
        return _in_memory(Path(workspace), notices=(notice,), clock=clock, new_id=new_id)


def read_state(
    workspace: str | os.PathLike[str],
    *,
    state_home: str | os.PathLike[str] | None = None,
    progress: Progress = silent,
) -> WorkspaceState:
    """Open *workspace* for reading; creates nothing, and a workspace never used is empty.

    An older database is upgraded first, and *progress* told.
    """
    found = inspect_workspace(workspace, state_home=state_home)
    notices = _notices(found)
    if found.id is None or found.paths is None:
        return _in_memory(found.root, notices=notices)
    try:
        store = SqliteStore.open(
            found.paths.database,
            workspace_id=found.id,
            writing=False,
            progress=progress,
        )
    except StoreMissing:
        return _in_memory(found.root, notices=notices)
    if store.upgraded is not None:
        _tell_upgrade(found.paths, found.id, store.upgraded)
    upgrade_notice = _upgrade_notice(store.upgraded)
    return WorkspaceState(
        root=found.root,
        workspace_id=found.id,
        paths=found.paths,
        store=store,
        story=None,
        saving=False,
        notices=notices + ((upgrade_notice,) if upgrade_notice else ()),
        upgrade_notice=upgrade_notice,
    )


def _open(
    workspace: str | os.PathLike[str],
    *,
    state_home: str | os.PathLike[str] | None,
    secrets: Callable[[], Iterable[str]],
    progress: Progress,
    clock: Clock,
    new_id: IdSource,
) -> WorkspaceState:
    found = open_workspace(workspace, state_home=state_home)
    store = SqliteStore.open(
        found.paths.database,
        workspace_id=found.id,
        owners_dir=found.paths.owners,
        clock=clock,
        new_id=new_id,
        progress=progress,
    )
    try:
        # Not for those who only read: the journal's package is a third of their start.
        from run_journal import Journal  # noqa: PLC0415 - see above
        from sessions_api.story import WorkspaceStory  # noqa: PLC0415 - see above

        journal = Journal(
            found.paths.journal_dir, workspace_id=found.id, secrets=secrets, clock=clock
        )
    except BaseException:
        store.close()
        raise
    story = WorkspaceStory(journal)
    story.opened(str(found.verdict), recovered_count=len(store.recovered))
    if store.upgraded is not None:
        story.migrated(store.upgraded)
    upgrade_notice = _upgrade_notice(store.upgraded)
    state = WorkspaceState(
        root=found.root,
        workspace_id=found.id,
        paths=found.paths,
        store=store,
        story=story,
        saving=True,
        notices=_notices(found) + ((upgrade_notice,) if upgrade_notice else ()),
        upgrade_notice=upgrade_notice,
    )
    try:
        state.tell_recovered()
        state.finish_deletes()
    except BaseException:
        state.close()
        raise
    return state


def _tell_upgrade(paths: WorkspacePaths, workspace_id: str, upgrade: Upgrade) -> None:
    """Tell the journal what a reader, who has none open, did to the database."""
    from run_journal import Journal  # noqa: PLC0415 - for an upgrade alone
    from sessions_api.story import WorkspaceStory  # noqa: PLC0415 - the same

    with Journal(paths.journal_dir, workspace_id=workspace_id) as journal:
        WorkspaceStory(journal).migrated(upgrade)


def _upgrade_notice(upgrade: Upgrade | None) -> str | None:
    if upgrade is None:
        return None
    backup = "" if upgrade.backup is None else f"; the backup made before is {upgrade.backup.path}"
    versions = f"from schema {upgrade.from_version} to {upgrade.to_version}"
    return f"The database was upgraded {versions}{backup}"


def _notices(found: Workspace | Inspection) -> tuple[str, ...]:
    hints = found.hints if isinstance(found, Workspace) else ()
    return ((found.notice,) if found.notice else ()) + hints


def _in_memory(
    root: Path,
    *,
    notices: tuple[str, ...],
    clock: Clock = utc_now,
    new_id: IdSource = new_id,
) -> WorkspaceState:
    return WorkspaceState(
        root=root,
        workspace_id=None,
        paths=None,
        store=SqliteStore.in_memory(workspace_id=str(uuid.uuid4()), clock=clock, new_id=new_id),
        story=None,
        saving=False,
        notices=notices,
    )
