from __future__ import annotations

import os
from typing import TYPE_CHECKING

import apsw
import pytest

from state_store import (
    NewMessage,
    NewSession,
    SqliteStore,
    StateStoreError,
    StoreBusy,
    StoreDamaged,
    StoreForeign,
    StoreLost,
    StoreNewer,
    StoreUnavailable,
    new_id,
)
from state_store.sqlite import faults, schema
from state_store.testing.turns import turn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    OpenDisk = Callable[..., SqliteStore]
    RunPython = Callable[..., str]

SESSION_COUNT = 60
NO_ERRORS = {
    apsw.SQLITE_OK,
    apsw.SQLITE_ROW,
    apsw.SQLITE_DONE,
    apsw.SQLITE_NOTICE,
    apsw.SQLITE_WARNING,
}
DAMAGE = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_IOERR_CORRUPTFS")


def everything_beside(path: Path) -> dict[str, bytes]:
    """Return the bytes of all files in the store's directory that hold any, but for the -shm.

    Whoever reads a database in WAL mode makes an empty log and the index of it. Nobody has the
    files open.
    """
    files = [one for one in path.parent.rglob("*") if one.is_file()]
    contents = {one.name: one.read_bytes() for one in files if not one.name.endswith("-shm")}
    return {name: content for name, content in contents.items() if content}


def change(path: Path, *statements: str) -> None:
    """Run *statements* on the database, as another program would."""
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.fixture
def filled(open_disk: OpenDisk, path: Path) -> list[str]:
    """Return the ids of the sessions in a closed database of many pages."""
    store = open_disk()
    ids = [new_id() for _ in range(SESSION_COUNT)]
    for session_id in ids:
        store.begin_run(
            session_id,
            NewMessage(role="user", content="x" * 3000),
            run_id=new_id(),
            create=NewSession(title=f"session {session_id}"),
        )
    store.close()
    for lock in (path.parent / "owners").iterdir():
        lock.unlink()
    return ids


def overwrite(path: Path, offset: int, content: bytes) -> None:
    """Change bytes of a closed file in place."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


@pytest.mark.parametrize("writing", [True, False])
def test_a_newer_schema_is_refused_untouched(
    open_disk: OpenDisk, path: Path, *, writing: bool
) -> None:
    """Found and supported version are named; no byte changes (C09)."""
    open_disk().close()
    newer = schema.SCHEMA.version + 1
    change(
        path,
        f"PRAGMA user_version={newer}",
        "ALTER TABLE sessions ADD COLUMN mood TEXT",
        "CREATE TABLE moods (id TEXT)",
    )
    before = everything_beside(path)
    with pytest.raises(StoreNewer) as refused:
        open_disk(writing=writing)
    assert (refused.value.found, refused.value.supported) == (newer, schema.SCHEMA.version)
    assert str(path) in str(refused.value)
    assert "Upgrade" in str(refused.value.hint)
    assert everything_beside(path) == before


def test_a_newer_schema_that_crashed_is_refused_with_its_log_untouched(
    open_disk: OpenDisk, run_python: RunPython, path: Path
) -> None:
    """Not even its log is moved into the database by a close (C09)."""
    open_disk().close()
    run_python(
        """
