"""From what a person types to a session or a run: "latest", a whole id, its last digits, a title.

Invariants: a reference that does not resolve is an error and never a new session; one that fits
several is refused with the candidates named; nothing in it is a pattern. Whatever a list has
printed is accepted (C25): a title counts as it is stored, and only if none is stored so, as it is
shown, on one line or cut with a mark at the end.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from sessions_api.errors import ReferenceAmbiguous, ReferenceNotFound
from sessions_api.safe_text import MARK, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from state_store import Run, SessionSummary, SqliteStore

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
    found = store.find_sessions(ref) or _shown_as(store, ref)
    if not found:
        raise ReferenceNotFound(ref, hint=_near(store, ref))
    if len(found) > 1:
        raise ReferenceAmbiguous(
            ref, candidates=tuple((one.id, one.title) for one in found), kind="session"
        )
    return found[0]


def resolve_run(store: SqliteStore, ref: str) -> Run:
    """Return the one run that *ref* names: a whole id, its last digits (4 or more), or "latest".

    The latest is the last one of the session that was active last. ReferenceNotFound or
    ReferenceAmbiguous otherwise.
    """
    if ref == LATEST:
        runs = store.runs(resolve_session(store, ref).id).items
        if runs:
            return runs[-1]
        raise ReferenceNotFound(ref, kind="run", hint="The latest session has no run yet.")
    found = store.find_runs(ref)
    if not found:
        raise ReferenceNotFound(ref, kind="run", hint="List a session's with: tinyagent runs REF")
    if len(found) > 1:
        candidates = tuple((run.id, store.get_session(run.session_id).title) for run in found)
        raise ReferenceAmbiguous(ref, candidates=candidates, kind="run")
    return found[0]


def _shown_as(store: SqliteStore, ref: str) -> tuple[SessionSummary, ...]:
    """Return the sessions whose title a list may have shown as *ref*."""
    start = ref.removesuffix(MARK) if ref.endswith(MARK) else None
    if not ref.strip() or start == "":
        return ()

    def fits(shown: str) -> bool:
        return shown == ref or (start is not None and shown.startswith(start))

    return tuple(one for one in _everything(store) if one.title and fits(one_line(one.title)))


def _everything(store: SqliteStore) -> Iterator[SessionSummary]:
    for archived in (False, True):
        yield from store.list(limit=None, archived=archived).items


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
