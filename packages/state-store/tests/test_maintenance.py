from __future__ import annotations

import inspect
import os
import shutil
import signal
import subprocess
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from state_store import (
    BackupUnusable,
    Maintenance,
    SqliteStore,
    StateStoreError,
    StoreDamaged,
    StoreForeign,
    StoreFull,
    StoreInUse,
    StoreMissing,
    StoreNewer,
    StoreUnavailable,
)
from state_store.sqlite import maintenance, telling, upgrading
from state_store.sqlite.beside import at_rest, backups_of, unproven_of
from state_store.sqlite.schema import SCHEMA
from state_store.testing.family import FIRST, digest_of, old_database
from state_store.testing.turns import begin, session_with_turn, turn

if TYPE_CHECKING:
    from collections.abc import Callable

    OpenDisk = Callable[..., SqliteStore]
    Tend = Callable[..., Maintenance]
    Resize = Callable[[int], None]
    RunPython = Callable[..., str]
    StartPython = Callable[..., Any]  # a Program of conftest.py

# As in conftest.py.
VERSION = SCHEMA.version
WORKSPACE_ID = "11111111-2222-4333-8444-555555555555"
LONG = os.environ.get("STATE_STORE_LONG") == "1"
OTHER_ID = "99999999-2222-4333-8444-555555555555"
CALLS: dict[str, Callable[[Maintenance], object]] = {
    "plan": Maintenance.plan,
    "upgrade": Maintenance.upgrade,
    "back_up": Maintenance.back_up,
    "restore": Maintenance.restore,
    "compact": Maintenance.compact,
}
CHANGING = {name: CALLS[name] for name in ("upgrade", "back_up", "restore", "compact")}
# More of them: STATE_STORE_LONG=1. In KiB, beside what lies on the disk already.
FREE_KIB = range(0, 900, 12) if LONG else (0, 4, 60, 200, 400)
HANDLE_ROUNDS = 60 if LONG else 8


def filled(store: SqliteStore, *, kept_count: int = 5, deleted_count: int = 20) -> None:
    """Leave more space than content."""
    kept = [session_with_turn(store) for _ in range(kept_count)]
    deleted = [store.create_session().id for _ in range(deleted_count)]
    for number in range(5):
        for session_id in (*kept, *deleted):
            turn(store, session_id, f"{number} " * 1000)
    for session_id in deleted:
        store.delete(session_id)


def names(path: Path) -> set[str]:
    """Return the names of what lies beside the database, and its own."""
    return {one.name for one in path.parent.iterdir()}


def test_compacting_gives_the_space_back_and_keeps_every_row(
    open_disk: OpenDisk, tend: Tend, path: Path
) -> None:
    """By a digest of all of them; nothing is left beside it, and its work goes on."""
    with open_disk() as store:
        filled(store)
        begin(store, store.list().items[0].id)
        before = store._database._connection.execute("PRAGMA page_count").get
    content, inode = digest_of(path), path.stat().st_ino
    told = []
    compacted = tend(progress=lambda what, *_: told.append(what)).compact()
    assert names(path) == {*at_rest(path), "owners"}
    assert compacted.after_bytes < compacted.before_bytes / 2
    assert compacted.before_bytes == before * 4096
    assert compacted.after_bytes == path.stat().st_size
    assert digest_of(path) == content
    assert path.stat().st_ino == inode
    assert {"checking the database", "compacting"} == set(told)
    again = tend().compact()
    assert again.before_bytes == again.after_bytes == compacted.after_bytes
    with open_disk() as store:
        assert len(store.recovered) == 1
        turn(store, store.list().items[0].id)


@pytest.mark.parametrize("writing", [True, False])
def test_nothing_is_compacted_while_it_is_in_use(
    open_disk: OpenDisk, tend: Tend, path: Path, *, writing: bool
) -> None:
    """By this process or another one; not one byte is written."""
    with open_disk() as store:
        filled(store)
    store = open_disk(writing=writing)
    before = path.stat()
    with pytest.raises(StoreInUse) as refused:
        tend(busy_timeout_ms=50).compact()
    assert refused.value.work == "compact"
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    store.close()
    tend().compact()


