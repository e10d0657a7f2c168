from __future__ import annotations

import os
import shutil
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from state_store import (
    Backup,
    BackupUnusable,
    Maintenance,
    NewSession,
    SqliteStore,
    StoreDamaged,
    StoreForeign,
    StoreInUse,
    StoreLost,
    StoreNewer,
    StoreUnavailable,
    new_id,
)
from state_store.sqlite.beside import at_rest, intent_of, log_of
from state_store.sqlite.schema import SCHEMA
from state_store.testing.clocks import SteppingClock
from state_store.testing.family import old_database
from state_store.testing.turns import begin, contents, session_with_turn, turn

if TYPE_CHECKING:
    from collections.abc import Callable

    OpenDisk = Callable[..., SqliteStore]
    Tend = Callable[..., Maintenance]
    RunPython = Callable[..., str]
    StartPython = Callable[..., Any]  # a Program of conftest.py

NEWER = SCHEMA.version + 1
NO_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
MARKER = "Marker-7c19ad40"
OTHER_ID = "99999999-2222-4333-8444-555555555555"
# Anybody but a SQLite that has it open may look at the bytes: here, when nobody has.
BYTES = """
for one in sorted(path.parent.rglob("*")):
    if one.is_file() and not one.name.endswith("-shm") and one.read_bytes():
        say(one.name, one.read_bytes().hex())
"""


@pytest.fixture
def stored(run_python: RunPython) -> Callable[[], list[str]]:
    """Return what tells the name and the bytes of every file that holds something.

    But for SQLite's index of a log: readers make one, and an empty log.
    """
    return lambda: run_python(BYTES).splitlines()


def facts(path: Path) -> dict[str, tuple[int, int, int]]:
    """Return what tells a changed file from an unchanged one without opening it.

    But for those that readers make: SQLite's index of a log, and an empty log.
    """
    found = {one.name: one.stat() for one in path.parent.iterdir()}
    readers = {f"{path.name}-shm", *(name for name, one in found.items() if one.st_size == 0)}
    found = {name: one for name, one in found.items() if name not in readers}
    return {name: (one.st_ino, one.st_size, one.st_mtime_ns) for name, one in found.items()}


def two_states(open_disk: OpenDisk, tended: Maintenance) -> tuple[str, Backup]:
    """Return a session of two turns, closed, and the backup that holds one of them."""
    with open_disk() as store:
        session_id = session_with_turn(store)
        backup = tended.back_up()
        turn(store, session_id, "later")
    return session_id, backup


@pytest.fixture
def two_states_backup(open_disk: OpenDisk, tend: Tend) -> Backup:
    """Return the backup of a closed store that went on after it."""
    return two_states(open_disk, tend())[1]


@pytest.mark.parametrize("writing", [True, False])
def test_a_database_that_another_process_holds_is_not_replaced(
    open_disk: OpenDisk, tend: Tend, start_python: StartPython, path: Path, *, writing: bool
) -> None:
    """It is named by its pid; nothing is changed; afterwards it can be replaced."""
    _, backup = two_states(open_disk, tend())
    other = start_python(
        f"store = open_store(writing={writing}); say(len(store.list().items)); sys.stdin.readline()"
    )
    assert other.line() == "1"
    before = facts(path)
    with pytest.raises(StoreInUse) as refused:
        tend(busy_timeout_ms=50).restore()
    assert refused.value.work == "restore"
    if writing or Path("/proc/locks").exists():  # a reader writes nothing down
        ((pid, _, since),) = refused.value.holders
        assert pid == other.pid
        assert (since is not None) == writing
        assert str(other.pid) in str(refused.value)
    assert facts(path) == before
    other.go_on()
    assert other.wait() == 0
    assert tend().restore().backup == backup


@pytest.mark.parametrize("writing", [True, False])
def test_a_database_that_this_process_holds_is_not_replaced(
    open_disk: OpenDisk, tend: Tend, path: Path, *, writing: bool
) -> None:
    """Its own stores are in the way like those of others."""
    two_states(open_disk, tend())
    store = open_disk(writing=writing)
    before = facts(path)
    with pytest.raises(StoreInUse):
        tend(busy_timeout_ms=50).restore()
    assert facts(path) == before
    store.close()
    tend().restore()


