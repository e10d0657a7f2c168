from __future__ import annotations

import itertools
import os
import shutil
import uuid
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

import apsw
import pytest

from state_store import (
    NewSession,
    SqliteStore,
    StateStoreError,
    StoreDamaged,
    StoreFull,
    StoreUnavailable,
)
from state_store.sqlite.beside import at_rest
from state_store.testing import SteppingClock
from state_store.testing.disk import FAULTS, FailingDisk, Fault
from state_store.testing.turns import USAGE, assistant, calling, result, turn, user

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    OpenDisk = Callable[..., SqliteStore]

# Every operation in turn: STATE_STORE_LONG=1. Without it one of 17 reads and writes.
LONG = os.environ.get("STATE_STORE_LONG") == "1"
STEP_COUNT = 12


class Steps:
    """The steps of a short conversation, each one call that writes, done in order.

    Ids and times are the same whenever it is done, so that a step can be done again.
    """

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        numbers = itertools.count(1)
        self.kept, self.gone, self.first, self.second, self.third = (
            str(uuid.UUID(int=next(numbers))) for _ in range(5)
        )

    def all(self) -> list[Callable[[], object]]:
        """Return them."""
        store = self.store
        return [
            lambda: store.create_session(NewSession(title="kept"), session_id=self.kept),
            lambda: store.begin_run(self.kept, user("question " * 900), run_id=self.first),
            lambda: store.start_tools(self.first, calling("a", "b"), ["safe", "unsafe"]),
            lambda: self.finish(1),
            lambda: self.finish(0),
            lambda: store.complete_run(self.first, assistant(), usage=USAGE),
            lambda: store.create_session(session_id=self.gone),
            lambda: store.begin_run(self.gone, user("will fail"), run_id=self.second),
            lambda: store.fail_run(self.second, "provider.error", usage=USAGE),
            lambda: store.delete(self.gone),
            lambda: store.begin_run(self.kept, user("again"), run_id=self.third),
            lambda: store.complete_run(self.third, assistant(), usage=USAGE),
        ]

    def finish(self, index: int) -> None:
        """Finish a tool of the first run."""
        self.store.finish_tool(
            self.first,
            call_seq=2,
            call_index=index,
            outcome="ok",
            message=result("ab"[index], "seen " * 900),
        )


def rows_of(connection: apsw.Connection) -> dict[str, list[tuple[object, ...]]]:
    """Return all rows of all tables, without who owns a run."""
    tables = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN"
        " ('store', 'schema_version') ORDER BY name"
    ).fetchall()
    names = [str(name) for (name,) in tables]
    found: dict[str, list[tuple[object, ...]]] = {
        name: connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall()  # noqa: S608 - a table's name
        for name in names
    }
    owner = 7
    found["runs"] = [(*row[:owner], *row[owner + 1 :]) for row in found["runs"]]
    return found


def rows_on_disk(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows as another program finds them, after checking that all is whole."""
    with closing(apsw.Connection(str(path))) as connection:
        assert connection.pragma("integrity_check") == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        return rows_of(connection)


def open_one(path: Path, workspace_id: str) -> SqliteStore:
    """Open the store at a time that stands still."""
    clock = SteppingClock(step=timedelta(0))
    return SqliteStore.open(path, workspace_id=workspace_id, clock=clock, busy_timeout_ms=50)


@pytest.fixture
def right(tmp_path: Path, workspace_id: str) -> list[dict[str, list[tuple[object, ...]]]]:
    """Return the rows after 0, 1, 2 … steps on a disk that is whole."""
    path = tmp_path / "right" / "state.sqlite3"
    with open_one(path, workspace_id) as store:
        connection = store._database._connection
        found = [rows_of(connection)]
        for step in Steps(store).all():
            step()
            found.append(rows_of(connection))
    assert len(found) == STEP_COUNT + 1
    return found


def require_honest(error: StateStoreError, fault: Fault) -> None:
    """Check that an error says no more than what happened."""
    assert isinstance(error, StoreUnavailable), repr(error)
    assert not isinstance(error, StoreDamaged)
    if fault.code == apsw.SQLITE_FULL:
        assert isinstance(error, StoreFull)
    assert error.hint


@pytest.mark.parametrize("name", FAULTS)
def test_an_error_at_any_operation_loses_nothing_and_is_over_when_it_is_over(
    tmp_path: Path,
    path: Path,
    workspace_id: str,
    right: list[dict[str, list[tuple[object, ...]]]],
    name: str,
) -> None:
    """Every operation fails in turn, in opening, in each step and in closing, until none did.

    The caller is told a typed error that is no damage; what was acknowledged is there and nothing
    of the step that failed; no transaction stays open; the same store goes on when the fault is
    gone.
    """
    fault = FAULTS[name]
    fired = 0
    stride = 17 if fault.kinds & {"read", "write"} and not LONG else 1
    for at in itertools.count(0, stride):
        shutil.rmtree(path.parent, ignore_errors=True)
        with FailingDisk(tmp_path, fault, at=at) as disk:
            try:
                store = open_one(path, workspace_id)
            except StateStoreError as error:
                require_honest(error, fault)
                require_nothing_half_made(path)
                disk.heal()
                store = open_one(path, workspace_id)
            done = 0
            steps = Steps(store).all()
            while done < len(steps):
                try:
                    steps[done]()
                except StateStoreError as error:
                    require_honest(error, fault)
                    assert not store._database._connection.in_transaction
                    disk.heal()
                    found = rows_of(store._database._connection)
                    assert found == right[done], (at, done, "a step that raised has written")
                else:
                    done += 1
            try:
                store.close()
            except StateStoreError as error:
                require_honest(error, fault)
        assert rows_on_disk(path) == right[-1], at
        with open_one(path, workspace_id) as store:
            turn(store, store.create_session().id)
        fired += len(disk.fired)
        if not disk.fired:
            break
    print(f"{name}: {at} operations, {fired} errors")  # noqa: T201 - for `pytest -s`
    assert fired, "nothing failed: the test tests nothing"


def require_nothing_half_made(path: Path) -> None:
    """Check that an opening that failed left a whole database or none, and nothing beside it."""
    if not path.parent.exists():
        return
    left = {one.name for one in path.parent.iterdir()}
    assert left <= {*at_rest(path), "owners", f"{path.name}-wal", f"{path.name}-shm"}
    if path.exists():
        rows_on_disk(path)
    if (owners := path.parent / "owners").exists():
        assert list(owners.iterdir()) == []
