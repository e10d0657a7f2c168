"""A workspace's store from outside, found without opening it.

Invariant: only what is known without the database is used, so that it works where that is damaged,
newer or gone; nothing is created by looking.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sessions_api.cli.failures import BackupAmbiguous
from sessions_api.command_line import typed
from sessions_api.errors import ReferenceNotFound
from sessions_api.showing.terminal_text import safe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions_api.cli.options import Call
    from sessions_api.story import WorkspaceStory
    from state_store import Backup, Maintenance
    from workspace_identity import WorkspacePaths

# Other commands are gone by then, and whoever still has it open stays for longer.
_PATIENCE_MS = 2_000
_SHORTEST_PART = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The store of a workspace, and where it lies."""

    workspace_id: str
    paths: WorkspacePaths
    maintenance: Maintenance

    @contextmanager
    def story(self) -> Iterator[WorkspaceStory]:
        """Open the workspace's journal alone."""
        from run_journal import Journal  # noqa: PLC0415 - not for --help
        from sessions_api.story import WorkspaceStory  # noqa: PLC0415 - not for --help

        with Journal(self.paths.journal_dir, workspace_id=self.workspace_id) as journal:
            yield WorkspaceStory(journal)


@contextmanager
def kept(call: Call) -> Iterator[Kept]:
    """Find the store of the call's workspace; how far work on it is, is shown.

    StoreMissing in a directory that was never used as a workspace.
    """
    from state_store import Maintenance, StoreMissing  # noqa: PLC0415 - not for --help
    from workspace_identity import inspect_workspace  # noqa: PLC0415 - not for --help

    found = inspect_workspace(call.workspace)
    if found.notice:
        call.out.note(safe(found.notice))
    if found.id is None or found.paths is None:
        raise StoreMissing(found.root)
    with call.out.progress() as progress:
        yield Kept(
            workspace_id=found.id,
            paths=found.paths,
            maintenance=Maintenance(
                found.paths.database,
                workspace_id=found.id,
                owners_dir=found.paths.owners,
                busy_timeout_ms=_PATIENCE_MS,
                progress=progress,
            ),
        )


def name_of(backup: Backup) -> str:
    """Return what people type for a backup: what tells it apart from the others."""
    return Path(backup.path).name.rpartition(".backup-")[2]


def find_backup(call: Call, store: Kept, ref: str) -> Path:
    """Return the file that *ref* means: a path, or a part of the name of just one backup."""
    if "/" in ref or (ref and Path(ref).is_file()):
        return Path(ref)
    fitting = [
        one
        for one in store.maintenance.backups()
        if len(ref) >= _SHORTEST_PART and ref in Path(one.path).name
    ]
    if not fitting:
        listed = typed("store backups", workspace=call.workspace)
        raise ReferenceNotFound(ref, kind="backup", hint=f"List what there is: {listed}")
    if len(fitting) > 1:
        raise BackupAmbiguous(ref, names=tuple(map(name_of, fitting)))
    return Path(fitting[0].path)
