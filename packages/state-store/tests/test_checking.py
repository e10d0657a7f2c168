from __future__ import annotations

import os
import pickle
import random
import shutil
import signal
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from state_store import (
    NewMessage,
    NewSession,
    SessionState,
    SqliteStore,
    StoreForeign,
    StoreMissing,
    StoreNewer,
    Usage,
    new_id,
)
from state_store.sqlite import checking, telling
from state_store.sqlite.checking import check
from state_store.sqlite.place import Place
from state_store.testing.damage import PAGE_SIZE, change
from state_store.testing.family import old_database
from state_store.testing.turns import assistant, begin, calling, complete, result, turn, user

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from state_store.findings import Report

    OpenDisk = Callable[..., SqliteStore]
    Check = Callable[..., Report]

LONG = os.environ.get("STATE_STORE_LONG") == "1"
SEED = int(os.environ.get("STATE_STORE_SEED", random.SystemRandom().getrandbits(32)))
MESSAGE_COUNT = 100_000 if LONG else 4_000
WORKSPACE_ID = "11111111-2222-4333-8444-555555555555"  # of the fixture `workspace_id`
CONTENT = "what nobody else may read"
GONE = "0198c0de-0000-7000-8000-000000000000"
TIME = "2026-01-02T03:04:05.000006Z"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Return a closed store with some of everything, and its sessions with runs, oldest first."""
    path = tmp_path_factory.mktemp("made") / "state.sqlite3"
    with SqliteStore.open(path, workspace_id=WORKSPACE_ID) as store:
        made = [store.create_session(NewSession(title=CONTENT)).id for _ in range(4)]
        for number, session_id in enumerate(made):
            for _ in range(3):
                turn(store, session_id, CONTENT * 9)
            run = begin(store, session_id)
            seq = store.start_tools(run.id, calling("a", "a"), ["safe", "unsafe"]).seq
            for index in (1, 0):
                store.finish_tool(
                    run.id, call_seq=seq, call_index=index, outcome="ok", message=result("a")
                )
            if number % 2:
                complete(store, run)
            else:
                store.fail_run(run.id, "provider.error", usage=Usage(), cost=0.1)
        complete(store, begin(store, made[0]), usage=Usage(input_tokens=1))
        store.save(
            SessionState(id=new_id(), messages=(user(CONTENT), assistant(""))), timedelta(seconds=1)
        )
        summary = NewMessage(role="system", content=CONTENT, kind="summary", covers=(1, 2))
        store.save(SessionState(id=new_id(), messages=(user(), summary)), timedelta(0))
        store.delete(store.create_session().id)
        store.create_session()
        begin(store, store.create_session().id)
    return path, made


@pytest.fixture
def sessions(made: tuple[Path, list[str]], path: Path) -> list[str]:
    """Put a copy of that store in the test's place and return its sessions."""
    path.parent.mkdir()
    shutil.copy(made[0], path)
    return made[1]


@pytest.fixture
def look(path: Path, workspace_id: str) -> Check:
    """Return what checks the test's database, and makes sure that no content is shown."""

    def look_at_it(**options: Any) -> Report:
        options = {"workspace_id": workspace_id, **options}
        report = check(Place.at(path, **options))
        assert CONTENT not in repr(report)
        assert report.ok == all(one.severity != "error" for one in report.findings)
        assert pickle.loads(pickle.dumps(report)) == report  # noqa: S301 - our own bytes
        return report

    return look_at_it


def found(report: Report) -> set[tuple[str, str]]:
    """Return what was found, without the words."""
    return {(one.severity, one.kind) for one in report.findings}


def test_nothing_is_wrong_with_a_healthy_store_and_nothing_changes(
    look: Check, path: Path, sessions: list[str]
) -> None:
    """With failed, pending and deleted things in it, tools, summaries and saved messages."""
    content = path.read_bytes()
    report = look()
    assert report.findings == ()
    assert path.read_bytes() == content


