"""Sessions of all workspaces that a state home knows, each read from its own store.

Invariant: a workspace whose database cannot be read hides no other; what is wrong with it is
reported beside the sessions. Nothing is created, and an older database is upgraded as by any
reading. There are no pages across stores: a cursor belongs to one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessions_api.sessions import Sessions
from sessions_api.showing.liveness import shown_session
from sessions_api.state import WorkspaceState
from state_store import SqliteStore, StateStoreError, StoreMissing
from workspace_identity import list_workspaces

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from pathlib import Path

    from state_store import SessionSummary
    from workspace_identity import WorkspaceRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A session and the workspace that it is in; `path` is where that was last seen, if known."""

    session: SessionSummary
    workspace_id: str
    path: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Everywhere:
    """The sessions, newest activity first, and one line for each workspace that cannot be read."""

    sessions: tuple[Placed, ...]
    problems: tuple[str, ...]


def list_everywhere(
    *,
    limit: int | None = None,
    archived: bool = False,
    running: bool = False,
    state_home: str | os.PathLike[str] | None = None,
) -> Everywhere:
    """Return the newest sessions of all workspaces, at most *limit*; None means all.

    With *running* those alone whose run is under way in a living process.
    """
    found: list[Placed] = []
    problems: list[str] = []
    for record in list_workspaces(state_home=state_home):
        try:
            found += _listed(record, limit=limit, archived=archived, running=running)
        except StoreMissing:  # it was opened and never used
            continue
        except (StateStoreError, OSError) as error:
            problems.append(f"{record.path or record.id}: {error}")
    found.sort(key=lambda one: (one.session.updated_at, one.session.id), reverse=True)
    return Everywhere(sessions=tuple(found[:limit]), problems=tuple(problems))


def running_of(sessions: Sessions, *, archived: bool = False) -> Iterator[SessionSummary]:
    """Yield the sessions with a run under way in a living process, newest activity first."""
    for one in sessions.list(None, archived=archived).items:
        if one.status == "running" and shown_session(one, sessions).status == "running":
            yield one


def _listed(
    record: WorkspaceRecord, *, limit: int | None, archived: bool, running: bool
) -> list[Placed]:
    store = SqliteStore.open(
        record.paths.database,
        workspace_id=record.id,
        writing=False,
        owners_dir=record.paths.owners,
    )
    with store:
        state = WorkspaceState(
            root=record.path or record.paths.state_dir,
            workspace_id=record.id,
            paths=record.paths,
            store=store,
            story=None,
            saving=False,
        )
        sessions = Sessions(state)
        listed = (
            running_of(sessions, archived=archived)
            if running
            else sessions.list(limit, archived=archived).items
        )
        return [
            Placed(session=shown_session(one, sessions), workspace_id=record.id, path=record.path)
            for one in listed
        ]