def test_what_is_no_file_is_neither_waited_for_nor_replaced(
    tend: Tend, path: Path, two_states_backup: Backup
) -> None:
    """A FIFO looks empty, and SQLite would wait for whoever writes into it."""
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(StoreUnavailable, match="not a regular file"):
        tend().restore(Path(two_states_backup.path), over_damaged=True)
    assert path.is_fifo()


def zeroed_header(content: bytearray) -> None:
    """Overwrite bytes 0 to 99."""
    content[:100] = bytes(100)


def half(content: bytearray) -> None:
    """Cut it in the middle."""
    del content[len(content) // 2 :]


def flipped_page(content: bytearray) -> None:
    """Flip all bits of a page in the middle."""
    start = len(content) // 8192 * 4096
    content[start : start + 4096] = bytes(one ^ 255 for one in content[start : start + 4096])


def nothing_left(content: bytearray) -> None:
    """Leave an empty file."""
    content.clear()


@pytest.mark.parametrize("damage", [zeroed_header, half, flipped_page, nothing_left])
def test_a_damaged_database_is_replaced_only_when_told_so(
    open_disk: OpenDisk,
    tend: Tend,
    path: Path,
    damage: Callable[[bytearray], None],
    stored: Callable[[], list[str]],
) -> None:
    """And stays, as it was, beside what replaced it."""
    session_id, backup = two_states(open_disk, tend())
    content = bytearray(path.read_bytes())
    damage(content)
    path.write_bytes(content)
    before = stored()
    with pytest.raises(StoreDamaged) as refused:
        tend().restore()
    assert refused.value.backup_path == backup.path
    assert stored() == before
    restored = tend().restore(over_damaged=True)
    assert Path(str(restored.replaced_path)).read_bytes() == content
    assert (restored.backup, restored.session_count) == (backup, 1)
    with open_disk() as store:
        assert contents(store, session_id) == ["question", "answer"]


def test_a_newer_database_is_replaced_only_when_told_so(
    open_disk: OpenDisk, tend: Tend, path: Path, stored: Callable[[], list[str]]
) -> None:
    """To be told that it is damaged is not to be told that it is newer."""
    session_id, _ = two_states(open_disk, tend())
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(f"PRAGMA user_version={NEWER}")
    before = stored()
    with pytest.raises(StoreNewer):
        tend().restore(over_damaged=True)
    assert stored() == before
    restored = tend().restore(over_newer=True)
    assert restored.deletions_known
    with closing(apsw.Connection(str(restored.replaced_path))) as connection:
        assert connection.pragma("user_version") == NEWER
    with open_disk() as store:
        assert contents(store, session_id) == ["question", "answer"]


@pytest.mark.parametrize(
    "change", ["UPDATE store SET workspace_id = :id", "PRAGMA application_id=7"]
)
def test_what_is_not_ours_is_never_replaced(
    open_disk: OpenDisk, tend: Tend, path: Path, change: str, stored: Callable[[], list[str]]
) -> None:
    """Whatever is told: another workspace's database, another program's."""
    two_states(open_disk, tend())
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(change, {"id": OTHER_ID})
    before = stored()
    with pytest.raises(StoreForeign):
        tend().restore(over_damaged=True, over_newer=True, revive_deleted=True)
    assert stored() == before


def _changed(statement: str) -> Callable[[Path, Path], None]:
    def change(file: Path, good: Path) -> None:
        shutil.copy(good, file)
        with closing(apsw.Connection(str(file))) as connection:
            connection.execute(statement, {"id": OTHER_ID})

    return change


def _damaged(damage: Callable[[bytearray], None]) -> Callable[[Path, Path], None]:
    def write(file: Path, good: Path) -> None:
        content = bytearray(good.read_bytes())
        damage(content)
        file.write_bytes(content)

    return write


UNUSABLE: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "without its header": (_damaged(zeroed_header), "corrupt"),
    "cut in half": (_damaged(half), "corrupt"),
    "with a flipped page": (_damaged(flipped_page), "corrupt"),
    "empty": (_damaged(nothing_left), "empty"),
    "of another workspace": (_changed("UPDATE store SET workspace_id = :id"), "workspace"),
    "of another program": (_changed("PRAGMA application_id=7"), "another program"),
    "newer": (_changed(f"PRAGMA user_version={NEWER}"), f"version {NEWER}"),
    "without its first table": (_changed("DROP TABLE store"), "first table"),
    "with a dangling reference": (
        _changed("PRAGMA foreign_keys=OFF; DELETE FROM sessions"),
        "corrupt",
    ),
    "missing": (lambda *_: None, "not there"),
    "a directory": (lambda file, _: file.mkdir(), "regular file"),
    "a FIFO": (lambda file, _: os.mkfifo(file), "regular file"),
    "a link": (lambda file, good: file.symlink_to(good), "regular file"),
}


