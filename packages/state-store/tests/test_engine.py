from __future__ import annotations

import gc
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import apsw
import pytest

from state_store import (
    NewSession,
    SessionState,
    SqliteStore,
    StoreDamaged,
    StoreMissing,
    StoreUnavailable,
    new_id,
    to_text,
)
from state_store.clock import from_text
from state_store.sqlite import messages, sessions
from state_store.testing.turns import begin, calling, complete, contents, result, turn, user

if TYPE_CHECKING:
    from collections.abc import Callable

    OpenDisk = Callable[..., SqliteStore]
    RunPython = Callable[..., str]

MARKER = "Marker-7f3a9c51"


def descriptor_count() -> int:
    """Return how many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def plan(store: SqliteStore, statement: str, bindings: tuple[object, ...]) -> list[str]:
    """Return how SQLite would run *statement*, line by line."""
    with store._database.read() as connection:
        rows = connection.execute(f"EXPLAIN QUERY PLAN {statement}", bindings).fetchall()
    return [str(row[3]) for row in rows]


@pytest.mark.parametrize("archived", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_the_list_is_read_from_one_index_and_touches_no_message(
    open_disk: OpenDisk, *, archived: bool, after: bool
) -> None:
    """In its order, without sorting and without a scan, from any cursor on (C17)."""
    bindings = ("t", "i", 21) if after else (21,)
    (line,) = plan(open_disk(), sessions._LIST[archived, after], bindings)
    index = "sessions_archived" if archived else "sessions_active"
    step = "SEARCH" if after else "SCAN"
    assert line.startswith(f"{step} sessions USING INDEX {index}")


def test_the_work_of_a_list_does_not_grow_with_the_store(open_disk: OpenDisk) -> None:
    """Steps of SQLite's machine for a page of 20, with 40 and with 4,000 sessions (C17)."""
    store = open_disk()
    connection = store._database._connection

    def steps_of_a_page() -> int:
        steps = 0

        def count() -> bool:
            nonlocal steps
            steps += 1
            return False

        connection.set_progress_handler(count, 1)
        assert len(store.list(limit=20).items) == 20
        connection.set_progress_handler(None)
        return steps

    def fill(count: int) -> None:
        with store._database.write() as writing:
            for _ in range(count):
                sessions.insert(writing, new_id(), NewSession(), datetime.now(UTC))

    fill(40)
    few = steps_of_a_page()
    fill(3960)
    state = SessionState(id=new_id(), messages=tuple(user(str(n)) for n in range(2000)))
    store.save(state, timedelta(0))
    assert steps_of_a_page() <= few + 10


def test_messages_are_read_by_place_and_undone_runs_are_looked_up_once(
    open_disk: OpenDisk,
) -> None:
    """Not again for every message: a long session would take the square of its length."""
    store = open_disk()
    for statement, bindings in (
        (messages._PAGE["original"], ("s", 0, -1)),
        (messages._LAST, ("s", 50)),
    ):
        lines = plan(store, statement, bindings)
        assert "sqlite_autoindex_messages_1 (session_id=?" in lines[0]
        assert not [line for line in lines if "CORRELATED" in line or "TEMP B-TREE" in line]
        assert [line for line in lines if "USING INDEX runs_undone" in line]


def test_undone_runs_are_left_out_of_the_originals(open_disk: OpenDisk) -> None:
    """And stay in the view of everything, as do other sessions' runs."""
    store = open_disk()
    session_id = store.create_session().id
    turn(store, session_id, "kept")
    undone = turn(store, session_id, "undone")
    with store._database.write() as connection:
        connection.execute("UPDATE runs SET undone_at = started_at WHERE id = ?", (undone.id,))
    assert contents(store, session_id) == ["kept", "answer"]
    assert [one.content for one in store.last_messages(session_id, 9)] == ["kept", "answer"]
    assert len(store.messages(session_id, view="all").items) == 4
    assert len(list(store.export_messages(session_id))) == 2


def test_no_read_transaction_stays_open_between_pages(open_disk: OpenDisk) -> None:
    """A half-read listing or export does not pin the log: a checkpoint empties it (C16)."""
    store, other = open_disk(), open_disk()
    session_id = store.create_session().id
    many = tuple(user("x" * 1000) for _ in range(1200))
    store.save(SessionState(id=session_id, messages=many), timedelta(0))
    page = other.messages(session_id, limit=5)
    lines = other.export_messages(session_id)
    next(lines)
    listed = other.list(limit=1)
    assert not other._database._connection.in_transaction
    turn(store, session_id)
    with store._database.read() as connection:
        log_path = connection.filename_wal
    assert Path(log_path).stat().st_size > 1_000_000
    store._database.checkpoint()
    assert Path(log_path).stat().st_size == 0
    assert page.next_cursor is not None
    assert listed.items
    assert sum(1 for _ in lines) == 1199


