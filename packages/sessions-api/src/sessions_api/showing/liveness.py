"""What reading shows of runs whose process is dead, although nobody has written that yet.

Invariant: nothing is written here; the next command that writes makes it so in the store.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from sessions_api.sessions import Sessions
    from state_store import Run, Session, SessionSummary

    Known = TypeVar("Known", Session, SessionSummary)

INTERRUPTED = "interrupted"


def shown_run(run: Run) -> Run:
    """Return *run* as it will be recovered when its process is dead, else as it is."""
    if not run.stale:
        return run
    return replace(run, status="failed", error_type=INTERRUPTED)


def shown_session(session: Known, sessions: Sessions) -> Known:
    """Return *session*, "failed" when it says "running" and the process of that run is dead."""
    if session.status != "running":
        return session
    runs = sessions.runs(session.id).items
    if any(run.status == "pending" and not run.stale for run in runs):
        return session
    from state_store import Session  # noqa: PLC0415 - not for --help

    if isinstance(session, Session):
        # What the dead process used is not known, so the total is a lower bound.
        session = replace(session, usage_complete=False)
    return replace(session, status="failed")
