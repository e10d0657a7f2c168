"""`tinyagent store restore`: a backup takes the place of the database.

Invariants: it asks first, for what was said since the backup is out of sight afterwards, although
not lost; a damaged or newer database is replaced only when that was said too, and what speaks
against it is told before anybody is asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sessions_api.cli.consent import Yes, require_consent
from sessions_api.cli.kept import Kept, find_backup, kept
from sessions_api.cli.options import JSON, PLACE, Call, command
from sessions_api.cli.storing import facts
from sessions_api.command_line import typed
from sessions_api.errors import ReferenceNotFound
from sessions_api.showing import figures
from sessions_api.showing.terminal_text import one_line

if TYPE_CHECKING:
    from state_store import Restored

BackupRef = Annotated[
    str | None,
    typer.Argument(
        metavar="[BACKUP]",
        help="A part of its name as `store backups` shows it, or a path; else the newest good one.",
    ),
]
OverDamaged = Annotated[
    bool, typer.Option("--over-damaged", help="Also when the database is damaged.")
]
OverNewer = Annotated[
    bool, typer.Option("--over-newer", help="Also when a newer program wrote the database.")
]
ReviveDeleted = Annotated[
    bool, typer.Option("--revive-deleted", help="Bring back sessions that were deleted since.")
]


def add_to(store: typer.Typer) -> None:
    """Add `restore` to `tinyagent store`."""
    command(store, "restore", PLACE, JSON)(restore)


def restore(
    call: Call,
    backup: BackupRef = None,
    *,
    over_damaged: OverDamaged = False,
    over_newer: OverNewer = False,
    revive_deleted: ReviveDeleted = False,
    yes: Yes = False,
) -> None:
    """Put a backup in the place of the database, which is kept beside it; asks first."""
    from state_store import StoreNewer  # noqa: PLC0415 - not for --help
    from workspace_identity import open_workspace  # noqa: PLC0415 - not for --help

    try:
        with kept(call) as store:
            chosen = None if backup is None else find_backup(call, store, backup)
            _require_wanted(store, over_damaged=over_damaged, over_newer=over_newer)
            if not yes:
                chosen = _asked(call, store, chosen)
            if not store.paths.state_dir.is_dir():  # on another machine, where only its id is known
                open_workspace(call.workspace)
            restored = store.maintenance.restore(
                chosen,
                over_damaged=over_damaged,
                over_newer=over_newer,
                revive_deleted=revive_deleted,
            )
            with store.story() as story:
                story.restored(restored)
    except StoreNewer as error:
        over = typed("store restore --over-newer", workspace=call.workspace)
        error.hint = f"{error.hint} To replace it with a backup all the same: {over}"
        raise
    if call.json:
        from sessions_api.cli.json_shapes import as_json  # noqa: PLC0415 - for --json alone

        call.out.record({"restored": as_json(restored)})
        return
    _tell(call, restored)


def _require_wanted(store: Kept, *, over_damaged: bool, over_newer: bool) -> None:
    """Raise what a look at the database says against replacing it; the restore looks closer."""
    from state_store import (  # noqa: PLC0415 - not for --help
        StoreDamaged,
        StoreLost,
        StoreMissing,
        StoreNewer,
        StoreUnavailable,
    )

    try:
        store.maintenance.plan()
    except (StoreMissing, StoreLost, StoreUnavailable):
        pass  # nothing is replaced, or what hinders the look hinders the restore as well
    except StoreDamaged:
        if not over_damaged:
            raise
    except StoreNewer:
        if not over_newer:
            raise


def _asked(call: Call, store: Kept, chosen: Path | None) -> Path:
    """Return the backup that the person who was asked agreed to."""
    good = [one for one in store.maintenance.backups() if one.problem is None]
    if chosen is None and not good:
        raise ReferenceNotFound(
            "the newest good one", kind="backup", hint="Name a file of this workspace's: its path."
        )
    path = Path(good[-1].path) if chosen is None else chosen
    known = next((one for one in good if Path(one.path) == path), None)
    require_consent(
        call.out,
        "Restore it?",
        lines=[
            f"Backup: {one_line(str(path))}",
            *([] if known is None else [f"It holds: {facts(known)}"]),
            f"In the place of: {one_line(str(store.paths.database))}",
            "What is there now stays beside it, under another name.",
        ],
        refused=f"Restoring {path} was not confirmed.",
        nothing="Nothing was restored.",
    )
    return path


def _tell(call: Call, restored: Restored) -> None:
    note = call.out.note
    note(f"Restored: {one_line(restored.backup.path)} ({facts(restored.backup)})")
    note(f"Sessions: {restored.session_count}")
    if restored.erased_count:
        deleted = figures.count(restored.erased_count, "session")
        note(f"Still deleted: {deleted} of the backup; --revive-deleted brings such back.")
    if not restored.deletions_known:
        note(
            "What was deleted since the backup cannot be told, and is back: look through"
            f" {typed('sessions list', workspace=call.workspace)}"
        )
    if restored.replaced_path is not None:
        note(f"What was there before: {one_line(restored.replaced_path)}")