@pytest.mark.timeout(120, method="thread")  # SQLite begins anew after a signal
@pytest.mark.parametrize("kind", UNUSABLE)
def test_a_backup_that_cannot_be_restored_changes_nothing(
    open_disk: OpenDisk, tend: Tend, path: Path, tmp_path: Path, kind: str
) -> None:
    """It is refused by its name before anybody is waited for, and nothing hangs."""
    make, reason = UNUSABLE[kind]
    with open_disk() as store:
        session_with_turn(store)
        good = tend().back_up()
        file = tmp_path / "chosen"
        make(file, Path(good.path))
        before = facts(path)
        with pytest.raises(BackupUnusable, match=reason) as refused:
            tend(busy_timeout_ms=60_000).restore(file, over_damaged=True, over_newer=True)
        assert facts(path) == before
    assert refused.value.path == str(file)


@pytest.mark.parametrize("linked", [False, True])
def test_the_database_is_no_backup_of_itself(
    open_disk: OpenDisk, tend: Tend, path: Path, tmp_path: Path, *, linked: bool
) -> None:
    """By whatever name: its newest commits may be in its log."""
    open_disk().close()
    name = tmp_path / "linked" if linked else path
    if linked:
        os.link(path, name)
    with pytest.raises(BackupUnusable, match="the database itself"):
        tend().restore(name)


def test_a_call_for_a_store_that_never_was_makes_nothing(tend: Tend, path: Path) -> None:
    """There is no backup either."""
    with pytest.raises(BackupUnusable, match="no backup"):
        tend().restore()
    with pytest.raises(BackupUnusable, match="not there"):
        tend().restore(path.with_name("backup"))
    assert not path.parent.exists()


def test_the_newest_good_backup_is_taken_when_none_is_named(
    open_disk: OpenDisk, tend: Tend
) -> None:
    """A damaged one is passed over, also when only its inside is damaged."""
    with open_disk() as store:
        made = []
        for _ in range(4):
            session_with_turn(store)
            made.append(tend().back_up())
    for damage, backup in zip((half, flipped_page), made[2:], strict=True):
        _damaged(damage)(Path(backup.path), Path(backup.path))
    assert tend().restore().backup == made[1]


def test_what_was_replaced_is_kept_with_the_newest_commits_in_its_log(
    open_disk: OpenDisk, tend: Tend, run_python: RunPython, path: Path
) -> None:
    """Any SQLite reads them, and they can be restored in turn: nothing was lost."""
    session_id, _ = two_states(open_disk, tend())
    run_python('turn(open_store(), sys.argv[3]); say("gone"); os._exit(0)', session_id)
    log = log_of(path).read_bytes()
    assert log
    restored = tend().restore()
    replaced = Path(str(restored.replaced_path))
    assert log_of(replaced).read_bytes() == log
    with open_disk() as store:
        assert contents(store, session_id) == ["question", "answer"]
    undone = tend().restore(replaced)
    with open_disk() as store:
        said = ["question", "answer", "later", "answer", "question", "answer"]
        assert contents(store, session_id) == said
    assert undone.replaced_path not in (None, str(replaced))
    assert log_of(replaced).read_bytes() == log
    with closing(apsw.Connection(str(replaced))) as connection:
        assert connection.execute("SELECT count(*) FROM messages").get == 6


