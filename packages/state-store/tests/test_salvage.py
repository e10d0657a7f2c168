from __future__ import annotations

import os
import random
import re
import shutil
import struct
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from state_store import (
    NewSession,
    SessionState,
    SqliteStore,
    Usage,
    new_id,
    to_text,
)
from state_store.sqlite.checking import check
from state_store.sqlite.place import Place
from state_store.sqlite.runs import NOBODY
from state_store.sqlite.salvage import salvage
from state_store.sqlite.salvaged import is_marked
from state_store.testing.clocks import SteppingClock
from state_store.testing.damage import (
    PAGE_SIZE,
    cut,
    destroyed_schema,
    exchanged_pages,
    flipped_bytes,
    misdirected_page,
    zeroed_header,
    zeroed_pages,
)
from state_store.testing.turns import assistant, begin, calling, complete, result, turn, user

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from state_store.findings import SalvageReport
    from state_store.testing.damage import Damage

    Row = dict[str, Any]
    Rows = dict[str, dict[Any, Row]]

# More damage: STATE_STORE_LONG=1. The same again: STATE_STORE_SEED=… as printed.
LONG = os.environ.get("STATE_STORE_LONG") == "1"
SEED = int(os.environ.get("STATE_STORE_SEED", random.SystemRandom().getrandbits(32)))
DAMAGE_COUNT = 300 if LONG else 6
WORKSPACE_ID = "11111111-2222-4333-8444-555555555555"
NOW = datetime(2027, 1, 1, tzinfo=UTC)
FRAME_SIZE = 24 + PAGE_SIZE
KEYS = {
    "tombstones": ("session_id",),
    "sessions": ("id",),
    "runs": ("id",),
    "messages": ("id",),
    "tool_executions": ("session_id", "call_seq", "call_index"),
}
UUID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Original:
    """A database and its log as they were before any damage, and what they hold.

    `sessions_on` names, for each page of a table, the sessions that have a row which needs it;
    `in_log` are the pages whose newest image is in the log.
    """

    path: Path
    rows: Rows
    sessions_on: dict[int, set[str]]
    tombstone_pages: set[int]
    inner_pages: list[int]
    in_log: set[int]

    def copy_to(self, directory: Path) -> Path:
        """Return a copy of both files, in a directory that is new or is emptied."""
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        for file in self.path.parent.iterdir():
            shutil.copy(file, directory)
        return directory / self.path.name


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    """Return a database with all that is awkward, some of it in the log alone."""
    live = tmp_path_factory.mktemp("live") / "state.sqlite3"
    kept = tmp_path_factory.mktemp("kept") / "state.sqlite3"
    clock = SteppingClock(step=timedelta(milliseconds=7))
    with SqliteStore.open(live, workspace_id=WORKSPACE_ID, clock=clock) as store:
        fill(store)
    with SqliteStore.open(live, workspace_id=WORKSPACE_ID, clock=clock) as store:
        add_to_log(store)
        # Nobody else has it open, and this process writes no more to it.
        shutil.copy(live, kept)
        shutil.copy(f"{live}-wal", f"{kept}-wal")
    in_log = set(log_frames(kept.with_name(f"{kept.name}-wal").read_bytes()))
    single = tmp_path_factory.mktemp("single") / "state.sqlite3"
    shutil.copy(kept, single)
    shutil.copy(f"{kept}-wal", f"{single}-wal")
    with closing(apsw.Connection(str(single))) as connection:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        rows = rows_of(connection)
        pages: list[Any] = connection.execute(
            "SELECT name, path, pageno, pagetype FROM dbstat ORDER BY path"
        ).fetchall()
    content = single.read_bytes()
    leaves = {(name, path): number for name, path, number, _ in pages}
    sessions_on = {}
    for name, path, number, _ in pages:
        if name in KEYS and name != "tombstones":
            owner = leaves[name, path[: path.rindex("/") + 1]] if "+" in path else number
            image = content[(owner - 1) * PAGE_SIZE : owner * PAGE_SIZE]
            sessions_on[number] = {one.decode() for one in UUID.findall(image)} & set(
                rows["sessions"]
            )
    return Original(
        path=kept,
        rows=rows,
        sessions_on=sessions_on,
        tombstone_pages={number for name, _, number, _ in pages if name == "tombstones"},
        inner_pages=[number for _, _, number, kind in pages if kind == "internal" and number > 1],
        in_log=in_log,
    )