def test_a_checkpoint_beside_a_reader_gives_up_quietly(open_disk: OpenDisk) -> None:
    """It is tidying up: a reader in the middle of a page is left alone."""
    store, other = open_disk(busy_timeout_ms=20), open_disk()
    session_id = store.create_session().id
    with other._database.read() as connection:
        connection.execute("SELECT count(*) FROM sessions").fetchall()
        turn(store, session_id)
        store._database.checkpoint()
    store._database.checkpoint()


def test_deleted_content_is_nowhere_in_the_files(
    open_disk: OpenDisk, run_python: RunPython, path: Path
) -> None:
    """Not in the database, not in the log, also while the store and another stay open (C41)."""
    store, other = open_disk(), open_disk()
    kept = store.create_session().id
    turn(store, kept, "kept marker")
    settings = NewSession(
        title=MARKER, system_prompt=MARKER, metadata={"m": MARKER}, parameters={"p": MARKER}
    )
    session_id = store.create_session(settings).id
    for number in range(20):
        run = begin(store, session_id, f"{MARKER} {number} " + "x" * 5000)
        seq = store.start_tools(run.id, calling(MARKER), ["safe"]).seq
        store.finish_tool(
            run.id, call_seq=seq, call_index=0, outcome="ok", message=result(MARKER, MARKER)
        )
        complete(store, run)
    assert other.list().items
    # Looked at by another process: one that has the database open must not open its files.
    look = f"""
found = [one.name for one in path.parent.rglob("*") if one.is_file()
         and b"{MARKER}" in one.read_bytes()]
say(*sorted(found))
"""
    assert path.name in run_python(look)
    deleted = store.delete(session_id)
    assert (deleted.message_count, deleted.run_count) == (80, 20)
    assert run_python(look).split() == []
    with store._database.read() as connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).fetchall()
        for (table,) in tables:
            rows = connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - a table's name
            mentions = [row for row in rows if session_id in row]
            assert len(mentions) == (1 if table == "tombstones" else 0), table
    assert contents(store, kept) == ["kept marker", "answer"]


def test_nobody_but_sqlite_opens_the_live_files(run_python: RunPython) -> None:
    """An open and close of one of them would drop the locks that this process holds on it."""
    said = run_python(
        """
live = {str(path), f"{path}-wal", f"{path}-shm"}
with open(path.parent.parent / "control", "w") as control:
    pass
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
from datetime import timedelta
store = open_store()
session_id = store.create_session().id
turn(store, session_id)
list(store.export_messages(session_id))
store.save(store.load(session_id), timedelta(0))
begin(store, session_id)
second = open_store()
for use in (lambda: second.delete(session_id), lambda: begin(second, session_id)):
    try:
        use()
    except SessionBusy:
        say("busy")
second.close()
reader = open_store(writing=False)
reader.list(), reader.find_sessions("abcd"), reader.recover(), reader.close()
store.close()
third = open_store()
third.delete(session_id)
third.close()
open(path.parent.parent / "control").close()
say(sorted(live & set(opened)), any(one.endswith("control") for one in opened))
"""
    )
    assert said.splitlines() == ["busy", "busy", "[] True"]


def test_times_are_one_form_of_utc_whatever_the_zone(
    run_python: RunPython, open_disk: OpenDisk
) -> None:
    """Written in three zones; text order is time order, and append order is kept (C20)."""
    session_id = new_id()
    program = """
os.environ["TZ"] = sys.argv[3]
time.tzset()
store = open_store()
create = None if store.find_sessions(sys.argv[4]) else NewSession()
complete(store, begin(store, sys.argv[4], sys.argv[3], create=create))
store.close()
"""
    zones = ["Asia/Kolkata", "America/St_Johns", "UTC"]
    for zone in zones:
        run_python(program, zone, session_id)
    store = open_disk()
    stored = store.messages(session_id).items
    assert [one.content for one in stored if one.role == "user"] == zones
    with store._database.read() as connection:
        texts = [
            row[0] for row in connection.execute("SELECT created_at FROM messages ORDER BY seq")
        ]
    assert texts == sorted(texts)
    assert {len(text) for text in texts} == {27}
    assert all(text.endswith("Z") for text in texts)
    now = datetime.now(UTC)
    assert all(now - timedelta(minutes=5) < from_text(text) <= now for text in texts)


def test_an_hour_that_comes_twice_keeps_its_order(open_disk: OpenDisk) -> None:
    """Across the end of daylight saving time, 2026-10-25 in Berlin (C20)."""
    zone = ZoneInfo("Europe/Berlin")
    before = datetime(2026, 10, 25, 2, 59, tzinfo=zone)
    after = datetime(2026, 10, 25, 2, 0, fold=1, tzinfo=zone)
    readings = iter([before, before, before, after])  # two of them for a new store
    store = open_disk(clock=lambda: next(readings))
    first, later = store.create_session(), store.create_session()
    assert later.created_at - first.created_at == timedelta(minutes=1)
    assert store.list().items[0].id == later.id


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), "2026-01-02T03:04:05.000006Z"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00.000000Z"),
        (
            datetime(2026, 1, 2, 1, tzinfo=timezone(timedelta(hours=5, minutes=30))),
            "2026-01-01T19:30:00.000000Z",
        ),
    ],
)
def test_an_instant_has_one_text_of_fixed_width(instant: datetime, text: str) -> None:
    """Microseconds always, Z always."""
    assert to_text(instant) == text
    assert from_text(text) == instant
    assert from_text(text).utcoffset() == timedelta(0)


