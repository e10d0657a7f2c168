"""Errors as people and scripts are told about them: what failed, what to do, under which name.

Owns the translation of any exception into a `Problem`. Invariant: the words of our own errors are
passed on, because they never hold content or secrets; those of others are not, because nobody
knows what stands in them. Where a library says what to do in general, the hint here is a command.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from run_journal import RunJournalError
from sessions_api.command_line import typed
from sessions_api.errors import RunFailed, SessionsError, UnsafeRetry
from state_store import (
    Backup,
    BackupUnusable,
    Maintenance,
    SessionBusy,
    StateStoreError,
    StoreBusy,
    StoreDamaged,
    StoreInUse,
    StoreLost,
)
from workspace_identity import RegistryBusy, WorkspaceIdentityError

if TYPE_CHECKING:
    from collections.abc import Mapping

OUR_ERRORS = (SessionsError, StateStoreError, WorkspaceIdentityError, RunJournalError)
_HELP = "See: tinyagent --help"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One failure. `kind` is stable; `facts` are ids that a script can go on with."""

    kind: str
    message: str
    hint: str
    retryable: bool = False
    facts: Mapping[str, str] = field(default_factory=dict)


def problem_of(error: BaseException, *, workspace: str = ".") -> Problem:
    """Return what *error*, met in *workspace*, means."""
    match error:
        case RunFailed():
            return _failed_run(error, workspace)
        case SessionsError() | StateStoreError() | WorkspaceIdentityError() | RunJournalError():
            return Problem(
                kind=_kind(error),
                message=str(error),
                hint=_hint_of(error, workspace) or _HELP,
                retryable=isinstance(error, SessionBusy | StoreBusy | StoreInUse | RegistryBusy),
            )
        case OSError():
            named = f"{error.filename}: " if error.filename else ""
            return Problem(
                kind="system",
                message=f"{named}{error.strerror or type(error).__name__}.",
                hint="Check the path, its permissions and free space.",
            )
        case _:
            return Problem(
                kind="internal",
                message=f"An unexpected error: {type(error).__name__}.",
                hint="Type it again with --debug to see where, and report it.",
            )


def _failed_run(error: RunFailed, workspace: str) -> Problem:
    cause = error.__cause__
    message, hint = str(error), error.hint
    if isinstance(cause, SessionsError | StateStoreError):
        message = f"{message} {cause}"
        hint = _hint_of(cause, workspace) or hint
    return Problem(
        kind=error.error_type,
        message=message,
        hint=hint or _HELP,
        retryable=error.retryable,
        facts={"session_id": error.session_id, "run_id": error.run_id},
    )


def after_damage(database: Path, workspace: str) -> str:
    """Return which commands help a damaged *database*, and the newest good backup."""
    backup = _newest_good(database)
    recover = typed("store recover", workspace=workspace)
    if backup is None:
        return (
            "Keep the file; there is no good backup beside it. To save what it still holds:"
            f" {recover}"
        )
    restore = typed("store restore --over-damaged", workspace=workspace)
    return (
        f"Keep the file. To put back the newest good backup, {backup.path}: {restore};"
        f" to save what the file still holds: {recover}"
    )


def _hint_of(
    error: SessionsError | StateStoreError | WorkspaceIdentityError | RunJournalError,
    workspace: str,
) -> str | None:
    match error:
        case StoreLost() if error.backup_path is not None:
            restore = typed("store restore", workspace=workspace)
            return (
                "If it was moved, put it back, with its -wal. To restore the newest good backup:"
                f" {restore}"
            )
        case StoreLost():
            return error.hint
        case StoreDamaged():
            return after_damage(Path(error.path), workspace)
        case UnsafeRetry():
            again = typed(f"runs retry {error.run_id[-8:]} --allow-unsafe", workspace=workspace)
            return f"Look at what they did first; to run them again: {again}"
        case BackupUnusable():
            choose = typed("store backups", workspace=workspace)
            return f"Nothing was changed. Choose another one: {choose}"
        case _:
            return error.hint


def _newest_good(database: Path) -> Backup | None:
    try:
        # The directory of a database has the name of its workspace.
        found = Maintenance(database, workspace_id=database.parent.name).backups()
    except (StateStoreError, OSError):
        return None
    return next((one for one in reversed(found) if one.problem is None), None)


def _kind(error: BaseException) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower()
