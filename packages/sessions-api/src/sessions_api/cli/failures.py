"""Failures at the border: their exit codes, their two lines, their JSON.

    SessionsError
    ├── UsageInvalid                  the command line asks for what cannot be (ValueError)
    ├── BackupAmbiguous               several backups fit (a ReferenceAmbiguous, LookupError)
    ├── ConsentMissing                refused without --yes off a terminal
    ├── Declined                      the question was answered with no
    └── OutputFailed                  standard output cannot be written (RuntimeError)

Exit codes: 1 failed, 2 usage, 3 ambiguous reference, 4 not found, 5 store damaged, 6 newer schema,
7 busy, 8 refused without --yes, 129, 130 and 143 for signals. Invariant: errors are recognised by
type, never by their words; a failure is one line that says what failed and one what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions_api.errors import ReferenceAmbiguous, SessionsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions_api.problems import Problem

FAILED, USAGE, DAMAGED = 1, 2, 5


class UsageInvalid(SessionsError, ValueError):
    """The command line asks for something that cannot be."""


class BackupAmbiguous(ReferenceAmbiguous):
    """Several backups fit `reference`; `candidates` are the names that tell them apart."""

    def __init__(self, reference: str, *, names: tuple[str, ...]) -> None:
        SessionsError.__init__(
            self,
            f"{len(names)} backups fit {reference!r}: {', '.join(names)}.",
            hint="Name one by more of its name, or by its path.",
        )
        self.reference = reference
        self.candidates = tuple((name, None) for name in names)
        self.kind = "backup"


class ConsentMissing(SessionsError):
    """Something that cannot be undone was asked for where nobody can be asked back."""


class Declined(SessionsError):
    """The person who was asked said no; nothing was done."""


class OutputFailed(SessionsError, RuntimeError):
    """Standard output cannot be written."""


def exit_code_of(error: Exception) -> int:
    """Return the exit code that stands for *error*."""
    for kinds, code in _codes():
        if isinstance(error, kinds):
            return code
    return FAILED


def _codes() -> Iterator[tuple[tuple[type[Exception], ...], int]]:
    # Imported for a failure alone: a command that goes well need not know how others fail.
    import run_journal as journal  # noqa: PLC0415 - see above
    import state_store as store  # noqa: PLC0415 - see above
    import workspace_identity as identity  # noqa: PLC0415 - see above
    from sessions_api import errors  # noqa: PLC0415 - see above

    yield (ConsentMissing,), 8
    yield (errors.ReferenceAmbiguous,), 3
    yield (
        (
            errors.ReferenceNotFound,
            store.SessionNotFound,
            store.RunNotFound,
            store.StoreMissing,
            store.BackupUnusable,
            identity.UnknownWorkspace,
            journal.JournalMissing,
        ),
        4,
    )
    yield (store.StoreDamaged, store.StoreForeign), DAMAGED
    yield (store.StoreNewer,), 6
    yield (
        (
            store.SessionBusy,
            store.StoreBusy,
            store.StoreInUse,
            identity.RegistryBusy,
            journal.JournalBusy,
        ),
        7,
    )
    yield (
        (
            UsageInvalid,
            errors.InputInvalid,
            errors.NoActiveSession,
            errors.ProviderUnknown,
            errors.SettingsInvalid,
            identity.UnsafeWorkspace,
            identity.WorkspaceMissing,
            store.BoundaryInvalid,
            store.CursorInvalid,
        ),
        USAGE,
    )


def problem_lines(problem: Problem) -> tuple[str, str]:
    """Return what failed and what to do, each on one line and safe for a terminal."""
    from sessions_api.showing.terminal_text import one_line  # noqa: PLC0415 - for a failure alone

    return f"Error: {one_line(problem.message)}", one_line(problem.hint)