def test_a_damaged_database_is_not_compacted(open_disk: OpenDisk, tend: Tend, path: Path) -> None:
    """It would spread the damage, or lose what could be salvaged."""
    with open_disk() as store:
        filled(store, kept_count=10, deleted_count=0)
        backup = tend().back_up()
    content = bytearray(path.read_bytes())
    content[len(content) // 2 :: 4096] = b"\xff" * len(content[len(content) // 2 :: 4096])
    path.write_bytes(content)
    with pytest.raises(StoreDamaged) as damaged:
        tend().compact()
    assert damaged.value.backup_path == backup.path
    assert path.read_bytes() == content


@pytest.mark.parametrize("where", ["checking the database", "compacting"])
def test_ctrl_c_in_the_middle_of_compacting_leaves_what_was(
    open_disk: OpenDisk, tend: Tend, path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """A real one, while SQLite works: Python sees it although one statement runs."""
    monkeypatch.setattr(telling, "STEPS_BETWEEN", 100)
    with open_disk() as store:
        filled(store)
    content, calls = digest_of(path), []

    def interrupt(what: str, done: int, total: int) -> None:
        calls.append(what)
        if calls.count(where) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        tend(progress=interrupt).compact()
    assert digest_of(path) == content
    assert names(path) <= {*at_rest(path), "owners", f"{path.name}-wal", f"{path.name}-shm"}
    tend().compact()
    assert digest_of(path) == content


@pytest.mark.parametrize("kind", [KeyboardInterrupt, BrokenPipeError, ValueError])
@pytest.mark.parametrize("name", CALLS)
def test_what_progress_raises_ends_a_call_in_good_order(
    open_disk: OpenDisk, tend: Tend, path: Path, name: str, kind: type[BaseException]
) -> None:
    """As itself, whatever it is; the content, the names and the store's use are as before."""
    old_database(path, workspace_id=WORKSPACE_ID)
    tend().back_up()
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("UPDATE sessions SET title = 'since the backup'")
    content, before = digest_of(path), names(path)
    told: list[str] = []
    copy = path.parent.with_name("copy")
    shutil.copytree(path.parent, copy)
    CALLS[name](tend(copy / path.name, progress=lambda what, *_: told.append(what)))
    assert told or name == "plan"
    for at, what in enumerate(told):
        left = iter(range(at + 1))

        def refuse(*_: object, left: Any = left, at: int = at) -> None:
            if next(left) == at:
                raise kind

        with pytest.raises(kind):
            CALLS[name](tend(progress=refuse))
        if what == "checking the upgrade":  # which is committed by then
            content = digest_of(path)
        assert digest_of(path) == content, what
        # One that is whole may have been made before.
        after = names(path) - {one.name for one in backups_of(path)}
        allowed = {f"{path.name}-wal", f"{path.name}-shm", unproven_of(path).name}
        assert after - allowed == {*at_rest(path), "owners"}, what
        assert before <= names(path)
    with open_disk() as store:
        assert store.list().items


@pytest.mark.parametrize("name", CALLS)
def test_a_call_for_a_store_that_is_not_there_makes_nothing(
    tend: Tend, path: Path, name: str
) -> None:
    """No directory, and in one that is there no lock file."""
    expected = BackupUnusable if name == "restore" else StoreMissing
    with pytest.raises(expected):
        CALLS[name](tend())
    assert not path.parent.exists()
    assert tend().backups() == ()
    path.parent.mkdir()
    with pytest.raises(expected):
        CALLS[name](tend())
    assert tend().backups() == ()
    assert list(path.parent.iterdir()) == []


def of_another_workspace(path: Path) -> None:
    """Let it belong to another one."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("UPDATE store SET workspace_id = ?", (OTHER_ID,))


def of_another_program(path: Path) -> None:
    """Put another program's database in its place."""
    path.unlink()
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("CREATE TABLE t (a); PRAGMA user_version=7")


def of_a_newer_program(path: Path) -> None:
    """Let it be of a newer schema."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("PRAGMA user_version=99")


def no_database(path: Path) -> None:
    """Write text."""
    path.write_text("no database\n" * 1000)


def empty(path: Path) -> None:
    """Leave nothing in it."""
    path.write_bytes(b"")


def a_directory(path: Path) -> None:
    """Put a directory in its place."""
    path.unlink()
    path.mkdir()


def a_fifo(path: Path) -> None:
    """Put something in its place that never ends."""
    path.unlink()
    os.mkfifo(path)


WRONG: dict[Callable[[Path], None], type[StateStoreError]] = {
    of_another_workspace: StoreForeign,
    of_another_program: StoreForeign,
    of_a_newer_program: StoreNewer,
    no_database: StoreDamaged,
    empty: StoreDamaged,
    a_directory: StoreUnavailable,
    a_fifo: StoreUnavailable,
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_not_this_workspaces_store_is_refused_by_every_call(
    open_disk: OpenDisk, tend: Tend, path: Path, name: str, wrong: Callable[[Path], None]
) -> None:
    """With the package's own error, and its bytes as they were."""
    with open_disk() as store:
        session_with_turn(store)
        tend().back_up()
        turn(store, store.list().items[0].id)
    wrong(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(WRONG[wrong]) as refused:
        CALLS[name](tend())
    assert refused.value.hint
    assert (path.read_bytes() if path.is_file() else b"") == before
    assert not [one for one in names(path) if one.startswith(".") or "replaced" in one]
    assert [one.problem for one in tend().backups()] == [None]


def test_every_call_is_tried_here() -> None:
    """But for those that have files of their own; a new one has to be added."""
    public = {
        name
        for name, _ in inspect.getmembers(Maintenance, inspect.isfunction)
        if not name.startswith("_")
    }
    elsewhere = {"backups", "check", "salvage"}
    elsewhere |= {"look_around", "backups_holding", "remove_backups", "remove"}
    assert public == {*CALLS, *elsewhere}


@pytest.mark.parametrize("where", ["a file", "closed"])
def test_a_directory_that_cannot_be_one_is_named(
    tend: Tend, path: Path, run_as_stranger: RunPython, where: str
) -> None:
    """Its backups are not said to be none."""
    if where == "a file":
        path.parent.write_text("not a directory")
        for call in (*CALLS.values(), Maintenance.backups):
            with pytest.raises((StoreUnavailable, BackupUnusable)):
                call(tend())
        return
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    path.parent.mkdir(mode=0o700)
    said = run_as_stranger(
        """
for name in ("backups", "plan", "back_up", "restore", "compact", "upgrade"):
    try:
        getattr(tend(), name)()
    except StateStoreError as error:
        say(type(error).__name__, error.path)
"""
    ).splitlines()
    assert set(said[:3] + said[4:]) == {f"StoreUnavailable {path.parent}"}


@pytest.fixture
def _somebody_takes_the_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no call refuse to begin: as if there had been enough space when it asked."""
    monkeypatch.setattr(upgrading, "SPACE_FACTOR", 0)
    monkeypatch.setattr(maintenance, "_COMPACTING_FACTOR", 0)


def small(path: Path) -> None:
    """Make an old database, a little more than 100 KiB, with a backup and something since."""
    old_database(path, workspace_id=WORKSPACE_ID)
    Maintenance(path, workspace_id=WORKSPACE_ID).back_up()
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("UPDATE sessions SET title = 'since the backup'")


@pytest.mark.parametrize("free_kib", FREE_KIB)
@pytest.mark.parametrize("name", CHANGING)
@pytest.mark.usefixtures("_somebody_takes_the_space")
def test_a_full_disk_in_the_middle_of_a_call_loses_nothing(
    disk: Path, resize: Resize, tend: Tend, name: str, free_kib: int
) -> None:
    """Also where there was space enough when it began, and somebody else took it (C13)."""
    resize(4096)
    path = disk / "workspace" / "state.sqlite3"
    small(path)
    content, before = digest_of(path), names(path)
    used = sum(one.stat().st_blocks for one in disk.rglob("*")) // 2
    resize(used + free_kib)
    with suppress(StoreFull):
        CALLS[name](tend(path))
        resize(4096)
        assert free_kib > 0 or name == "compact"
        return
    resize(4096)
    assert digest_of(path) == content
    made = {one.name for one in backups_of(path)} - before
    assert not made or name == "upgrade"  # the backup is made before anything changes, and stays
    tend(path).compact()
    assert digest_of(path) == content
    assert names(path) == before | made
    CALLS[name](tend(path))


@pytest.mark.parametrize("name", ["upgrade", "compact"])
def test_a_call_that_needs_more_space_than_there_is_is_not_begun(
    disk: Path, resize: Resize, tend: Tend, name: str
) -> None:
    """It says how much it needs."""
    resize(4096)
    path = disk / "state.sqlite3"
    small(path)
    before, facts = names(path), path.stat()
    resize(sum(one.stat().st_blocks for one in disk.rglob("*")) // 2 + 100)
    with pytest.raises(StoreFull, match=r"needs [0-9]+ bytes free"):
        CALLS[name](tend(path))
    assert names(path) <= before | {f"{path.name}-wal", f"{path.name}-shm"}
    assert path.stat().st_mtime_ns == facts.st_mtime_ns


@pytest.mark.parametrize("name", CHANGING)
def test_a_disk_that_can_only_be_read_is_said_to_be_so(
    disk: Path, resize: Resize, tend: Tend, name: str
) -> None:
    """A chmod would not help (C14's kind)."""
    resize(4096)
    path = disk / "state.sqlite3"
    small(path)
    content = path.read_bytes()
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    with pytest.raises(StoreUnavailable, match=r"[Rr]ead-only") as refused:
        CALLS[name](tend(path))
    assert "chmod" not in str(refused.value.hint)
    assert path.read_bytes() == content


def test_compacting_says_that_temporary_files_have_no_room(
    disk: Path,
    open_disk: OpenDisk,
    run_python: RunPython,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SQLite makes one, and elsewhere: the database's own disk is not full."""
    with open_disk() as store:
        turn(store, store.create_session().id, "more than SQLite keeps in memory " * 100_000)
    content = digest_of(path)
    monkeypatch.setenv("SQLITE_TMPDIR", str(disk))
    said = run_python(
        """
try:
    tend().compact()
except StoreFull as error:
    say(error, error.hint)
"""
    )
    assert "temporary files" in said
    assert "SQLITE_TMPDIR" in said
    assert digest_of(path) == content


def test_everything_that_maintenance_makes_is_private_from_the_moment_it_exists(
    run_python: RunPython, path: Path, workspace_id: str
) -> None:
    """Whatever the umask: backups, locks, what is built, what was replaced (C34)."""
    old_database(path, workspace_id=workspace_id)
    seen = run_python(
        """
os.umask(0)
seen, looking = set(), False
def look(event="", args=()):
    global looking
    if looking or event.split(".")[0] not in ("open", "os", "fcntl", ""):
        return
    looking = True
    for one in [path.parent, *path.parent.rglob("*")]:
        try:
            facts = one.lstat()
        except FileNotFoundError:
            continue
        kind = one.name.removeprefix(path.name).lstrip("-.").split("-")[0].split(".")[-1]
        seen.add((kind, oct(facts.st_mode)[-3:], one.is_dir()))
    looking = False
sys.addaudithook(look)
options = {"progress": lambda *_: look()}
tend(**options).back_up()
tend(**options).upgrade()
with open_store() as store:
    store.create_session()
    tend(**options).back_up()
tend(**options).restore()
tend(**options).compact()
elsewhere = path.parent / "else" / "where" / "state.sqlite3"
Maintenance(elsewhere, workspace_id=workspace_id).restore(pathlib.Path(tend().backups()[0].path))
look()
for one in sorted(seen):
    say(*(str(word) or "?" for word in one))
"""
    ).splitlines()
    found = [line.split() for line in seen]
    assert {"backup", "replaced", "new", "ready", "restore", "gate", "presence", "wal"} <= {
        kind for kind, _, _ in found
    }
    assert {(mode, is_dir) for _, mode, is_dir in found} == {("600", "False"), ("700", "True")}


def test_no_call_leaves_a_descriptor(open_disk: OpenDisk, tend: Tend, path: Path) -> None:
    """Whether it succeeds or raises; hundreds of calls in a long run (C33)."""
    with open_disk() as store:
        session_with_turn(store)
        tend().back_up()
    damaged = path.with_name(f"{path.name}.backup-20200101T000000000000Z-v{VERSION}")
    damaged.write_bytes(bytes(5000))
    os.mkfifo(path.with_name(f"{path.name}.backup-20200101T000000000001Z-v{VERSION}"))

    def refuse(*_: object) -> None:
        raise BrokenPipeError

    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    baseline, calls = count(), 0
    for _ in range(HANDLE_ROUNDS):
        for call in (*CALLS.values(), Maintenance.backups):
            call(tend())
            with suppress(BrokenPipeError):
                call(tend(progress=refuse))
            with suppress(StateStoreError):
                call(tend(workspace_id=OTHER_ID))
        with pytest.raises(BackupUnusable):
            tend().restore(damaged)
        with open_disk() as store:
            store.create_session()
            with pytest.raises(StoreInUse):
                tend(busy_timeout_ms=0).compact()
        calls += 3 * len(CALLS) + 5
        for one in path.parent.glob("*.replaced-*"):
            one.unlink()
    assert count() == baseline
    assert calls > (1000 if LONG else 150)


def test_calls_of_several_threads_stand_alone(open_disk: OpenDisk, tend: Tend) -> None:
    """One object for all of them."""
    import threading  # noqa: PLC0415 - only here

    store, tended = open_disk(), tend()
    session_with_turn(store)
    raised: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(5):
                assert tended.plan() is None
                store.create_session()
                assert tended.back_up().problem is None
                assert tended.backups()
        except BaseException as error:  # noqa: BLE001 - to be seen outside of the thread
            raised.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert raised == []


def test_an_old_store_is_backed_up_and_compacted_as_it_is(
    tend: Tend, path: Path, workspace_id: str
) -> None:
    """Neither needs an upgrade, nor makes one."""
    old_database(path, workspace_id=workspace_id)
    content = digest_of(path)
    assert tend().back_up().version == FIRST.version
    tend().compact()
    assert digest_of(path) == content
    planned = tend().plan()
    assert planned is not None
    assert planned.from_version == FIRST.version
