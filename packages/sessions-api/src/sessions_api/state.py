"""One workspace, opened: its identity, its store, its journal.

Owns the order of opening and closing the three, and what happens when the store cannot be used.
Invariants: what is opened for reading creates nothing; a conversation is never believed saved
when it is not (`saving`, `notices`); a damaged, newer or foreign database always refuses.

Must not: know agents, runs or providers.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from state_store import (
    Clock,
    Deleted,
    IdSource,
    SqliteStore,
    StoreBusy,
    StoreMissing,
    StoreUnavailable,
    new_id,
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
_UNUSABLE = (StoreUnavailable, StoreBusy, StateHomeUnusable, RegistryBusy)


@dataclass(slots=True, kw_only=True)
class WorkspaceState:
    """What an agent or a command works on. Thread-safe where the store is; does not cross a fork.

    `saving` is False when nothing is kept after closing. `notices` are lines for a person, about
    the workspace or about what is not saved.
    """

    root: Path
    workspace_id: str | None
    paths: WorkspacePaths | None
    store: SqliteStore
    story: WorkspaceStory | None
    saving: bool
    notices: tuple[str, ...] = ()
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

        A journal that cannot be removed, because another process holds it, is named in `notices`.
        """
        deleted = self.store.delete(session_id)
        if self.story is not None and not self.story.deleted(deleted):
            journal = self.story.journal.path_for(session_id)
            self.notices += (
                f"The session is deleted; its journal stayed and may go too: {journal}",
            )
        return deleted

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
    clock: Clock = utc_now,
    new_id: IdSource = new_id,
) -> WorkspaceState:
    """Open *workspace* for writing and recover what dead processes left pending.

    With "best-effort" a store that cannot be used (permission, filesystem, full, busy) gives
    way to memory and a notice; with "ephemeral" nothing is read or written at all.
    """
    if persistence == "ephemeral":
        return _in_memory(Path(workspace), notices=(), clock=clock, new_id=new_id)
    try:
        return _open(workspace, state_home=state_home, secrets=secrets, clock=clock, new_id=new_id)
    except _UNUSABLE as error:
        if persistence == "required":
            raise
        notice = f"Nothing of this conversation will be saved: {error} {error.hint}"
        return _in_memory(Path(workspace), notices=(notice,), clock=clock, new_id=new_id)


def read_state(
    workspace: str | os.PathLike[str], *, state_home: str | os.PathLike[str] | None = None
) -> WorkspaceState:
    """Open *workspace* for reading; creates nothing, and a workspace never used is empty."""
    found = inspect_workspace(workspace, state_home=state_home)
    notices = _notices(found)
    if found.id is None or found.paths is None:
        return _in_memory(found.root, notices=notices)
    try:
        store = SqliteStore.open(found.paths.database, workspace_id=found.id, writing=False)
    except StoreMissing:
        return _in_memory(found.root, notices=notices)
    return WorkspaceState(
        root=found.root,
        workspace_id=found.id,
        paths=found.paths,
        store=store,
        story=None,
        saving=False,
        notices=notices,
    )


def _open(
    workspace: str | os.PathLike[str],
    *,
    state_home: str | os.PathLike[str] | None,
    secrets: Callable[[], Iterable[str]],
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
    state = WorkspaceState(
        root=found.root,
        workspace_id=found.id,
        paths=found.paths,
        store=store,
        story=story,
        saving=True,
        notices=_notices(found),
    )
    state.tell_recovered()
    return state


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
