from __future__ import annotations

import errno
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest

from state_store import (
    SqliteStore,
    StateStoreError,
    StoreFull,
    StoreMissing,
    StoreUnavailable,
    WalUnsupported,
)
from state_store.sqlite import faults, policy, schema
from state_store.sqlite.beside import at_rest
from state_store.testing.turns import begin

if TYPE_CHECKING:
    from collections.abc import Callable

    OpenDisk = Callable[..., SqliteStore]
    RunPython = Callable[..., str]

RULES = {
    "journal_mode": "wal",
    "synchronous": 2,
    "foreign_keys": 1,
    "trusted_schema": 0,
    "cell_size_check": 1,
    "mmap_size": 0,
    "secure_delete": 1,
    "journal_size_limit": policy.JOURNAL_SIZE_LIMIT_BYTES,
    "application_id": schema.APPLICATION_ID,
    "user_version": schema.SCHEMA.version,
}


def connection_of(store: SqliteStore) -> apsw.Connection:
    """Return the connection inside *store*."""
    return store._database._connection


def modes(directory: Path) -> dict[str, int]:
    """Return the permission bits of *directory* and of all below it, by relative name."""
    everything = [directory, *directory.rglob("*")]
    return {str(one.relative_to(directory)): stat.S_IMODE(one.stat().st_mode) for one in everything}


@pytest.mark.parametrize("rule", RULES)
def test_a_writer_is_opened_by_every_rule(open_disk: OpenDisk, rule: str) -> None:
    """Each is in force on the connection that is used, not only asked for."""
    connection = connection_of(open_disk())
    assert policy.pragma(connection, rule) == RULES[rule]


@pytest.mark.parametrize("rule", ["foreign_keys", "trusted_schema", "cell_size_check", "mmap_size"])
def test_a_reader_is_opened_by_every_rule_that_reading_needs(
    open_disk: OpenDisk, rule: str
) -> None:
    """And it finds the write-ahead log in force."""
    open_disk()
    connection = connection_of(open_disk(writing=False))
    assert policy.pragma(connection, rule) == RULES[rule]
    assert policy.pragma(connection, "journal_mode") == "wal"


def test_a_connection_is_defensive(open_disk: OpenDisk) -> None:
    """SQL cannot write to the schema table or to shadow tables."""
    assert connection_of(open_disk()).config(apsw.SQLITE_DBCONFIG_DEFENSIVE, -1) == 1


def test_a_pragma_that_does_not_hold_stops_the_opening() -> None:
    """Asking is not enough: an unknown pragma answers nothing."""
    connection = apsw.Connection(":memory:")
    with pytest.raises(StateStoreError, match="did not accept"):
        policy._expect(connection, "no_such_pragma", 1)
    connection.close()


def test_a_filesystem_without_wal_is_refused(tmp_path: Path) -> None:
    """SQLite that answers another journal mode is not believed to be in WAL (C15)."""
    connection = apsw.Connection(":memory:")  # which can have no write-ahead log
    with pytest.raises(WalUnsupported, match="journal_mode=memory") as refused:
        policy.use_wal(connection, tmp_path / "state.sqlite3")
    assert isinstance(refused.value, OSError)
    assert "TINYAGENT_STATE_HOME" in str(refused.value.hint)
    connection.close()


@pytest.mark.parametrize("umask", ["0o000", "0o022", "0o077"])
def test_everything_is_private_from_the_moment_it_exists(
    run_python: RunPython, path: Path, umask: str
) -> None:
    """Whatever the umask; every creation asks for the narrow mode itself (C34)."""
    created = run_python(
        """
os.umask(int(sys.argv[3], 0))
def watch(event, args):
    if event == "os.mkdir":
        say("mkdir", oct(args[1]))
    if event in ("os.chmod", "os.umask"):
        say(event)
sys.addaudithook(watch)
store = open_store()
turn(store, store.create_session().id)
for found in [path.parent, *path.parent.rglob("*")]:
    say("mode", oct(found.stat().st_mode & 0o777), found.is_dir(), found.name)
""",
        umask,
    ).splitlines()
    found = [line.split() for line in created if line.startswith("mode")]
    names = {words[3] for words in found}
    assert {path.name, f"{path.name}-wal", f"{path.name}-shm", "owners"} <= names
    assert any(name.endswith(".lock") for name in names)
    for _, mode, is_directory, name in found:
        assert mode == ("0o700" if is_directory == "True" else "0o600"), name
    assert {line.split()[1] for line in created if line.startswith("mkdir")} == {"0o700"}
    assert not [line for line in created if line.startswith("os.")], "a mode came too late"


def test_missing_directories_are_made_private_too(tmp_path: Path, workspace_id: str) -> None:
    """All of them, not only the last."""
    before = os.umask(0)
    try:
        home = tmp_path / "home"
        with SqliteStore.open(home / "a" / "b" / "state.sqlite3", workspace_id=workspace_id):
            assert {modes(home)[name] for name in (".", "a", "a/b", "a/b/owners")} == {0o700}
    finally:
        os.umask(before)