def test_a_time_without_a_zone_is_refused() -> None:
    """Nobody could tell which instant it is."""
    with pytest.raises(ValueError, match="zone"):
        to_text(datetime(2026, 1, 2))  # noqa: DTZ001 - that is the point


def test_opening_and_closing_leaks_no_descriptor(
    open_disk: OpenDisk, path: Path, workspace_id: str
) -> None:
    """Five hundred times for reading, writing, and failing half-way (C33)."""
    open_disk().close()
    damaged = path.with_name("damaged.sqlite3")
    damaged.write_bytes(b"\0" * 4096)
    baseline = descriptor_count()
    for number in range(500):
        with SqliteStore.open(path, workspace_id=workspace_id, writing=number % 10 == 0) as store:
            store.list()
        with pytest.raises(StoreDamaged):
            SqliteStore.open(damaged, workspace_id=workspace_id)
        with pytest.raises(StoreMissing):
            SqliteStore.open(path.with_name("none"), workspace_id=workspace_id, writing=False)
    assert descriptor_count() == baseline


def test_a_database_is_readable_by_any_sqlite_tool(open_disk: OpenDisk, path: Path) -> None:
    """The columns that other tools know come first, with the names they know."""
    store = open_disk()
    turn(store, store.create_session().id)
    store.close()
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(messages)")]
        rows = connection.execute("SELECT role, content FROM messages ORDER BY id").fetchall()
    assert columns[:8] == [
        "id",
        "session_id",
        "role",
        "content",
        "reasoning_content",
        "tool_calls",
        "tool_call_id",
        "name",
    ]
    assert rows == [("user", "question"), ("assistant", "answer")]


def test_ids_are_version_7_and_follow_the_clock() -> None:
    """Canonical text of RFC 9562; later ones sort behind earlier ones."""
    first = new_id()
    time.sleep(0.002)
    second = new_id()
    assert first < second
    for one in (first, second):
        assert (len(one), one[14], one[19] in "89ab") == (36, "7", True)
    assert len({new_id() for _ in range(1000)}) == 1000


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_file_that_lost_its_name_is_not_written_any_more(
    open_disk: OpenDisk, path: Path, how: str
) -> None:
    """What is refused is nowhere, also when the file is put back (C13's kind)."""
    store = open_disk()
    session_id = store.create_session().id
    aside = path.with_name("aside")
    path.rename(aside)
    if how == "replaced":
        path.write_bytes(aside.read_bytes())
    with pytest.raises(StoreUnavailable, match="removed or replaced"):
        store.create_session()
    aside.rename(path)
    assert [one.id for one in store.list().items] == [session_id]
    assert store.create_session().id != session_id


def test_a_commit_is_not_acknowledged_when_the_file_went_meanwhile(
    open_disk: OpenDisk, path: Path
) -> None:
    """Nobody would find it again."""
    store = open_disk()

    def lose_it_midway() -> None:
        with store._database.write() as connection:
            connection.execute("UPDATE store SET generation = 'x'")
            path.rename(path.with_name("aside"))

    with pytest.raises(StoreUnavailable, match="removed or replaced"):
        lose_it_midway()
    path.with_name("aside").rename(path)


def test_a_store_that_was_dropped_unclosed_lets_its_runs_go(
    open_disk: OpenDisk, path: Path, workspace_id: str
) -> None:
    """Forgetting to close one keeps no lock: its pending run can be recovered."""
    dropped = SqliteStore.open(path, workspace_id=workspace_id)
    session_id = dropped.create_session().id
    begin(dropped, session_id)
    del dropped
    gc.collect()
    assert [run.status for run in open_disk().runs(session_id).items] == ["failed"]


def test_backups_that_hold_a_deleted_session_are_named(open_disk: OpenDisk, path: Path) -> None:
    """Those that hold it and those that cannot be read, and no others (C41)."""
    store = open_disk()
    session_id = new_id()
    for name in ("1-before", "2-with"):
        backup = apsw.Connection(f"{path}.backup-{name}")
        with backup.backup("main", store._database._connection, "main") as copying:
            copying.step()
        backup.execute("PRAGMA journal_mode=DELETE").fetchall()
        backup.close()
        if name == "1-before":
            store.create_session(session_id=session_id)
    damaged = path.with_name(f"{path.name}.backup-3-damaged")
    damaged.write_bytes(b"no database at all, and long enough to be read as one" * 100)
    before = {one.name for one in path.parent.iterdir()}
    assert store.delete(session_id).backups == (f"{path}.backup-2-with", str(damaged))
    assert {one.name for one in path.parent.iterdir()} == before
