"""Archives: sessions as lines that lose nothing and come back equal.

A header, then for each session its line, its runs, its tool executions, its messages of every kind
in order, and an end with counts, the SHA-256 of these lines and whether the session is complete.
Invariants: the lines of a session depend on that session alone; an archive that was cut off
anywhere shows it; one of a damaged session says so, and is refused by no import for it.

Source: `docs/formats.md`, "Archive".
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from sessions_api.transfer.archive_lines import (
    execution_line,
    line_of,
    message_line,
    run_line,
    session_line,
)
from sessions_api.transfer.archive_links import Links
from state_store import to_text, utc_now

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sessions_api.transfer.moment import Moment
    from state_store import Clock

FORMAT = "tinyagent-archive"
VERSION = 1


def archive_lines(
    moments: Iterable[Moment],
    *,
    count: int,
    is_redacted: bool = False,
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
            "redacted": is_redacted,
        }
    )
    for moment in moments:
        yield from _ended(moment)


def digest_of(moment: Moment) -> str:
    """Return the SHA-256 that the session's end would have, as hexadecimal digits."""
    digest = hashlib.sha256()
    for line in _lines(moment, Links()):
        digest.update(line)
    return digest.hexdigest()


def _ended(moment: Moment) -> Iterator[bytes]:
    links = Links()
    digest = hashlib.sha256()
    for line in _lines(moment, links):
        digest.update(line)
        yield line
    yield line_of(
        {
            "type": "end",
            "session_id": moment.session.id,
            "run_count": links.run_count,
            "tool_execution_count": links.execution_count,
            "message_count": links.message_count,
            "complete": links.loss is None,
            "sha256": digest.hexdigest(),
        }
    )


def _lines(moment: Moment, links: Links) -> Iterator[bytes]:
    """Yield the lines of a session without its end, and tell *links* what they are of."""
    yield session_line(moment.session)
    for run in moment.runs:
        links.run(run)
        yield run_line(run)
    for execution in moment.executions:
        links.execution(execution)
        yield execution_line(execution)
    for message in moment.messages():
        links.message(message)
        yield message_line(message)
    links.close()
