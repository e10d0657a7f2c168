from __future__ import annotations

import itertools
import os
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import apsw
import pytest

from state_store import NewSession, SqliteStore, StoreFull, new_id
from state_store.sqlite.beside import at_rest
from state_store.testing.turns import USAGE, assistant, calling, contents, result, turn, user

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Resize = Callable[[int], None]
    RunPython = Callable[..., str]

KIB = 1024
# In KiB; more of them: STATE_STORE_LONG=1.
SIZES = (288, 300, 512, 777, 1024, 2048, 4096)
LONG_SIZES = range(288, 4097, 32)
CREATION_SIZES = range(4, 260, 12)
LONG = os.environ.get("STATE_STORE_LONG") == "1"


def rows_on_disk(path: Path) -> list[str | None]:
    """Return what the messages say as another program finds them, after a check of the whole."""
    with closing(apsw.Connection(str(path))) as connection:
        assert connection.pragma("integrity_check") == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        return [row[0] for row in connection.execute("SELECT content FROM messages ORDER BY seq")]


def fill(store: SqliteStore, session_id: str, acknowledged: list[str | None]) -> StoreFull:
    """Do turns with a tool until a step is refused, and return what it was refused with."""
    for number in itertools.count():
        run_id, size = new_id(), 500 * (number % 8)
        question = user(f"question {number} " + "x" * size)
        seen, answer = result("a", f"seen {number}"), assistant(f"answer {number}")
        try:
            store.begin_run(session_id, question, run_id=run_id)
            acknowledged.append(question.content)
            asked = store.start_tools(run_id, calling("a"), ["safe"])
            acknowledged.append(None)
            store.finish_tool(run_id, call_seq=asked.seq, call_index=0, outcome="ok", message=seen)
            acknowledged.append(seen.content)
            store.complete_run(run_id, answer, usage=USAGE)
            acknowledged.append(answer.content)
        except StoreFull as error:
            return error
    raise AssertionError


@pytest.mark.parametrize("size_kib", LONG_SIZES if LONG else SIZES)
def test_a_full_disk_is_said_at_the_first_save_and_over_when_space_is_there(
    disk: Path, resize: Resize, workspace_id: str, size_kib: int
) -> None:
    """What was acknowledged stays, in this process and on the disk; saving goes on (C13)."""
    resize(size_kib + 256)
    (disk / "ballast").write_bytes(b"\0" * 256 * KIB)
    path = disk / "state.sqlite3"
    with SqliteStore.open(path, workspace_id=workspace_id) as store:
        session_id = store.create_session().id
        acknowledged: list[str | None] = []
        full = fill(store, session_id, acknowledged)
        assert (full.path, "Free space" in str(full.hint)) == (str(path), True)
        for _ in range(3):
            assert contents(store, session_id) == acknowledged
            assert not store._database._connection.in_transaction
            with pytest.raises(StoreFull):
                store.create_session(NewSession(system_prompt="x" * 100_000))

        (disk / "ballast").unlink()
        run = store.runs(session_id).items[-1]
        if run.status == "pending":
            store.fail_run(run.id, "store.full", usage=USAGE)
        turn(store, session_id, "space again")
        assert contents(store, session_id) == [*acknowledged, "space again", "answer"]
    assert rows_on_disk(path) == [*acknowledged, "space again", "answer"]


def test_a_disk_that_is_full_at_the_end_of_a_process_leaves_an_interrupted_run(
    disk: Path, resize: Resize, workspace_id: str
) -> None:
    """Not even the failure can be recorded; the next opener with space does that (C13)."""
    resize(512)
    path = disk / "state.sqlite3"
    acknowledged: list[str | None] = []
    with SqliteStore.open(path, workspace_id=workspace_id) as store:
        session_id = store.create_session().id
        while len(acknowledged) % 4 == 0:  # until it is full in the middle of a run
            fill(store, session_id, acknowledged)
            with suppress(StoreFull):
                store.create_session(NewSession(system_prompt="x" * 4000))
    resize(4096)
    with SqliteStore.open(path, workspace_id=workspace_id) as store:
        assert [run.error_type for run in store.recovered] == ["interrupted"]
        assert contents(store, session_id) == acknowledged


@pytest.mark.parametrize("size_kib", CREATION_SIZES)
def test_a_disk_that_is_full_at_the_first_opening_has_nothing_half_made_on_it(
    disk: Path, resize: Resize, workspace_id: str, size_kib: int
) -> None:
    """A whole database or none; no part of one, and no empty file."""
    resize(size_kib)
    path = disk / "workspace" / "state.sqlite3"
    try:
        store = SqliteStore.open(path, workspace_id=workspace_id)
    except StoreFull:
        left = {one.name for one in path.parent.iterdir()} if path.parent.exists() else set()
        assert left <= {*at_rest(path), f"{path.name}-wal", "owners"}
        assert not path.exists() or rows_on_disk(path) == []
        resize(4096)
        store = SqliteStore.open(path, workspace_id=workspace_id)
    else:
        assert size_kib > 200, "the disk was never full: the test tests nothing"
        resize(4096)
    with store:
        turn(store, store.create_session().id)