def fill(store: SqliteStore) -> None:
    """Make sessions of every kind."""
    for number in range(16):
        settings = NewSession(
            title=(None, "", "\0", "a title")[number % 4],
            metadata={"count": 2**64 - 1, "empty": {}} if number % 3 else None,
            system_prompt="p" * (2500 + number) * (number % 4) or None,
        )
        session_id = store.create_session(settings).id
        for round_number in range(number % 5 + 1):
            turn(store, session_id, f"{number} {round_number} \0ü" + "x" * 431 * number)
        if number % 2:
            with_tools(store, session_id, open_at_end=False)
        if number % 5 == 1:
            run = begin(store, session_id, "")
            store.fail_run(run.id, "provider.error", usage=Usage(input_tokens=3))
        if number % 7 == 3:
            store.archive_session(session_id, archived=True)
        if number % 4 == 3:
            store.close_session(session_id, spent=timedelta(seconds=number))
        if number in {4, 11}:
            store.delete(session_id)
    for number in range(4):
        said = [user(f"saved {number}"), assistant("y" * (4000 + 301 * number)), user("more")]
        store.save(SessionState(id=new_id(), messages=tuple(said)), timedelta(seconds=3))
    store.create_session(NewSession(title="nothing said"))


def add_to_log(store: SqliteStore) -> None:
    """Change and add a little, after the last checkpoint."""
    sessions = [one.id for one in store.list(limit=None).items]
    store.delete(sessions[7])  # cuts the log
    turn(store, sessions[0], "only in the log" + "z" * 9000)
    turn(store, store.create_session(NewSession(title="new")).id, "only in the log")
    with_tools(store, sessions[3], open_at_end=True)


def with_tools(store: SqliteStore, session_id: str, *, open_at_end: bool) -> None:
    """Run tools whose ids are used again and whose results come in another order."""
    run = begin(store, session_id, "tools")
    for _ in range(2):
        seq = store.start_tools(run.id, calling("a", "", "a"), ["safe", "unsafe", "safe"]).seq
        for index in (2, 0):
            message = result("a", "r" * 700 * index)
            outcome: Any = "ok" if index else "error"
            store.finish_tool(
                run.id, call_seq=seq, call_index=index, outcome=outcome, message=message
            )
        if not open_at_end:
            store.finish_tool(
                run.id, call_seq=seq, call_index=1, outcome="cancelled", message=result("")
            )
    if not open_at_end:
        complete(store, run)


def log_frames(log: bytes) -> Iterator[int]:
    """Yield the page of each frame that belongs to the log."""
    salts = log[16:24]
    for at in range(32, len(log) - FRAME_SIZE + 1, FRAME_SIZE):
        if log[at + 8 : at + 16] != salts:
            return
        yield struct.unpack(">I", log[at : at + 4])[0]


def rows_of(connection: apsw.Connection) -> Rows:
    """Return all rows by table and key, as they are after what a salvage does to pending runs."""
    found: Rows = {}
    for table, keys in KEYS.items():
        names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        rows = [
            dict(zip(names, row, strict=True))
            for row in connection.execute(f"SELECT * FROM {table}")  # noqa: S608 - constants alone
        ]
        keyed = [(tuple(row[key] for key in keys), row) for row in rows]
        found[table] = dict(sorted(keyed, key=itemgetter(0)))
    for run in found["runs"].values():
        if run["status"] == "pending":
            ending = {"error_type": "interrupted", "finished_at": to_text(NOW)}
            run.update(status="failed", **ending)
            found["sessions"][run["session_id"],].update(status="failed", usage_complete=0)
    for execution in found["tool_executions"].values():
        if execution["outcome"] is None:
            execution.update(outcome="unknown", finished_at=to_text(NOW))
    found["sessions"] = {key: row for (key,), row in found["sessions"].items()}
    return found


