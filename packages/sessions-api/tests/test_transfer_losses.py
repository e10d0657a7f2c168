from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from full_sessions import WORKSPACE_ID, filled, sessions_in
from sessions_api import ImportInvalid
from state_store import Maintenance, StoreDamaged
from state_store.testing.damage import change
from test_transfer_archive import archive_of, everything, lines_of, resealed, without_header

if TYPE_CHECKING:
    from pathlib import Path

    from sessions_api.transfer.exporting import ExportFormat

FORMS: tuple[ExportFormat, ...] = ("jsonl", "markdown", "html")
# Of a full session: its first messages, the input of a run, its calls, a result, its answer, the
# input of a run that has no more, and all that a run is known by.
LOST = {
    "the first messages": "DELETE FROM messages WHERE seq < 3",
    "an input": "DELETE FROM messages WHERE seq = 7",
    "calls": "DELETE FROM messages WHERE seq = 8",
    "a result": "DELETE FROM messages WHERE seq = 9",
    "an answer": "DELETE FROM messages WHERE seq = 11",
    "all of a run": "DELETE FROM messages WHERE seq = 12",
    "executions": "DELETE FROM tool_executions WHERE call_index < 2",
}
ALL_OF_IT = {
    "messages": "DELETE FROM messages",
    "runs": "DELETE FROM runs WHERE first_seq = 7",
    "the session": "DELETE FROM sessions",
}


def damaged(path: Path, statement: str) -> str:
    """Make a full session at *path* and take something from it; return its id."""
    path.mkdir()
    with sessions_in(path) as sessions:
        session_id = filled(sessions._store)
    change(path / "state.sqlite3", statement)
    return session_id


@pytest.mark.parametrize(
    "statement", [*LOST.values(), *ALL_OF_IT.values()], ids=[*LOST, *ALL_OF_IT]
)
def test_what_was_recovered_is_exported_and_comes_back_equal(
    tmp_path: Path, statement: str
) -> None:
    """A recovery leaves gaps, and nobody may lose the rest to them once more."""
    damaged(tmp_path / "old", statement)
    (tmp_path / "new").mkdir()
    Maintenance(tmp_path / "old" / "state.sqlite3", workspace_id=WORKSPACE_ID).salvage(
        tmp_path / "new" / "state.sqlite3"
    )
    with sessions_in(tmp_path / "new") as first, sessions_in() as second, sessions_in() as third:
        archive = archive_of(first)
        (imported,) = second.import_(archive)
        assert everything(second._store) == everything(first._store)
        assert second.import_(archive).outcomes[0].outcome == "already_there"
        two = archive_of(second)
        assert without_header(two) == without_header(archive)
        (renamed,) = third.import_(resealed_with_title(two))
        found = [*second._store.check_session(imported.id)]
        found += third._store.check_session(renamed.id)
        assert [one for one in found if one.severity == "error"] == []
        for form in FORMS:
            assert list(first.export(imported.id, form)) == list(second.export(imported.id, form))


def resealed_with_title(archive: bytes) -> bytes:
    """Return an archive of one session with another title, and so with another digest."""
    lines = archive.splitlines(keepends=True)
    lines[1] = json.dumps(json.loads(lines[1]) | {"title": "other"}).encode() + b"\n"
    return resealed(lines)


@pytest.mark.parametrize("statement", LOST.values(), ids=LOST)
def test_a_damaged_session_is_exported_as_one(tmp_path: Path, statement: str) -> None:
    """Without a recovery too: the archive says that it lacks something, and is taken as that."""
    damaged(tmp_path / "old", statement)
    with sessions_in(tmp_path / "old") as first, sessions_in() as second:
        archive = archive_of(first)
        is_complete = lines_of(archive)[-1]["complete"]
        assert is_complete == (statement == LOST["executions"])  # which imports may lack
        (imported,) = second.import_(archive)
        assert imported.metadata.get("salvaged", False) is not is_complete
        for name in ("run_count", "tool_execution_count", "message_count"):
            assert lines_of(archive_of(second))[-1][name] == lines_of(archive)[-1][name]


def test_nobody_is_told_that_a_session_is_complete_when_it_is_not(tmp_path: Path) -> None:
    """Whoever wrote the line: the first that cannot be is named."""
    damaged(tmp_path / "old", LOST["calls"])
    with sessions_in(tmp_path / "old") as first, sessions_in() as second:
        archive = archive_of(first).replace(b'"complete":false', b'"complete":true')
        with pytest.raises(ImportInvalid, match="line 15: messages before it are missing"):
            second.import_(archive)


def test_what_no_store_could_take_is_not_written(tmp_path: Path) -> None:
    """A message of a run that is not there: the export fails, and what people read is there."""
    session_id = damaged(tmp_path / "old", ALL_OF_IT["runs"])
    with sessions_in(tmp_path / "old") as sessions:
        with pytest.raises(StoreDamaged, match="names no run"):
            archive_of(sessions)
        for form in FORMS:
            assert b"content" in b"".join(sessions.export(session_id, form))