def test_a_store_in_use_is_checked_as_of_one_commit(
    open_disk: OpenDisk, look: Check, sessions: list[str]
) -> None:
    """What is only in the log counts, and a writer waits for nobody."""
    with open_disk() as store:
        turn(store, sessions[0])
        assert look().findings == ()
        with store._database.write():
            assert look().findings == ()


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE sessions SET message_count = 0", "counter"),
        ("UPDATE sessions SET total_tokens = total_tokens + 1", "counter"),
        ("UPDATE sessions SET cost = 0.2 WHERE cost > 0", "counter"),
        ("UPDATE sessions SET usage_complete = 1 - usage_complete", "counter"),
        ("UPDATE sessions SET status = 'running' WHERE status = 'idle'", "status"),
        ("UPDATE sessions SET status = 'nothing'", "value"),
        ("UPDATE sessions SET updated_at = '2026-02-30T00:00:00.000000Z'", "value"),
        ("UPDATE sessions SET created_at = '2026-01-02 03:04:05'", "value"),
        ("UPDATE sessions SET metadata = '[]'", "value"),
        ("UPDATE sessions SET parameters = '{'", "value"),
        ("UPDATE sessions SET title = CAST(x'ff' AS TEXT)", "value"),
        ("UPDATE messages SET tool_calls = '[{}]' WHERE tool_calls IS NOT NULL", "value"),
        ("UPDATE messages SET parts = 'NaN['", "value"),
        ("UPDATE messages SET kind = 'origami' WHERE seq = 2", "value"),
        ("UPDATE messages SET session_id = upper(session_id) WHERE seq = 2", "value"),
        ("UPDATE messages SET seq = 99 WHERE seq = 3", "gap"),
        ("DELETE FROM messages WHERE seq = 1", "gap"),
        ("UPDATE messages SET role = 'system' WHERE seq = 1", "run"),
        ("UPDATE messages SET run_id = NULL WHERE seq = 1", "run"),
        ("UPDATE runs SET first_seq = first_seq + 100", "run"),
        ("UPDATE messages SET role = 'user' WHERE seq = 2", "run"),
        ("UPDATE runs SET finished_at = NULL WHERE status = 'failed'", "value"),
        ("UPDATE runs SET error_type = 'x' WHERE status = 'completed'", "value"),
        ("UPDATE tool_executions SET outcome = NULL, finished_at = NULL", "tool"),
        ("UPDATE tool_executions SET outcome = NULL", "value"),
        ("UPDATE tool_executions SET call_seq = 1", "tool"),
        ("UPDATE tool_executions SET call_index = call_index + 9", "tool"),
        ("UPDATE tool_executions SET result_seq = 1", "tool"),
        ("UPDATE tool_executions SET result_seq = 77", "tool"),
        ("DELETE FROM runs WHERE status = 'completed'", "foreign_key"),
        ("DELETE FROM sessions", "foreign_key"),
        ("UPDATE tombstones SET session_id = (SELECT id FROM sessions)", "returned"),
        ("DELETE FROM schema_version", "version"),
        ("DROP INDEX sessions_active", "version"),
        ("INSERT INTO schema_version VALUES (9, 'later', '')", "version"),
    ],
)
def test_what_cannot_be_is_found(
    look: Check, path: Path, sessions: list[str], statement: str, expected: str
) -> None:
    """Each by its kind, as an error."""
    change(path, statement)
    report = look()
    assert ("error", expected) in found(report)
    assert not report.ok


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE sessions SET status = 'idle' WHERE status = 'running'", "status"),
        ("UPDATE sessions SET status = 'failed' WHERE message_count = 0", "status"),
        ("UPDATE runs SET started_at = '2099-01-01T00:00:00.000000Z'", "run"),
        ("UPDATE messages SET provider_data = 'no JSON'", "value"),
    ],
)
def test_what_may_have_a_reason_is_a_warning(
    look: Check, path: Path, sessions: list[str], statement: str, expected: str
) -> None:
    """A clock that was set back, a status that a caller has set, data that is a provider's."""
    change(path, statement)
    report = look()
    assert report.ok
    assert found(report) == {("warning", expected)}


def test_an_orphan_is_a_row_whose_session_is_known_to_be_gone(
    look: Check, path: Path, sessions: list[str]
) -> None:
    """A tombstone says so; a row that merely lacks its parent is none (C41)."""
    change(
        path,
        "INSERT INTO runs (id, session_id, first_seq, status, started_at, finished_at, owner)"
        " VALUES (:gone, :gone, 1, 'completed', :time, :time, :gone)",
        gone=GONE,
        time=TIME,
    )
    lacking = look()
    assert "orphan" not in {one.kind for one in lacking.findings}
    change(path, "INSERT INTO tombstones VALUES (:gone, :time, 1, 1, NULL)", gone=GONE, time=TIME)
    orphan = next(one for one in look().findings if one.kind == "orphan")
    assert orphan.object == f"session {GONE}"


