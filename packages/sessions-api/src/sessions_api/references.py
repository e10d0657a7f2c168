"""From what a person types to a session: "latest", a whole id, its last digits, an exact title.

Invariant: a reference that does not resolve is an error and never a new session; one that fits
several is refused with the candidates named. Nothing in a reference is a pattern.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from sessions_api.errors import ReferenceAmbiguous, ReferenceNotFound

if TYPE_CHECKING:
    from state_store import SessionSummary, SqliteStore

LATEST = "latest"
SHORT_ID_DIGITS = 8
_NEAR_CANDIDATES = 200


def resolve_session(store: SqliteStore, ref: str) -> SessionSummary:
    """Return the one session that *ref* names; ReferenceNotFound or ReferenceAmbiguous."""
    if ref == LATEST:
        latest = store.list(limit=1).items
        if not latest:
            raise ReferenceNotFound(
                ref, hint='There is no session here yet. Start one: tinyagent run "hello"'
            )
        return latest[0]
    found = store.find_sessions(ref)
    if not found:
        raise ReferenceNotFound(ref, hint=_near(store, ref))
    if len(found) > 1:
        raise ReferenceAmbiguous(
            ref, candidates=tuple((one.id, one.title) for one in found), kind="session"
        )
    return found[0]


def _near(store: SqliteStore, ref: str) -> str | None:
    handles = {}
    for one in store.list(limit=_NEAR_CANDIDATES).items:
        handles[one.id[-SHORT_ID_DIGITS:]] = one
        if one.title:
            handles[one.title] = one
    near = difflib.get_close_matches(ref, handles, n=3, cutoff=0.6)
    if not near:
        return None
    named = ", ".join(
        f"{handles[key].id[-SHORT_ID_DIGITS:]} ({handles[key].title})" for key in near
    )
    return f"Did you mean {named}? List all with: tinyagent sessions list"
