"""Errors as people and scripts are told about them: what failed, what to do, under which name.

Owns the translation of any exception into a `Problem`. Invariant: the words of our own errors are
passed on, because they never hold content or secrets; those of others are not, because nobody
knows what stands in them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from run_journal import RunJournalError
from sessions_api.errors import RunFailed, SessionsError
from state_store import SessionBusy, StateStoreError, StoreBusy
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


def problem_of(error: BaseException) -> Problem:
    """Return what *error* means."""
    match error:
        case RunFailed():
            return _failed_run(error)
        case RunJournalError():
            # Those say what to do in the same sentence.
            message, _, hint = str(error).partition(". ")
            return Problem(kind=_kind(error), message=f"{message.rstrip('.')}.", hint=hint or _HELP)
        case SessionsError() | StateStoreError() | WorkspaceIdentityError():
            return Problem(
                kind=_kind(error),
                message=str(error),
                hint=error.hint or _HELP,
                retryable=isinstance(error, SessionBusy | StoreBusy | RegistryBusy),
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


def _failed_run(error: RunFailed) -> Problem:
    cause = error.__cause__
    message, hint = str(error), error.hint
    if isinstance(cause, SessionsError | StateStoreError):
        message = f"{message} {cause}"
        hint = cause.hint or hint
    return Problem(
        kind=error.error_type,
        message=message,
        hint=hint or _HELP,
        retryable=error.retryable,
        facts={"session_id": error.session_id, "run_id": error.run_id},
    )


def _kind(error: BaseException) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower()
