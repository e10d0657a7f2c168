"""What may stand for a session, a run or a workspace, from the store; for Typer's completion.

Invariant: the store is opened for reading, and only when that upgrades and finishes nothing; what
is offered is what `references` accepts, and just one fits it. Errors are the caller's business.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import typer  # noqa: TC002 - Typer looks at the annotations of these functions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from state_store import SessionSummary, SqliteStore

Offer = list[tuple[str, str]]  # a value and what is said of it

# As many as can be looked at; what is older is found by its digits, which a list shows.
_SESSIONS_LIMIT = 500
_SESSIONS_WITH_RUNS_LIMIT = 10
_WHOLE_ID_FROM_DIGITS = 9
_PATIENCE_MS = 100


def complete_sessions(ctx: typer.Context, incomplete: str) -> Offer:
    """Return "latest", the last digits and the titles that begin with what was typed."""
    store = _store(ctx)
    if store is None:
        return []
    with store:
        return list(_names(store, incomplete))


def complete_runs(ctx: typer.Context, incomplete: str) -> Offer:
    """Return the last digits of the runs of the sessions that were active last."""
    store = _store(ctx)
    if store is None:
        return []
    from sessions_api.showing.listing import handle, shown_title  # noqa: PLC0415 - not for --help

    with store:
        return [
            (handle(run.id), f"{run.status}: {shown_title(session.title)}")
            for session in store.list(limit=_SESSIONS_WITH_RUNS_LIMIT).items
            for run in reversed(store.runs(session.id).items)
            if handle(run.id).startswith(incomplete)
        ]


def complete_workspaces(incomplete: str) -> Offer:
    """Return the ids of the workspaces that the state home knows, with their directories."""
    from workspace_identity import list_workspaces  # noqa: PLC0415 - not for --help

    return [
        (one.id, str(one.path or one.problem or ""))
        for one in list_workspaces()
        if one.id.startswith(incomplete)
    ]


def _names(store: SqliteStore, incomplete: str) -> Iterator[tuple[str, str]]:
    from sessions_api.references import LATEST  # noqa: PLC0415 - not for --help
    from sessions_api.showing.listing import handle, shown_title  # noqa: PLC0415 - the same
    from sessions_api.showing.terminal_text import one_line  # noqa: PLC0415 - the same

    sessions = list(_sessions(store))
    titles = Counter(one_line(one.title or "") for one in sessions)
    if sessions and LATEST.startswith(incomplete):
        yield LATEST, shown_title(sessions[0].title)
    for one in sessions:
        if handle(one.id).startswith(incomplete):
            yield handle(one.id), shown_title(one.title)
        elif len(incomplete) >= _WHOLE_ID_FROM_DIGITS and one.id.startswith(incomplete):
            yield one.id, shown_title(one.title)
    for one in sessions:
        title = one_line(one.title or "")
        if title.startswith(incomplete) and titles[title] == 1 and _can_be_typed(title, LATEST):
            yield title, handle(one.id)


def _can_be_typed(title: str, latest: str) -> bool:
    """Say whether a title names its session where a reference is wanted."""
    return bool(title) and title != latest and not title.startswith("-")


def _sessions(store: SqliteStore) -> Iterator[SessionSummary]:
    for archived in (False, True):
        yield from store.list(limit=_SESSIONS_LIMIT, archived=archived).items


def _store(ctx: typer.Context) -> SqliteStore | None:
    """Return the store of the workspace that the line names, if it can be read as it is."""
    from state_store import Maintenance, SqliteStore  # noqa: PLC0415 - not for --help
    from workspace_identity import inspect_workspace  # noqa: PLC0415 - the same

    found = inspect_workspace(_workspace(ctx))
    if found.id is None or found.paths is None or not found.paths.database.exists():
        return None
    path, workspace_id = found.paths.database, found.id
    outside = Maintenance(path, workspace_id=workspace_id, busy_timeout_ms=_PATIENCE_MS)
    if outside.plan() is not None:
        return None
    return SqliteStore.open(
        path, workspace_id=workspace_id, writing=False, busy_timeout_ms=_PATIENCE_MS
    )


def _workspace(ctx: typer.Context) -> str:
    """Return the `--workspace` of the nearest command on the line that has one."""
    at: typer.Context | None = ctx
    while at is not None:
        if isinstance(named := at.params.get("workspace"), str) and named != ".":
            return named
        at = at.parent  # type: ignore[assignment]  # Typer types it as its base class
    return "."