import apsw
connection = apsw.Connection(str(path))
connection.execute("PRAGMA user_version=99; CREATE TABLE moods (id TEXT)")
os._exit(0)
"""
    )
    before = everything_beside(path)
    assert before[f"{path.name}-wal"]
    with pytest.raises(StoreNewer):
        open_disk()
    assert everything_beside(path) == before


@pytest.mark.parametrize("writing", [True, False])
def test_another_programs_database_is_refused_untouched(
    open_disk: OpenDisk, path: Path, *, writing: bool
) -> None:
    """Whatever it has in it."""
    path.parent.mkdir()
    change(path, "CREATE TABLE sessions (id TEXT)", "INSERT INTO sessions VALUES ('theirs')")
    before = everything_beside(path)
    with pytest.raises(StoreForeign, match="another program"):
        open_disk(writing=writing)
    assert everything_beside(path) == before


@pytest.mark.parametrize("writing", [True, False])
def test_another_workspaces_database_is_refused_untouched(
    open_disk: OpenDisk, path: Path, *, writing: bool
) -> None:
    """A copied or misplaced state directory does not mix two histories."""
    open_disk().close()
    before = everything_beside(path)
    other = "99999999-2222-4333-8444-555555555555"
    with pytest.raises(StoreForeign, match=f"not {other}"):
        open_disk(writing=writing, workspace_id=other)
    assert everything_beside(path) == before


@pytest.mark.parametrize("writing", [True, False])
@pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"not a database " * 500], ids=len)
def test_a_file_that_is_no_database_is_refused_untouched(
    open_disk: OpenDisk, path: Path, content: bytes, *, writing: bool
) -> None:
    """An empty file is damage and never "new" (C11)."""
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(StoreDamaged):
        open_disk(writing=writing)
    assert path.read_bytes() == content
    assert not (path.parent / "owners").exists()


@pytest.mark.parametrize("writing", [True, False])
def test_a_zeroed_header_is_damage(
    open_disk: OpenDisk, path: Path, filled: list[str], *, writing: bool
) -> None:
    """No fresh database in its place; the newest backup is named (C11)."""
    overwrite(path, 0, b"\0" * 100)
    for day in ("01", "02"):
        path.with_name(f"{path.name}.backup-202601{day}T000000Z").write_bytes(b"a backup")
    before = everything_beside(path)
    with pytest.raises(StoreDamaged) as refused:
        open_disk(writing=writing)
    assert str(refused.value.backup_path).endswith(".backup-20260102T000000Z")
    assert str(path) in str(refused.value)
    assert str(refused.value.backup_path) in str(refused.value.hint)
    assert everything_beside(path) == before


@pytest.mark.parametrize("writing", [True, False])
def test_a_database_cut_in_half_is_damage(
    open_disk: OpenDisk, path: Path, filled: list[str], *, writing: bool
) -> None:
    """Never a short list with success (C11)."""
    os.truncate(path, path.stat().st_size // 2)
    before = everything_beside(path)
    with pytest.raises(StoreDamaged):
        open_disk(writing=writing)
    assert everything_beside(path) == before


def test_a_damaged_page_gives_an_error_or_the_whole_answer(
    open_disk: OpenDisk, path: Path, filled: list[str]
) -> None:
    """Each page in turn loses its first bytes: nothing is ever missing without a word (C11)."""
    content = path.read_bytes()
    page_size = int.from_bytes(content[16:18], "big")
    refused = 0
    for offset in range(page_size, len(content), page_size):
        path.write_bytes(content)
        overwrite(path, offset, b"\xff" * 64)
        damaged = path.read_bytes()
        try:
            with open_disk(writing=False) as reader:
                assert {one.id for one in reader.list(limit=None).items} == set(filled)
                for session_id in filled:
                    assert len(reader.messages(session_id).items) == 1
                    assert len(reader.runs(session_id).items) == 1
        except StoreDamaged:
            refused += 1
        assert path.read_bytes() == damaged
    assert refused >= 10


def test_a_damaged_page_does_not_stop_what_is_whole(
    open_disk: OpenDisk, path: Path, filled: list[str]
) -> None:
    """A writer that meets damage says so, rolls back, and the file keeps its name."""
    store = open_disk()
    session_id = store.create_session().id
    store.close()
    content = bytearray(path.read_bytes())
    page_size = int.from_bytes(content[16:18], "big")
    for offset in range(page_size, len(content), page_size):
        if b"x" * 2000 in content[offset : offset + page_size]:
            content[offset : offset + 8] = b"\xff" * 8
    path.write_bytes(content)
    store = open_disk()
    with pytest.raises(StoreDamaged):
        store.messages(filled[0])
    assert store.get_session(session_id).id == session_id
    assert not store._database._connection.in_transaction


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE messages SET content = CAST(x'ff41' AS TEXT)",
        "UPDATE messages SET parts = '{'",
        "UPDATE messages SET tool_calls = '[1]'",
    ],
)
def test_a_stored_value_that_cannot_be_read_is_damage(
    open_disk: OpenDisk, path: Path, filled: list[str], statement: str
) -> None:
    """And no crash of a parser, nor a message with content in it."""
    change(path, statement)
    store = open_disk()
    with pytest.raises(StoreDamaged, match="a stored value cannot be read") as damaged:
        store.messages(filled[0])
    assert "[1]" not in str(damaged.value)
    assert store.list().items


def test_a_database_without_its_first_table_is_damage(
    open_disk: OpenDisk, path: Path, filled: list[str]
) -> None:
    """Its mark says that it is ours."""
    change(path, "DROP TABLE store")
    with pytest.raises(StoreDamaged):
        open_disk()


def test_only_a_proven_corruption_is_called_damage(path: Path) -> None:
    """Every other result code of SQLite is another error, or none of ours."""
    codes = {
        name: code
        for mapping in (apsw.mapping_result_codes, apsw.mapping_extended_result_codes)
        for name, code in mapping.items()
        if isinstance(name, str) and isinstance(code, int) and code & 0xFF not in NO_ERRORS
    }
    meant: dict[str, StateStoreError | None] = {}
    for name, code in codes.items():
        error = apsw.exception_for(code)
        assert isinstance(error, apsw.Error)
        meant[name] = faults.explain(error, path, waited_ms=0)
    damage = {name for name, found in meant.items() if isinstance(found, StoreDamaged)}
    assert {name for name in codes if name.startswith(DAMAGE)} == damage
    for name in ("SQLITE_FULL", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_IOERR"):
        assert isinstance(meant[name], OSError)


def test_an_error_that_apsw_finds_itself_passes_as_it_is(path: Path) -> None:
    """It carries no result code, and is a mistake of this package."""
    with pytest.raises(apsw.BindingsError), faults.translated(path, waited_ms=0):
        apsw.Connection(":memory:").execute("SELECT ?", ())


def test_an_unprivileged_user_is_told_the_path_and_the_fix(
    run_as_stranger: RunPython, open_disk: OpenDisk, path: Path
) -> None:
    """A file without write permission; a directory without any (C14)."""
    store = open_disk()
    turn(store, store.create_session().id)
    store.close()
    path.parent.chmod(0o755)
    path.chmod(0o444)
    program = """