def test_deleted_sessions_stay_deleted_and_their_bytes_are_nowhere_in_the_new_database(
    open_disk: OpenDisk, tend: Tend, path: Path, run_python: RunPython
) -> None:
    """The backup keeps them, and so does what was replaced not: the tombstone is honoured."""
    with open_disk() as store:
        kept = session_with_turn(store)
        deleted = store.create_session(NewSession(title=MARKER, system_prompt=MARKER * 90)).id
        for number in range(8):
            turn(store, deleted, f"{MARKER} {number} " * 700)
        backup = tend().back_up()
        # Never in the backup: it was begun and deleted later.
        unknown = session_with_turn(store)
        store.delete(deleted)
        store.delete(unknown)
    restored = tend().restore()
    assert (restored.session_count, restored.erased_count) == (1, 1)
    assert restored.deletions_known
    with open_disk() as store:
        assert [one.id for one in store.list().items] == [kept]
        assert run_python(
            "say(*sorted(one.name for one in path.parent.iterdir() if one.is_file()"
            f" and b'{MARKER}' in one.read_bytes()))"
        ).split() == [Path(backup.path).name]
        for gone in (deleted, unknown):
            with pytest.raises(Exception, match="was deleted"):
                store.create_session(session_id=gone)
    with closing(apsw.Connection(str(path))) as connection:
        counts = dict(connection.execute("SELECT session_id, message_count FROM tombstones"))
    assert counts == {deleted: 16, unknown: 2}


def test_deleted_sessions_come_back_when_told_so(open_disk: OpenDisk, tend: Tend) -> None:
    """Only those that the backup has; the others stay deleted."""
    with open_disk() as store:
        deleted = session_with_turn(store)
        tend().back_up()
        unknown = session_with_turn(store)
        store.delete(deleted)
        store.delete(unknown)
    restored = tend().restore(revive_deleted=True)
    assert (restored.session_count, restored.erased_count) == (1, 0)
    with open_disk() as store:
        assert contents(store, deleted) == ["question", "answer"]
        turn(store, deleted)
        assert store.delete(deleted).message_count == 4
        with pytest.raises(Exception, match="was deleted"):
            store.get_session(unknown)


@pytest.mark.parametrize("lost", [zeroed_header, None])
def test_deletions_that_cannot_be_known_are_said_to_be_unknown(
    open_disk: OpenDisk, tend: Tend, path: Path, lost: Callable[[bytearray], None] | None
) -> None:
    """The database is damaged, or is gone: then it cannot say what was deleted since."""
    with open_disk() as store:
        deleted = session_with_turn(store)
        tend().back_up()
        store.delete(deleted)
    if lost is None:
        path.unlink()
    else:
        _damaged(lost)(path, path)
    restored = tend().restore(over_damaged=lost is not None)
    assert not restored.deletions_known
    assert (restored.session_count, restored.erased_count) == (1, 0)
    assert (restored.replaced_path is None) == (lost is None)


@pytest.mark.parametrize("depth", [1, 3])
def test_a_backup_is_restored_where_nothing_is(
    open_disk: OpenDisk, tend: Tend, tmp_path: Path, workspace_id: str, depth: int
) -> None:
    """After a lost laptop: into an empty directory, and into one that is not there yet (C12)."""
    session_id, backup = two_states(open_disk, tend())
    path = tmp_path.joinpath(*(f"new{number}" for number in range(depth)), "state.sqlite3")
    if depth == 1:
        path.parent.mkdir()
    restored = tend(path).restore(Path(backup.path))
    assert restored.replaced_path is None
    assert {one.name for one in path.parent.iterdir()} == at_rest(path)
    with SqliteStore.open(path, workspace_id=workspace_id) as store:
        assert contents(store, session_id) == ["question", "answer"]


def test_a_lost_database_is_restored_from_beside_it(
    open_disk: OpenDisk, tend: Tend, path: Path
) -> None:
    """Its old log goes aside, and is not played into the new one."""
    session_id, _ = two_states(open_disk, tend())
    with open_disk() as store:
        turn(store, session_id)
        log = log_of(path)
        shutil.copy(log, path.with_name("log"))
    path.unlink()
    path.with_name("log").rename(log)
    with pytest.raises(StoreLost):
        open_disk()
    assert tend().restore().replaced_path is None
    with open_disk() as store:
        assert contents(store, session_id) == ["question", "answer"]


