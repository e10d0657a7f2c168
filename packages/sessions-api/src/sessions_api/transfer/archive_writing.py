"""Archives: sessions as lines that lose nothing and come back equal.

A header, then for each session its line, its runs, its tool executions, its messages of every kind
in order, and an end with counts and the SHA-256 of these lines. Invariants: the lines of a session
depend on that session alone; an archive that was cut off anywhere shows it.

Source: `docs/formats.md`, "Archive".
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from sessions_api.transfer.archive_lines import (
    execution_line,
    line_of,
    message_line,
    run_line,
    session_line,
)
from state_store import to_text, utc_now

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sessions_api.transfer.masking import Masking
    from sessions_api.transfer.moment import Moment
    from state_store import Clock

FORMAT = "tinyagent-archive"
VERSION = 1


def archive_lines(
    moments: Iterable[Moment],
    *,
    count: int,
    masking: Masking | None = None,
    clock: Clock = utc_now,
) -> Iterator[bytes]:
    """Yield an archive of so many sessions, in the order given."""
    from sessions_api import __version__  # noqa: PLC0415 - it is defined after this is imported

    yield line_of(
        {
            "type": "header",
            "format": FORMAT,
            "version": VERSION,
            "created_at": to_text(clock()),
            "created_by": f"sessions-api {__version__}",
            "session_count": count,
            "redacted": masking is not None,
        }
    )
    for moment in moments:
        yield from _ended(moment.snapshot.session.id, session_lines(moment, masking))


def session_lines(moment: Moment, masking: Masking | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield type and line of everything about a session, without its end."""
    snapshot = moment.snapshot
    session, messages = snapshot.session, moment.messages()
    runs: Iterable[Any] = snapshot.runs
    executions: Iterable[Any] = snapshot.executions
    if masking is not None:
        masking = masking.knowing(moment)
        session = masking.session(session)
        runs = map(masking.run, runs)
        executions = map(masking.execution, executions)
        messages = map(masking.message, messages)
    yield "session", session_line(session)
    for run in runs:
        yield "run", run_line(run)
    for execution in executions:
        yield "tool_execution", execution_line(execution)
    for message in messages:
        yield "message", message_line(message)


def digest_of(moment: Moment) -> str:
    """Return the SHA-256 that the session's end would have, as hexadecimal digits."""
    digest = hashlib.sha256()
    for _, line in session_lines(moment):
        digest.update(line)
    return digest.hexdigest()


def _ended(session_id: str, lines: Iterable[tuple[str, bytes]]) -> Iterator[bytes]:
    digest = hashlib.sha256()
    counts = {"session": 0, "run": 0, "tool_execution": 0, "message": 0}
    for kind, line in lines:
        counts[kind] += 1
        digest.update(line)
        yield line
    yield line_of(
        {
            "type": "end",
            "session_id": session_id,
            "run_count": counts["run"],
            "tool_execution_count": counts["tool_execution"],
            "message_count": counts["message"],
            "sha256": digest.hexdigest(),
        }
    )