for writing in (True, False):
    try:
        open_store(writing=writing).close()
        say("opened", writing)
    except StateStoreError as error:
        say(type(error).__name__, isinstance(error, StoreUnavailable), error, "|", error.hint)
"""
    refused, opened = run_as_stranger(program).splitlines()
    assert refused.startswith("StoreUnavailable True"), refused
    assert str(path.parent) in refused
    assert "delete" not in refused.replace("never delete the -wal", "")
    assert opened == "opened False", "nothing is in the log, so reading needs no other file"
    path.parent.chmod(0o000)
    try:
        for line in run_as_stranger(program).splitlines():
            assert line.startswith("StoreUnavailable True"), line
    finally:
        path.parent.chmod(0o700)
    assert isinstance(StoreUnavailable(path, "x", hint="y"), OSError)
    assert issubclass(StoreBusy, TimeoutError)


def test_a_title_that_is_no_text_hides_no_session(open_disk: OpenDisk, path: Path) -> None:
    """It is shown as far as it is one; the others are listed, and found, as ever."""
    store = open_disk()
    damaged = store.create_session(NewSession(title="damaged")).id
    whole = store.create_session(NewSession(title="whole")).id
    store.close()
    change(path, "UPDATE sessions SET title = CAST(x'ff41' AS TEXT) WHERE title = 'damaged'")
    store = open_disk()
    assert {one.id: one.title for one in store.list().items} == {damaged: "\ufffdA", whole: "whole"}
    assert [one.id for one in store.find_sessions(damaged[-8:])] == [damaged]
    assert [one.id for one in store.find_sessions("whole")] == [whole]


@pytest.mark.parametrize("writing", [True, False])
@pytest.mark.parametrize("sign", ["-wal", ".backup-20260102T030405000006Z-v1"])
def test_a_database_that_is_gone_is_not_begun_anew(
    open_disk: OpenDisk, path: Path, sign: str, *, writing: bool
) -> None:
    """A new one would hide what was lost, and SQLite would play the old log into it."""
    store = open_disk()
    store.create_session()
    store.close()
    path.with_name(f"{path.name}{sign}").write_bytes(b"a log, or a backup")
    path.unlink()
    before = everything_beside(path)
    with pytest.raises(StoreLost) as refused:
        open_disk(writing=writing)
    assert (refused.value.backup_path is None) == (sign == "-wal")
    assert everything_beside(path) == before