def test_an_older_backup_is_restored_and_the_next_opening_upgrades_it(
    open_disk: OpenDisk, tend: Tend, path: Path, tmp_path: Path, workspace_id: str
) -> None:
    """Its pending run is interrupted; its tombstone is honoured there too."""
    old = tmp_path / "old" / "state.sqlite3"
    filled = old_database(old, workspace_id=workspace_id)
    first, second, *_ = filled.session_ids
    backup = Path(tend(old).back_up().path)
    with open_disk() as store:
        store.save(store.load(session_with_turn(store)), timedelta(0))
    restored = tend().restore(backup)
    assert restored.version == 1
    assert restored.session_count == len(filled.session_ids)
    with open_disk() as store:
        assert store.upgraded is not None
        assert store.upgraded.from_version == 1
        assert {one.id for one in store.list(limit=None).items} == {
            one for one in filled.session_ids if one != second
        }
        assert [one.id for one in store.recovered] == [filled.pending_run_id]
        assert len(contents(store, first)) > 2


def test_a_run_that_was_pending_in_the_backup_is_interrupted(
    open_disk: OpenDisk, tend: Tend
) -> None:
    """Its owner cannot be alive: nobody had the store open."""
    with open_disk() as store:
        session_id = store.create_session().id
        run = begin(store, session_id)
        tend().back_up()
        store.fail_run(run.id, "cancelled", usage=run.usage)
    tend().restore()
    with open_disk() as store:
        assert [(one.id, one.error_type) for one in store.recovered] == [(run.id, "interrupted")]
        turn(store, session_id)


def test_every_restore_gives_another_generation(
    open_disk: OpenDisk, tend: Tend, path: Path
) -> None:
    """So that a search index knows that its row numbers mean nothing any more."""
    two_states(open_disk, tend())

    def generation() -> object:
        with closing(apsw.Connection(str(path))) as connection:
            return connection.execute("SELECT generation FROM store").get

    found = {generation()}
    for _ in range(2):
        tend().restore()
        found.add(generation())
    assert len(found) == 3


def test_two_restores_of_one_instant_keep_both_that_were_replaced(
    open_disk: OpenDisk, tend: Tend
) -> None:
    """A clock that stands still gives no name twice."""
    two_states(open_disk, tend())
    tended = tend(clock=SteppingClock(step=timedelta(0)))
    replaced = {tended.restore().replaced_path for _ in range(3)}
    assert len(replaced) == 3
    assert all(Path(str(one)).exists() for one in replaced)


@NO_ROOT
@pytest.mark.parametrize(
    ("call", "hindered"),
    [
        ("back_up()", ""),
        ("restore()", ""),
        ("restore(pathlib.Path(sys.argv[3]))", ""),
        ("compact()", "state.sqlite3"),
        ("upgrade()", None),  # there is nothing to do, which he may know
        ("plan()", None),
        ("backups()", None),
    ],
)
def test_a_stranger_is_told_what_hinders_him_and_changes_nothing(
    two_states_backup: Backup,
    path: Path,
    run_as_stranger: RunPython,
    call: str,
    hindered: str | None,
) -> None:
    """Everything belongs to root and may only be read; the path and a fix are named (C14)."""
    backup = two_states_backup
    for one in (path.parent, *path.parent.rglob("*")):
        one.chmod(0o755 if one.is_dir() else 0o644)
    before = facts(path)
    said = run_as_stranger(
        f"""
try:
    tend().{call}
    say("done")
except StateStoreError as error:
    say(type(error).__name__, "|", error.path, "|", error, "|", error.hint)
""",
        backup.path,
    )
    assert facts(path) == before
    if hindered is None:
        assert said == "done\n"
        return
    kind, blocked, message, hint = said.split(" | ")
    assert (kind, blocked) == ("StoreUnavailable", str(path.parent / hindered).rstrip("/"))
    assert blocked in message
    assert "chown" in hint


@NO_ROOT
def test_a_directory_in_which_no_backup_can_be_made_is_named(
    open_disk: OpenDisk, path: Path, run_python: RunPython, run_as_stranger: RunPython
) -> None:
    """The database can be read, for its log and index are there; a chown of it would not help."""
    with open_disk() as store:
        session_with_turn(store)
    run_python("open_store().create_session(); os._exit(0)")
    for one in path.parent.iterdir():
        one.chmod(0o755 if one.is_dir() else 0o666 if one.name.endswith("-shm") else 0o644)
    path.parent.chmod(0o755)
    said = run_as_stranger(
        """
try:
    tend().back_up()
except StoreUnavailable as error:
    say(error.path)
"""
    )
    assert said.split() == [str(path.parent)]


