from __future__ import annotations

import asyncio
import tracemalloc
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from full_sessions import sessions_in
from sessions_api import AsyncSessions
from state_store import NewMessage, OwnedThread, SessionState, new_id

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sessions_api import Sessions

MESSAGE_BYTES = 40_000
SMALL, LARGE = 5_000_000, 40_000_000
BOUND = 12_000_000  # of which a page of these messages is a fifth


def large_session(sessions: Sessions, byte_count: int) -> str:
    """Store a session of so many bytes; return its id."""
    session_id = new_id()
    text = "x" * MESSAGE_BYTES
    messages = tuple(
        NewMessage(role="user", content=text) for _ in range(byte_count // MESSAGE_BYTES)
    )
    sessions.save(SessionState(id=session_id, messages=messages), timedelta())
    return session_id


def peak_of(work: Callable[[], Any]) -> int:
    """Return the most memory that *work* held at once, in bytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("byte_count", [SMALL, LARGE])
def test_an_export_takes_the_same_memory_whatever_its_size(tmp_path: Path, byte_count: int) -> None:
    """In every format, masked or not, and in both faces; an import too, from a file or a pipe."""
    with sessions_in(tmp_path) as sessions:
        session_id = large_session(sessions, byte_count)
        archive = tmp_path / "archive"

        def write() -> None:
            with archive.open("wb") as file:
                file.writelines(sessions.export(session_id, "archive"))

        def read(form: Any, *, redact: bool) -> None:
            total = sum(map(len, sessions.export(session_id, form, redact=redact)))
            assert total > byte_count // 2

        def wait() -> None:
            async def main() -> None:
                thread = OwnedThread("reader")
                face = AsyncSessions(sessions, thread)
                async for _ in face.export(session_id, "archive"):
                    pass
                thread.close()

            asyncio.run(main())

        peaks = {"archive": peak_of(write), "async": peak_of(wait)}
        for form in ("jsonl", "markdown", "html"):
            peaks[form] = peak_of(partial(read, form, redact=False))
        if byte_count == SMALL:
            peaks["masked"] = peak_of(lambda: read("archive", redact=True))
        assert archive.stat().st_size > byte_count
        with sessions_in(tmp_path / "other") as other:
            peaks["import"] = peak_of(lambda: other.import_(archive))
            with archive.open("rb") as file:
                peaks["again"] = peak_of(lambda: other.import_(file))
    assert max(peaks.values()) < BOUND, peaks