def test_one_session_with_impossible_values_hides_no_other(
    look: Check, path: Path, sessions: list[str]
) -> None:
    """Every one is named, those whose own id is damaged as far as that goes."""
    change(
        path,
        "UPDATE sessions SET total_tokens = :most, model_config = CAST(x'ff' AS TEXT) || '{'",
        "UPDATE runs SET input_tokens = :most, output_tokens = :most",
        "UPDATE sessions SET id = CAST(x'fffe' AS TEXT) WHERE rowid = 1",
        most=2**63 - 1,
    )
    report = look()
    for session_id in sessions[1:]:
        kinds = {one.kind for one in report.findings if one.object == f"session {session_id}"}
        assert "counter" in kinds
        assert any(one.object == f"sessions {session_id}" for one in report.findings)
    assert any(one.object == "session with an unreadable id" for one in report.findings)


def test_a_damaged_file_is_a_report_and_no_exception(
    look: Check, path: Path, sessions: list[str]
) -> None:
    """Header, half, empty, zeroed pages, noise: never an empty report, and the bytes stay (C11)."""
    content = path.read_bytes()
    source = random.Random(SEED)
    damages = [bytes(100) + content[100:], content[: len(content) // 2], b""]
    for _ in range(40):
        number = source.randrange(1, len(content) // PAGE_SIZE)
        noise = source.choice((bytes(PAGE_SIZE), source.randbytes(PAGE_SIZE)))
        damages.append(content[: number * PAGE_SIZE] + noise + content[(number + 1) * PAGE_SIZE :])
    for number, damaged in enumerate(damages):
        path.write_bytes(damaged)
        report = look()
        assert not report.ok, (SEED, number)
        assert {one.kind for one in report.findings} & {"damaged", "foreign_key", "counter", "gap"}
        assert path.read_bytes() == damaged, (SEED, number)


def test_what_is_no_database_of_this_workspace_is_refused_as_at_opening(
    open_disk: OpenDisk, look: Check, path: Path
) -> None:
    """Missing, another workspace's, newer, another program's; nothing is made or changed."""
    with pytest.raises(StoreMissing):
        look()
    assert not path.parent.exists()
    open_disk().close()
    with pytest.raises(StoreForeign):
        look(workspace_id="99999999-8888-4777-a666-555555555555")
    change(path, "PRAGMA user_version=9")
    with pytest.raises(StoreNewer):
        look()
    change(path, "PRAGMA application_id=7")
    with pytest.raises(StoreForeign):
        look()


def test_a_database_of_an_older_schema_is_checked_as_it_is(
    path: Path, look: Check, workspace_id: str
) -> None:
    """What its version lacks is left out, and nothing is upgraded."""
    path.parent.mkdir()
    old_database(path, workspace_id=workspace_id)
    content = path.read_bytes()
    assert look().findings == ()
    change(path, "UPDATE sessions SET message_count = 0")
    assert ("error", "counter") in found(look())
    assert path.read_bytes()[60:64] == content[60:64]


def test_what_lies_beside_the_database_is_worth_a_notice(
    open_disk: OpenDisk, look: Check, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that has grown large, and what was left half built."""
    monkeypatch.setattr(checking, "LOG_SIZE_LIMIT_BYTES", 1000)
    leftover = path.with_name(f".{path.name}.0123456789abcdef.new")
    with open_disk() as store:
        turn(store, store.create_session().id)
        leftover.touch()
        report = look()
    assert report.ok
    assert found(report) == {("notice", "log_size"), ("notice", "leftover")}
    assert {one.object for one in report.findings} == {str(leftover), f"{path}-wal"}


@pytest.mark.parametrize("what", ["checking the database", "checking every row"])
def test_ctrl_c_ends_a_check_while_sqlite_works(
    look: Check, sessions: list[str], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Also in the one statement that takes longest."""
    monkeypatch.setattr(telling, "STEPS_BETWEEN", 100)
    told: list[str] = []

    def interrupt(now: str, done: int, total: int) -> None:
        told.append(now)
        if told.count(what) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        look(progress=interrupt)
    assert look().findings == ()


def test_a_check_costs_the_same_for_each_message(
    open_disk: OpenDisk, look: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice as many in one session take SQLite no more than about twice as many steps."""
    monkeypatch.setattr(telling, "STEPS_BETWEEN", 1_000)

    def steps() -> int:
        told: list[str] = []
        assert look(progress=lambda what, *_: told.append(what)).findings == ()
        return len(told)

    took = []
    with open_disk() as store:
        session_id = store.create_session().id
        said: tuple[NewMessage, ...] = ()
        for _ in range(2):
            said += tuple(user(f"{number}") for number in range(MESSAGE_COUNT // 2))
            store.save(SessionState(id=session_id, messages=said), timedelta(0))
            took.append(steps())
    assert 100 < took[1] < 3 * took[0]