def test_closing_leaves_the_database_and_nothing_else(open_disk: OpenDisk, path: Path) -> None:
    """No log, no lock file, nothing half built."""
    store = open_disk()
    store.create_session()
    store.close()
    assert {one.name for one in path.parent.rglob("*")} == {*at_rest(path), "owners"}


def test_a_reader_finds_no_database_and_makes_none(open_disk: OpenDisk, path: Path) -> None:
    """Nor a directory for one."""
    with pytest.raises(StoreMissing) as missing:
        open_disk(writing=False)
    assert isinstance(missing.value, FileNotFoundError)
    assert missing.value.path == str(path)
    assert not path.parent.exists()


def test_a_reader_makes_nothing_but_the_files_of_sqlite(open_disk: OpenDisk, path: Path) -> None:
    """And changes nothing in the database."""
    writer = open_disk()
    session = writer.create_session()
    writer.close()
    before = path.read_bytes()
    reader = open_disk(writing=False)
    assert reader.get_session(session.id) == session
    assert reader.list().items
    names = {one.name for one in path.parent.rglob("*")}
    assert names <= {*at_rest(path), "owners", f"{path.name}-wal", f"{path.name}-shm"}
    reader.close()
    assert path.read_bytes() == before


def test_a_reader_cannot_write(open_disk: OpenDisk) -> None:
    """A write through it is refused with a typed error."""
    session_id = open_disk().create_session().id
    with pytest.raises(StoreUnavailable, match="read-only"):
        open_disk(writing=False).update_session(session_id, {"title": "x"})


def test_opening_an_existing_database_writes_nothing(open_disk: OpenDisk, path: Path) -> None:
    """Neither to the file nor to the log."""
    open_disk().close()
    before = path.read_bytes(), path.stat().st_mtime_ns
    store = open_disk()
    assert connection_of(store).total_changes() == 0
    assert path.with_name(f"{path.name}-wal").stat().st_size == 0
    store.close()
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_an_opening_that_fails_leaves_no_trace(
    open_disk: OpenDisk, path: Path, tmp_path: Path
) -> None:
    """A file where the owners' directory should be; then one that fails after the claim."""
    open_disk().close()
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    blocked = tmp_path / "blocked"
    blocked.write_text("in the way")
    with pytest.raises(StoreUnavailable) as refused:
        open_disk(owners_dir=blocked)
    assert refused.value.path == str(blocked)

    with pytest.raises(IndexError):
        open_disk(clock=[].pop)
    assert {one.name for one in path.parent.rglob("*")} == {*at_rest(path), "owners"}
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors


def test_a_recovery_that_fails_at_opening_gives_the_claim_back(
    open_disk: OpenDisk, path: Path, run_python: RunPython
) -> None:
    """No owner's file stays of a store that never came to be."""
    run_python("store = open_store(); begin(store, store.create_session().id); os._exit(0)")
    locks = set((path.parent / "owners").iterdir())
    readings = [datetime(2026, 1, 1, tzinfo=UTC)]  # for the claim; none for the recovery

    with pytest.raises(IndexError):
        open_disk(clock=readings.pop)
    assert set((path.parent / "owners").iterdir()) == locks
    assert len(open_disk().recovered) == 1


@pytest.mark.parametrize("number", ["ENOSPC", "EDQUOT"])
def test_no_space_for_a_file_is_said_as_such(tmp_path: Path, number: str) -> None:
    """A full disk is a full disk whichever call meets it."""
    error = faults.unavailable(tmp_path, OSError(getattr(errno, number), "x"))
    assert isinstance(error, StoreFull)


def test_a_relative_path_stays_the_same_file_after_a_change_of_directory(
    tmp_path: Path, workspace_id: str, monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    """And the live owner's run is not taken for a dead one's."""
    monkeypatch.chdir(tmp_path)
    relative = path.relative_to(tmp_path)
    with (
        SqliteStore.open(relative, workspace_id=workspace_id) as first,
        SqliteStore.open(relative, workspace_id=workspace_id) as second,
    ):
        session_id = first.create_session().id
        run = begin(first, session_id)
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert second.recover() == ()
        assert second.get_run(run.id).stale is False


def test_a_link_to_the_database_has_the_same_owners(
    tmp_path: Path, open_disk: OpenDisk, workspace_id: str, path: Path
) -> None:
    """A second name of the file must not make its live owner look dead."""
    store = open_disk()
    run = begin(store, store.create_session().id)
    link = tmp_path / "link.sqlite3"
    link.symlink_to(path)
    with SqliteStore.open(link, workspace_id=workspace_id) as second:
        assert second.recovered == ()
        assert second.get_run(run.id).stale is False
    assert not (tmp_path / "owners").exists()