def saved(path: Path) -> tuple[SalvageReport, Rows]:
    """Salvage *path*, and check what holds whatever the damage; return report and saved rows."""
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    into = path.parent.with_name("into.sqlite3")
    into.unlink(missing_ok=True)
    report = salvage(Place.at(path, workspace_id=WORKSPACE_ID, clock=lambda: NOW), into)
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before
    assert into.stat().st_mode & 0o777 == 0o600
    for table in report.tables:
        assert table.found + table.rebuilt == table.saved + sum(table.refused.values())
    with closing(apsw.Connection(str(into), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        rows = rows_of(connection)
        assert connection.pragma("integrity_check") == "ok"
    findings = check(Place.at(into, workspace_id=WORKSPACE_ID)).findings
    assert [one for one in findings if one.severity == "error"] == []
    for file in into.parent.glob(f"{into.name}-*"):
        file.unlink()
    assert not {key for (key,) in rows["tombstones"]} & set(rows["sessions"])
    assert set(report.incomplete) == {
        key for key, row in rows["sessions"].items() if is_marked(row["metadata"])
    }
    assert report.session_count == len(rows["sessions"])
    return report, rows


def of_session(rows: Rows, session_id: str) -> list[Row]:
    """Return all rows of a session."""
    others = (rows[table].values() for table in ("runs", "messages", "tool_executions"))
    found = [row for table in others for row in table if row["session_id"] == session_id]
    return [rows["sessions"].get(session_id, {}), *found]


def changed_rows(original: Rows, found: Rows) -> Iterator[tuple[str, Row]]:
    """Yield what was saved and was not stored; not what the report says was rebuilt."""
    for table in ("messages", "tool_executions", "tombstones"):
        for key, row in found[table].items():
            if row != original[table].get(key):
                yield table, row
    for key, row in found["runs"].items():
        if row["owner"] != NOBODY and row != original["runs"].get(key):
            yield "runs", row
    counted = ("message_count", "total_tokens", "cost", "usage_complete", "metadata", "status")
    for key, row in found["sessions"].items():
        is_rebuilt = row["metadata"] == '{"salvaged":true}' and row["status"] == "closed"
        before = original["sessions"].get(key, {})
        same = all(row[name] == before.get(name) for name in row if name not in counted)
        if not same and not (is_rebuilt and row["title"] is None and key in original["sessions"]):
            yield "sessions", row


@pytest.mark.parametrize(
    "damage",
    [
        zeroed_header,
        destroyed_schema,
        cut,
        zeroed_pages,
        misdirected_page,
        exchanged_pages,
        flipped_bytes,
    ],
)
def test_what_the_damage_spared_is_saved_whole_and_nothing_else(
    tmp_path: Path, original: Original, damage: Damage
) -> None:
    """Every session whose pages are intact, with content only in the log too; no other rows."""
    for number in range(DAMAGE_COUNT):
        where = f"STATE_STORE_SEED={SEED}, number {number}"
        path = original.copy_to(tmp_path / "damaged")
        content = path.read_bytes()
        damaged = bytearray(content)
        damage(damaged, random.Random(SEED + number))
        path.write_bytes(damaged)
        report, rows = saved(path)
        hit = {
            at // PAGE_SIZE + 1
            for at in range(0, len(content), PAGE_SIZE)
            if damaged[at : at + PAGE_SIZE] != content[at : at + PAGE_SIZE]
        } - original.in_log
        require_spared(original, rows, report, hit=hit, where=where)
        changed = list(changed_rows(original.rows, rows))
        if damage is not flipped_bytes:
            assert changed == [], where
        else:
            allowed = set().union(*(original.sessions_on.get(page, set()) for page in hit))
            strangers = [row for _, row in changed if key_of(row) not in original.rows["sessions"]]
            assert len(strangers) <= 3, where
            assert {key_of(row) for _, row in changed if row not in strangers} <= allowed, where


def require_spared(
    original: Original, rows: Rows, report: SalvageReport, *, hit: set[int], where: str
) -> None:
    """Check that what lies on none of the pages *hit* was saved as it was."""
    touched = set().union(*(original.sessions_on.get(page, set()) for page in hit))
    for session_id in set(original.rows["sessions"]) - touched:
        assert of_session(rows, session_id) == of_session(original.rows, session_id), where
        assert session_id not in report.incomplete, where
    if not hit & original.tombstone_pages:
        assert rows["tombstones"] == original.rows["tombstones"], where
    assert {key for (key,) in original.rows["tombstones"]}.isdisjoint(rows["sessions"]), where


def key_of(row: Row) -> str:
    """Return the session that a row belongs to."""
    return str(row["session_id"] if "session_id" in row else row["id"])


@pytest.mark.parametrize("damage", [cut, flipped_bytes])
def test_of_a_damaged_log_the_commits_before_the_damage_are_saved(
    tmp_path: Path, original: Original, damage: Damage
) -> None:
    """As SQLite itself reads it: up to the last commit whose checksums and salts are right."""
    for number in range(DAMAGE_COUNT):
        where = f"STATE_STORE_SEED={SEED}, number {number}"
        path = original.copy_to(tmp_path / "damaged")
        log = path.with_name(f"{path.name}-wal")
        damaged = bytearray(log.read_bytes())
        damage(damaged, random.Random(SEED + number))
        log.write_bytes(damaged)
        report, rows = saved(path)
        with closing(apsw.Connection(str(path))) as connection:
            expected = rows_of(connection)
        assert list(changed_rows(expected, rows)) == [], where
        for session_id in expected["sessions"]:
            assert of_session(rows, session_id) == of_session(expected, session_id), where
        assert rows["tombstones"] == expected["tombstones"], where
        assert report.incomplete == (), where


def test_an_undamaged_database_is_saved_exactly(tmp_path: Path, original: Original) -> None:
    """Every row of every table as it was, but for what a recovery does to a pending run."""
    report, rows = saved(original.copy_to(tmp_path / "whole"))
    assert rows == original.rows
    assert (report.incomplete, report.damaged_page_count, report.log_damaged) == ((), 0, False)
    assert not any(table.refused or table.rebuilt or table.mended for table in report.tables)


def test_rows_are_found_without_the_pages_that_lead_to_them(
    tmp_path: Path, original: Original
) -> None:
    """The schema and all inner pages are lost; of the messages and the runs nothing is."""
    path = original.copy_to(tmp_path / "damaged")
    lost = {1, *original.inner_pages}
    # An inner page of an index that carries a table's rows takes those with it.
    touched = set().union(*(original.sessions_on.get(page, set()) for page in lost))
    content = bytearray(path.read_bytes())
    for page in lost:
        content[(page - 1) * PAGE_SIZE : page * PAGE_SIZE] = bytes(PAGE_SIZE)
    path.write_bytes(content)
    assert lost - original.in_log
    report, rows = saved(path)
    assert rows["messages"] == original.rows["messages"]
    assert rows["runs"] == original.rows["runs"]
    assert set(rows["sessions"]) == set(original.rows["sessions"])
    assert set(report.incomplete) <= touched


@pytest.mark.parametrize("name", ["store", "schema_version", "sqlite_sequence"])
def test_a_page_that_leads_elsewhere_takes_no_rows_along(
    tmp_path: Path, original: Original, name: str
) -> None:
    """An inner page in the place of a small table's: what lies below it is where it belongs."""
    path = original.copy_to(tmp_path / "damaged")
    with closing(apsw.Connection(str(path))) as connection:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        connection.execute("SELECT * FROM store").fetchall()
        root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).get
        assert isinstance(root, int)
    content = bytearray(path.read_bytes())
    for page in original.inner_pages:
        inner = content[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
        content[(root - 1) * PAGE_SIZE : root * PAGE_SIZE] = inner
        path.write_bytes(content)
        report, rows = saved(path)
        assert rows == original.rows
        assert report.incomplete == ()
