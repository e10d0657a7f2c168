"""`tinyagent store backup`, `backups` and `compact`: taking care of the database.

Invariants: none of them changes what is stored, so nobody is asked; the path of a backup, alone on
standard output, is for scripts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions_api.cli.kept import kept, name_of
from sessions_api.cli.options import JSON, PLACE, Call, command
from sessions_api.command_line import typed
from sessions_api.showing import figures
from sessions_api.showing.terminal_text import columns, one_line

if TYPE_CHECKING:
    import typer

    from state_store import Backup

_HEADER = ("NAME", "MADE", "SIZE", "SCHEMA", "SESSIONS", "PROBLEM")


def add_to(store: typer.Typer) -> None:
    """Add the commands to `tinyagent store`."""
    command(store, "backup", PLACE, JSON)(back_up)
    command(store, "backups", PLACE, JSON)(list_backups)
    command(store, "compact", PLACE, JSON)(compact)


def back_up(call: Call) -> None:
    """Make a verified backup beside the database, also while programs use it; print its path."""
    with kept(call) as store:
        backup = store.maintenance.back_up()
        if backup.pruned:
            with store.story() as story:
                story.backed_up(backup)
    if call.json:
        from sessions_api.cli.json_shapes import as_json  # noqa: PLC0415 - for --json alone

        call.out.record({"backup": as_json(backup)})
        return
    call.out.lines([one_line(backup.path)])
    call.out.note(f"Backed up: {facts(backup)}")
    for pruned in backup.pruned:
        call.out.note(f"An older backup went for it: {one_line(pruned)}")


def list_backups(call: Call) -> None:
    """List the backups of the database, newest first, also those that are no good."""
    from state_store import StoreMissing  # noqa: PLC0415 - not for --help

    try:
        with kept(call) as store:
            backups = store.maintenance.backups()[::-1]
    except StoreMissing:  # nothing was ever kept here, so there is nothing to list
        backups = ()
    if call.json:
        from sessions_api.cli.json_shapes import as_json  # noqa: PLC0415 - for --json alone

        call.out.record({"backups": as_json(backups)})
    elif backups:
        header, *lines = columns([_HEADER, *map(_row, backups)], right=frozenset({2, 3, 4}))
        call.out.lines([call.out.ink.bold(header), *lines])
    else:
        make = typed("store backup", workspace=call.workspace)
        call.out.note(f"There is no backup yet. Make one: {make}")


def compact(call: Call) -> None:
    """Give back the space that deletions left in the database."""
    with kept(call) as store:
        compacted = store.maintenance.compact()
    if call.json:
        from sessions_api.cli.json_shapes import as_json  # noqa: PLC0415 - for --json alone

        call.out.record({"compacted": as_json(compacted)})
        return
    before, after = figures.size(compacted.before_bytes), figures.size(compacted.after_bytes)
    call.out.note(f"Compacted: from {before} to {after}")


def facts(backup: Backup) -> str:
    """Return what a backup holds, for people."""
    sessions = (
        "?" if backup.session_count is None else figures.count(backup.session_count, "session")
    )
    return (
        f"{sessions}, {figures.size(backup.size_bytes)}, schema {backup.version or '?'},"
        f" of {figures.at(backup.created_at)}"
    )


def _row(backup: Backup) -> tuple[str, ...]:
    version, count = backup.version, backup.session_count
    return (
        one_line(name_of(backup)),
        figures.at(backup.created_at),
        figures.size(backup.size_bytes),
        figures.UNKNOWN if version is None else str(version),
        figures.UNKNOWN if count is None else str(count),
        one_line(backup.problem or ""),
    )
