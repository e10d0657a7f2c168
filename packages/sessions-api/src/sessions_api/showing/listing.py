"""Sessions and runs as tables of plain text.

Invariant: a session's handle is its last eight digits, printed whole and first; whatever the
table cuts is never a handle. Cut only where there is a width to keep: in a pipe nothing is cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions_api.showing import figures
from sessions_api.showing.terminal_text import Ink, columns, cut, one_line, width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state_store import Run, SessionSummary

HANDLE_DIGITS = 8
UNTITLED = "(untitled)"
_TITLE = 1
_NARROWEST_TITLE = 12
_SESSION_HEADER = ("ID", "TITLE", "MESSAGES", "MODEL", "TOKENS", "COST", "LAST ACTIVE", "STATUS")
_RUN_HEADER = ("RUN", "STATUS", "STARTED", "MODEL", "TOKENS", "COST", "ERROR")


def handle(object_id: str) -> str:
    """Return what people type for *object_id*."""
    return object_id[-HANDLE_DIGITS:]


def shown_title(title: str | None) -> str:
    """Return a session's title on one line."""
    return one_line(title or "") or UNTITLED


def session_lines(
    sessions: Sequence[SessionSummary], *, ink: Ink, columns_wide: int | None
) -> list[str]:
    """Return a header and a line for each session, at most *columns_wide* where that can be."""
    rows = [_SESSION_HEADER, *map(_session_row, sessions)]
    if columns_wide is not None:
        others = max(
            width("  ".join(cell for n, cell in enumerate(row) if n != _TITLE))
            for row in _widest(rows)
        )
        room = max(_NARROWEST_TITLE, columns_wide - others - 2)
        rows = [(*row[:_TITLE], cut(row[_TITLE], room), *row[_TITLE + 1 :]) for row in rows]
    header, *lines = columns(rows, right=frozenset({2, 4, 5}))
    return [ink.bold(header), *lines]


def _widest(rows: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    return [tuple(max(column, key=width) for column in zip(*rows, strict=True))]


def _session_row(session: SessionSummary) -> tuple[str, ...]:
    return (
        handle(session.id),
        shown_title(session.title),
        str(session.message_count),
        one_line(session.model_id or figures.UNKNOWN),
        figures.tokens(session.total_tokens or None),
        figures.cost(session.cost),
        figures.ago(session.updated_at),
        session.status,
    )


def run_lines(runs: Sequence[Run], *, ink: Ink) -> list[str]:
    """Return a header and a line for each run."""
    header, *lines = columns([_RUN_HEADER, *map(_run_row, runs)], right=frozenset({4, 5}))
    return [ink.bold(header), *lines]


def _run_row(run: Run) -> tuple[str, ...]:
    return (
        handle(run.id),
        run.status + (" (undone)" if run.undone_at else ""),
        figures.at(run.started_at),
        one_line(run.model or figures.UNKNOWN),
        figures.tokens(run.usage.total_tokens),
        figures.cost(run.cost),
        run.error_type or "",
    )