@NO_ROOT
def test_a_backup_that_may_not_be_read_is_said_to_be_so(
    open_disk: OpenDisk, tend: Tend, path: Path, run_as_stranger: RunPython
) -> None:
    """And no other one is restored in its place without a word."""
    _, backup = two_states(open_disk, tend())
    for one in (path.parent, *path.parent.rglob("*")):
        os.chown(one, 65534, 65534)
    os.chown(backup.path, 0, 0)
    said = run_as_stranger(
        """
say(tend().backups()[0].problem)
try:
    tend().restore(pathlib.Path(sys.argv[3]))
except BackupUnusable as error:
    say(error)
""",
        backup.path,
    ).splitlines()
    assert said == [
        "this user may not read it",
        f"Cannot use {backup.path} as a backup: this user may not read it.",
    ]


def test_what_progress_raises_ends_a_restore_with_nothing_changed(
    open_disk: OpenDisk, tend: Tend, path: Path
) -> None:
    """At every call of it, until one comes after the swap."""
    session_id, _ = two_states(open_disk, tend())
    names = []
    tend(progress=lambda what, *_: names.append(what)).restore()
    assert dict.fromkeys(names) == dict.fromkeys(
        ("checking the backup", "checking the database", "copying", "checking the copy")
    )
    before = facts(path)
    for number in range(len(names)):
        calls = iter(range(len(names)))

        def refuse(*_: object, at: int = number, calls: Any = calls) -> None:
            if next(calls) == at:
                raise BrokenPipeError

        with pytest.raises(BrokenPipeError):
            tend(progress=refuse).restore()
        assert facts(path) == before
    with open_disk() as store:
        assert contents(store, session_id) == ["question", "answer"]


def test_other_calls_say_that_a_restore_is_unfinished_or_finish_it(
    open_disk: OpenDisk, tend: Tend, path: Path, run_python: RunPython
) -> None:
    """The database has no name at that moment, and is neither missing nor lost."""
    session_id, _ = two_states(open_disk, tend())
    run_python(
        """
def die(event, args):
    if event == "os.rename" and str(args[1]) == str(path):
        os._exit(0)
sys.addaudithook(die)
tend().restore()
"""
    )
    assert not path.exists()
    for call in (tend().plan, tend().back_up):
        with pytest.raises(StoreUnavailable, match="begun and not finished"):
            call()
    assert len(tend().backups()) == 1
    assert tend().upgrade() is None
    with open_disk() as store:
        assert contents(store, session_id) == ["question", "answer"]
    assert tend().plan() is None


def test_another_store_of_the_same_name_elsewhere_is_not_in_the_way(
    open_disk: OpenDisk, tend: Tend, tmp_path: Path, workspace_id: str
) -> None:
    """Locks are of one database."""
    two_states(open_disk, tend())
    elsewhere = tmp_path / new_id() / "state.sqlite3"
    with SqliteStore.open(elsewhere, workspace_id=workspace_id):
        tend().restore()


@pytest.mark.parametrize("intent", ["{}", '{"ready": "x", "replaced": "y", "generation": "z"}'])
def test_a_restore_that_cannot_be_finished_any_more_does_not_lock_its_user_out(
    open_disk: OpenDisk, tend: Tend, path: Path, intent: str
) -> None:
    """Its file was removed, or its record damaged: refused, until another one is asked for."""
    with closing(open_disk()) as store:
        session_id = session_with_turn(store)
    tend().back_up()
    intent_of(path).write_text(intent, encoding="utf-8")
    with pytest.raises(StoreDamaged, match="restore"):
        open_disk()
    with pytest.raises(StoreDamaged, match="restore"):
        tend().restore()
    assert tend().salvage(path.with_name("saved.sqlite3")).session_count == 1
    assert tend().restore(over_damaged=True).session_count == 1
    with closing(open_disk()) as store:
        assert contents(store, session_id)
