"""What the journal is told about a workspace and its sessions; runs have a story of their own.

Invariant: facts alone, written after their commit. A line that cannot be written, or whose event is
refused, is counted by the journal or here and fails nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from run_journal import (
    Event,
    EventInvalid,
    Journal,
    RunJournalError,
    RunRecovered,
    RunRedone,
    RunUndone,
    SessionArchived,
    SessionCreated,
    SessionDeleted,
    SessionForked,
    SessionRenamed,
    SessionResumed,
    StoreMigrated,
    StoreOpened,
    StoreRestored,
    WorkspaceDecided,
    WorkspaceVerdict,
    id_of,
    name_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from state_store import Backup, Deleted, Restored, Run, Session, Upgrade


class WorkspaceStory:
    """The lines of a workspace's sessions, in the order in which things were committed."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    def _tell(self, make: Callable[[], Event]) -> None:
        try:
            self.journal.write(make())
        except EventInvalid:  # an id or a count of another store's making; no reason to fail
            self.journal.failed_count += 1

    def opened(self, verdict: str, *, recovered_count: int) -> None:
        """Tell what was decided about the workspace, unless that is the usual, and of left runs."""
        if verdict in set(WorkspaceVerdict):
            self._tell(lambda: WorkspaceDecided(verdict=WorkspaceVerdict(verdict)))
        if recovered_count:
            self._tell(lambda: StoreOpened(pid=os.getpid(), recovered_run_count=recovered_count))

    def migrated(self, upgrade: Upgrade) -> None:
        """Tell that the database has another schema now, and how many old backups went for it."""
        backup = upgrade.backup
        self._tell(
            lambda: StoreMigrated(
                from_version=upgrade.from_version,
                to_version=upgrade.to_version,
                backed_up=backup is not None,
                pruned_backup_count=0 if backup is None else len(backup.pruned),
            )
        )

    def restored(self, restored: Restored) -> None:
        """Tell that a backup took the place of the database."""
        self._tell(
            lambda: StoreRestored(
                schema_version=restored.version,
                session_count=restored.session_count,
            )
        )

    def backed_up(self, backup: Backup) -> None:
        """Tell that older backups went because a new one was made; a backup alone is no event."""
        if backup.pruned:
            self._tell(
                lambda: StoreOpened(
                    schema_version=backup.version,
                    pid=os.getpid(),
                    pruned_backup_count=len(backup.pruned),
                )
            )

    def recovered(self, runs: Sequence[Run]) -> None:
        """Tell the end of runs whose process had died; each run's last line."""
        for run in runs:
            self._recovered(run)

    def _recovered(self, run: Run) -> None:
        self._tell(lambda: RunRecovered(session_id=id_of(run.session_id), run_id=id_of(run.id)))

    def created(self, session: Session) -> None:
        """Tell that a session was created without a run."""
        self._entered(SessionCreated, session)

    def resumed(self, session: Session) -> None:
        """Tell that a session was made active again."""
        self._entered(SessionResumed, session)

    def _entered(self, make: type[SessionCreated | SessionResumed], session: Session) -> None:
        self._tell(
            lambda: make(
                session_id=id_of(session.id),
                provider=name_of(session.provider),
                model=None if session.model_id is None else name_of(session.model_id),
                message_count=session.message_count,
            )
        )

    def forked(self, session: Session) -> None:
        """Tell of which session a new one was made, through which message."""
        if session.forked_from is None:
            return
        parent_id, parent_seq = session.forked_from
        self._tell(
            lambda: SessionForked(
                session_id=id_of(session.id),
                parent_id=id_of(parent_id),
                parent_seq=parent_seq,
                message_count=session.message_count,
            )
        )

    def undone(self, session_id: str, run_ids: Iterable[str]) -> None:
        """Tell of each run that it was undone."""
        self._turned(RunUndone, session_id, run_ids)

    def redone(self, session_id: str, run_ids: Iterable[str]) -> None:
        """Tell of each run that it was brought back."""
        self._turned(RunRedone, session_id, run_ids)

    def _turned(
        self, make: type[RunUndone | RunRedone], session_id: str, run_ids: Iterable[str]
    ) -> None:
        def one(run_id: str) -> Callable[[], Event]:
            return lambda: make(session_id=id_of(session_id), run_id=id_of(run_id))

        for run_id in run_ids:
            self._tell(one(run_id))

    def renamed(self, session: Session) -> None:
        """Tell that a session has another title, and not which."""
        self._tell(lambda: SessionRenamed(session_id=id_of(session.id)))

    def archived(self, session: Session) -> None:
        """Tell that a session was archived or taken back."""
        self._tell(
            lambda: SessionArchived(
                session_id=id_of(session.id), archived=session.archived_at is not None
            )
        )

    def deleted(self, deleted: Deleted) -> bool:
        """Remove the journal of a deleted session and tell so in the workspace's.

        Returns whether the file is gone; the rows are, so what keeps it fails nothing any more.
        """
        try:
            self.journal.delete(deleted.id)
            is_gone = True
        except (RunJournalError, OSError):
            is_gone = False
        self._tell(
            lambda: SessionDeleted(
                session_id=id_of(deleted.id),
                message_count=deleted.message_count,
                run_count=deleted.run_count,
            )
        )
        return is_gone

    def erased(self, session_id: str) -> bool:
        """Remove the journal that a delete left when it was cut off.

        Returns whether nothing is left. The deletion is told if there was something: then nobody
        had come to tell it.
        """
        try:
            was_there = self.journal.delete(session_id)
        except (RunJournalError, OSError):
            return False
        if was_there:
            self._tell(lambda: SessionDeleted(session_id=id_of(session_id)))
        return True
