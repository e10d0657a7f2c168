from __future__ import annotations

import errno
import itertools
import os
import shutil
import signal
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from state_store import Backup, BackupUnusable, Maintenance, SqliteStore, StoreDamaged, new_id
from state_store.sqlite import backups
from state_store.sqlite.beside import at_rest, backups_of, log_of, time_of
from state_store.sqlite.schema import SCHEMA
from state_store.testing.clocks import SteppingClock
from state_store.testing.turns import contents, session_with_turn, turn

if TYPE_CHECKING:
    from collections.abc import Callable

    OpenDisk = Callable[..., SqliteStore]
    Tend = Callable[..., Maintenance]
    RunPython = Callable[..., str]
    StartPython = Callable[..., Any]  # a Program of conftest.py

VERSION = SCHEMA.version
LONG = os.environ.get("STATE_STORE_LONG") == "1"
TELLS_LOCKS = pytest.mark.skipif(
    not Path("/proc/locks").exists(), reason="only Linux tells who holds a lock"
)
NO_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


def grown(store: SqliteStore, tended: Maintenance) -> Backup:
    """Store something new and back it up."""
    session_with_turn(store)
    return tended.back_up()


def paths(found: tuple[Backup, ...]) -> list[Path]:
    """Return the paths of *found*, in its order."""
    return [Path(one.path) for one in found]


def test_a_backup_holds_what_only_the_log_has_and_is_one_file(
    tend: Tend, start_python: StartPython, path: Path, tmp_path: Path
) -> None:
    """A writer keeps its connection open and writes on while the backup is made (C12)."""
    writer = start_python(
        """
store = open_store()
session_id = store.create_session().id
store._database._connection.wal_autocheckpoint(0)
def write(numbers):
    for number in numbers:
        complete(store, begin(store, session_id, str(2 * number)), str(2 * number + 1))
write(range(25))
say(session_id)
sys.stdin.readline()
write(range(25, 30))
say("on")
write(range(30, 50))
say("done")
sys.stdin.readline()
"""
    )
    session_id = writer.line()
    assert log_of(path).stat().st_size > path.stat().st_size, "the log was moved already"
    writing_on: list[str] = []

    def progress(what: str, done: int, total: int) -> None:
        if what == "copying" and not writing_on:
            writer.go_on()
            writing_on.append(writer.line())

    backup = Path(tend(progress=progress).back_up().path)
    assert writing_on == ["on"]
    assert writer.line() == "done"

    elsewhere = tmp_path / "elsewhere" / "state.sqlite3"
    elsewhere.parent.mkdir()
    shutil.copy(backup, tmp_path / "one file")
    restored = tend(elsewhere).restore(tmp_path / "one file")
    assert (restored.session_count, restored.replaced_path) == (1, None)
    with closing(SqliteStore.open(elsewhere, workspace_id=tend()._place.workspace_id)) as store:
        said = contents(store, session_id)
    assert said == [str(number) for number in range(len(said))]
    assert len(said) >= 50
    with closing(apsw.Connection(str(elsewhere))) as connection:
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    writer.go_on()
    assert writer.wait() == 0


def test_any_sqlite_reads_a_backup_where_nothing_can_be_written(
    open_disk: OpenDisk, tend: Tend, run_as_stranger: RunPython, tmp_path: Path
) -> None:
    """It needs no log and no index, and so no directory to make them in (C12)."""
    with open_disk() as store:
        backup = grown(store, tend())
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(backup.path, alone / "backup")
    (alone / "backup").chmod(0o444)
    alone.chmod(0o555)
    said = run_as_stranger(
        """
import apsw
connection = apsw.Connection(sys.argv[3], flags=apsw.SQLITE_OPEN_READONLY)
found = os.listdir(os.path.dirname(sys.argv[3]))
say(connection.execute("SELECT count(*) FROM messages").get, *found)
""",
        str(alone / "backup"),
    )
    alone.chmod(0o755)
    assert said.split() == ["2", "backup"]


@pytest.mark.parametrize("where", ["copying", "checking the backup"])
def test_ctrl_c_in_the_middle_of_a_backup_leaves_nothing_of_it(
    open_disk: OpenDisk, tend: Tend, path: Path, where: str
) -> None:
    """In each of its parts; the store is used all the while."""
    store = open_disk()
    session_id = session_with_turn(store)

    def interrupt(what: str, done: int, total: int) -> None:
        if what == where:
            os.kill(os.getpid(), signal.SIGINT)

    before = {one.name for one in path.parent.iterdir()}
    with pytest.raises(KeyboardInterrupt):
        tend(progress=interrupt).back_up()
    assert {one.name for one in path.parent.iterdir()} == before
    turn(store, session_id)
    assert tend().back_up().session_count == 1


def test_the_newest_five_stay_whatever_their_age(open_disk: OpenDisk, tend: Tend) -> None:
    """Nothing goes because it is old, and what goes is named to whoever keeps the audit (C42)."""
    clock, store = SteppingClock(step=timedelta(days=400)), open_disk()
    tended = tend(clock=clock)
    made = [grown(store, tended) for _ in range(5)]
    assert [one.pruned for one in made] == [()] * 5
    clock.now += timedelta(days=4000)
    assert paths(tended.backups()) == paths(tuple(made))
    made.append(grown(store, tended))
    assert made[5].pruned == (made[0].path,)
    assert paths(tended.backups()) == paths(tuple(made[1:]))
    assert [one.session_count for one in tended.backups()] == [2, 3, 4, 5, 6]


def test_a_backup_tells_what_it_is(open_disk: OpenDisk, tend: Tend) -> None:
    """Version, time, size and sessions; the same when it is made and when it is listed."""
    now = datetime(2026, 3, 4, 5, 6, 7, 8, tzinfo=UTC)
    made = grown(open_disk(), tend(clock=lambda: now))
    assert tend().backups() == (made,)
    assert (made.created_at, made.version, made.session_count) == (now, VERSION, 1)
    assert made.size_bytes == Path(made.path).stat().st_size
    assert (made.problem, made.pruned) == (None, ())
    assert made.path.endswith(f".backup-20260304T050607000008Z-v{VERSION}")


def test_a_clock_of_another_zone_names_backups_in_utc(open_disk: OpenDisk, tend: Tend) -> None:
    """Else their order would change with the zone."""
    now = datetime.fromisoformat("2026-03-04T05:06:07+05:00")
    made = grown(open_disk(), tend(clock=lambda: now))
    assert made.created_at == now
    assert ".backup-20260304T000607000000Z" in made.path


def test_no_damaged_file_pushes_out_a_good_one(open_disk: OpenDisk, tend: Tend, path: Path) -> None:
    """However new it calls itself; it stays for whoever looks into it."""
    store, tended = open_disk(), tend()
    good = [grown(store, tended) for _ in range(3)]
    damaged = []
    for number in range(6):
        file = path.with_name(f"{path.name}.backup-2999010{number + 1}T000000000000Z-v{VERSION}")
        file.write_bytes(Path(good[0].path).read_bytes()[: 4096 * number + 100 * (number % 2)])
        damaged.append(file)
    good += [grown(store, tended) for _ in range(4)]
    assert good[-1].pruned == (good[1].path,)
    assert good[-2].pruned == (good[0].path,)
    found = tended.backups()
    assert paths(tuple(one for one in found if not one.problem)) == paths(tuple(good[2:]))
    assert paths(tuple(one for one in found if one.problem)) == damaged
    store.close()
    assert tended.restore().backup.path == good[-1].path


def test_a_backup_is_the_newest_also_when_the_clock_has_gone_back(
    open_disk: OpenDisk, tend: Tend, path: Path
) -> None:
    """It is neither the first to be pruned nor the last to be restored."""
    clock, store = SteppingClock(datetime(2030, 1, 1, tzinfo=UTC)), open_disk()
    tended = tend(clock=clock)
    made = [grown(store, tended) for _ in range(5)]
    clock.now = datetime(2001, 1, 1, tzinfo=UTC)
    made += [grown(store, tended) for _ in range(3)]
    assert paths(tended.backups()) == paths(tuple(made[3:]))
    assert [one.session_count for one in tended.backups()] == [4, 5, 6, 7, 8]
    assert made[-1].created_at > made[4].created_at > clock.now
    path.write_bytes(b"")
    with pytest.raises(StoreDamaged) as damaged:
        tended.back_up()
    assert damaged.value.backup_path == made[-1].path


def test_the_last_time_there_is_does_not_end_backing_up(
    open_disk: OpenDisk, tend: Tend, path: Path
) -> None:
    """Whoever gave a file such a name."""
    store = open_disk()
    path.with_name(f"{path.name}.backup-99991231T235959999999Z-v{VERSION}").write_bytes(b"")
    made = grown(store, tend())
    assert made.created_at < datetime(3000, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("year", [1, 999, 1969, 9999])
def test_any_clock_names_backups_and_what_was_replaced(
    open_disk: OpenDisk, tend: Tend, path: Path, year: int
) -> None:
    """To its last instant; a backup that is made when the clock is right again is the newest."""
    instant = datetime(year, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    clock = SteppingClock(now=instant, step=timedelta(0))
    with open_disk() as store:
        made = [grown(store, tend(clock=clock)) for _ in range(2)]
        made.append(grown(store, tend()))
    assert [time_of(one) for one in paths(tuple(made))] == [one.created_at for one in made]
    assert paths(tend().backups()) == paths(tuple(made))
    kept = [tend(clock=clock).restore() for _ in range(2)]
    assert [one.backup.path for one in kept] == [made[-1].path] * 2
    assert len({one.replaced_path for one in kept}) == 2


def test_what_sqlite_left_beside_a_backup_is_no_backup(
    open_disk: OpenDisk, tend: Tend, path: Path
) -> None:
    """Whoever looked into it with another program was killed; it is restored all the same."""
    with open_disk() as store:
        backup = grown(store, tend())
    for end in ("-wal", "-shm"):
        Path(f"{backup.path}{end}").touch()
    assert paths(tend().backups()) == [Path(backup.path)]
    assert tend().restore().backup.path == backup.path


@TELLS_LOCKS
def test_a_hard_link_of_the_database_is_not_opened_to_compare_it(
    open_disk: OpenDisk, tend: Tend, path: Path
) -> None:
    """A close of it would drop the locks that this process has on the database."""
    store = open_disk()
    session_with_turn(store)
    store._database.checkpoint()
    os.link(path, f"{path}.backup-20260102T030405000006Z-v{VERSION}")

    def locked() -> int:
        return Path("/proc/locks").read_text().count(f":{path.stat().st_ino} ")

    before = locked()
    tend().back_up()
    assert locked() == before > 0


def test_backups_of_one_microsecond_are_all_kept(
    open_disk: OpenDisk, tend: Tend, run_python: RunPython
) -> None:
    """One after the other, and two that find the same name free."""
    clock, store = SteppingClock(step=timedelta(0)), open_disk()
    made = [grown(store, tend(clock=clock)) for _ in range(2)]
    assert paths(tend().backups()) == paths(tuple(made))
    session_with_turn(store)
    said = run_python(
        """
import threading
now, both, links = utc_now(), threading.Barrier(2), iter(range(9))
def meet(event, arguments):
    if event == "os.link" and next(links) < 2:
        both.wait()
sys.addaudithook(meet)
threads = [threading.Thread(target=tend(clock=lambda: now).back_up) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
say(next(links), len({one.created_at for one in tend().backups()}))
"""
    )
    assert said == "3 4\n"


def test_the_same_content_is_backed_up_once(open_disk: OpenDisk, tend: Tend) -> None:
    """Also when it was opened and closed meanwhile; something new makes another one."""
    with open_disk() as store:
        first = grown(store, tend())
        assert tend().back_up() == first
    with open_disk():
        assert tend().back_up() == first
    with open_disk() as store:
        second = grown(store, tend())
    assert paths(tend().backups()) == paths((first, second))


def test_a_damaged_newest_backup_is_not_taken_for_the_same_content(
    open_disk: OpenDisk, tend: Tend
) -> None:
    """One more is made, once."""
    store = open_disk()
    first = grown(store, tend())
    Path(first.path).write_bytes(bytes(first.size_bytes))
    second = tend().back_up()
    assert second.path != first.path
    assert tend().back_up() == second


def test_what_others_named_like_a_backup_stays_and_comes_last(
    open_disk: OpenDisk, tend: Tend, path: Path
) -> None:
    """A copy that somebody made by hand is listed by its time and never pruned."""
    store, tended = open_disk(), tend()
    first = grown(store, tended)
    by_hand = path.with_name(f"{path.name}.backup-zzz before the experiment")
    copied = Path(f"{first.path} (copy)")
    shortened = path.with_name(f"{path.name}.backup-29990101T000000000Z-v{VERSION}")
    for one in (by_hand, copied, shortened):
        shutil.copy(first.path, one)
        os.utime(one, (0, 0))
    made = [grown(store, tended) for _ in range(6)]
    strangers = sorted([copied, by_hand, shortened])
    assert paths(tended.backups()) == [*strangers, *paths(tuple(made[1:]))]
    assert [one.session_count for one in tended.backups()][:4] == [1, 1, 1, 3]
    store.close()
    assert tended.restore().backup.path == made[-1].path


def test_backups_of_a_name_full_of_signs_are_found(
    tmp_path: Path, tend: Tend, workspace_id: str
) -> None:
    """Names are no patterns."""
    path = tmp_path / "stat* [1]?.sqlite3"
    with SqliteStore.open(path, workspace_id=workspace_id) as store:
        made = [grown(store, tend(path)) for _ in range(6)]
    assert paths(tend(path).backups()) == paths(tuple(made[1:]))


ODD: dict[str, Callable[[Path, Path], object]] = {
    "a FIFO": lambda odd, _: os.mkfifo(odd),
    "a directory": lambda odd, _: odd.mkdir(),
    "a link to a good one": lambda odd, good: odd.symlink_to(good),
    "a link to nothing": lambda odd, good: odd.symlink_to(good.with_name("nothing")),
    "an empty file": lambda odd, _: odd.write_bytes(b""),
    "text": lambda odd, _: odd.write_text("no database\n" * 1000),
    "another program's": lambda odd, _: apsw.Connection(str(odd)).execute("CREATE TABLE t (a)"),
}


@pytest.mark.timeout(120, method="thread")  # SQLite begins anew after a signal
@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_backup_is_listed_as_such_and_hurts_nobody(
    open_disk: OpenDisk, tend: Tend, path: Path, kind: str
) -> None:
    """No call waits for it, follows it, counts it or removes it; it is no newest backup either."""
    store, tended = open_disk(), tend()
    session_id = session_with_turn(store)
    good = tended.back_up()
    odd = path.with_name(f"{path.name}.backup-29990101T000000000000Z-v{VERSION}")
    ODD[kind](odd, Path(good.path))
    assert [one.problem is None for one in tended.backups()] == [True, False]
    made = [grown(store, tended) for _ in range(5)]
    assert made[-1].pruned == (good.path,)
    assert os.path.lexists(odd)
    with pytest.raises(BackupUnusable) as refused:
        tended.restore(odd)
    assert refused.value.path == str(odd)
    store.delete(session_id)
    store.close()
    assert tended.restore().backup.path == made[-1].path


def test_another_workspaces_or_a_newer_backup_is_listed_with_its_problem(
    open_disk: OpenDisk, tend: Tend, workspace_id: str
) -> None:
    """It counts for nothing here and is not removed either."""
    store, other_id = open_disk(), new_id()
    made = grown(store, tend())
    other, newer = (Path(f"{made.path}{number}") for number in range(2))
    for one, change in (
        (other, "UPDATE store SET workspace_id = :id"),
        (newer, f"PRAGMA user_version={VERSION + 1}"),
    ):
        shutil.copy(made.path, one)
        with closing(apsw.Connection(str(one))) as connection:
            connection.execute(change, {"id": other_id})
    assert [one.problem for one in tend().backups()] == [
        None,
        f"it belongs to workspace {other_id}, not {workspace_id}",
        f"The database {newer} has schema version {VERSION + 1}, this program supports {VERSION}",
    ]
    assert [one.version for one in tend().backups()] == [VERSION, VERSION, VERSION + 1]
    for _ in range(6):
        grown(store, tend())
    assert other.exists()
    assert newer.exists()


def test_a_backup_that_goes_while_it_is_listed_is_not_listed(
    open_disk: OpenDisk, tend: Tend, path: Path
) -> None:
    """Another process prunes at that moment: neither an error nor a problem of the backup."""
    made = grown(open_disk(), tend())
    stop = threading.Event()

    def come_and_go() -> None:
        for number in itertools.count(1):
            coming = path.with_name(f"{path.name}.backup-20200101T000000{number:06}Z-v{VERSION}")
            os.link(made.path, coming)
            coming.unlink()
            if stop.is_set():
                return

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        lengths = set()
        for _ in range(2000 if LONG else 300):
            found = tend().backups()
            assert found[-1] == made
            assert [one.problem for one in found] == [None] * len(found)
            lengths.add(len(found))
    finally:
        stop.set()
        thread.join()
    assert lengths == {1, 2}


def test_a_backup_that_is_pruned_by_another_at_once_is_told_of_all_the_same(
    open_disk: OpenDisk, run_python: RunPython
) -> None:
    """It was verified and on the disk: that five newer ones came meanwhile is no failure."""
    with open_disk() as store:
        session_with_turn(store)
    said = run_python(
        """
def prune(event, arguments):
    if event == "open" and str(arguments[0]) == str(path.parent):
        for one in path.parent.glob("*.backup-*"):
            one.unlink()
sys.addaudithook(prune)
made = tend().back_up()
say(made.session_count, made.problem, pathlib.Path(made.path).exists())
"""
    )
    assert said == "1 None False\n"


def test_a_database_with_dangling_references_is_called_damaged(
    open_disk: OpenDisk, tend: Tend, path: Path
) -> None:
    """Its copy is what it is, and no good one."""
    with open_disk() as store:
        session_with_turn(store)
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("PRAGMA foreign_keys=OFF; DELETE FROM sessions")
    with pytest.raises(StoreDamaged) as damaged:
        tend().back_up()
    assert damaged.value.path == str(path)
    assert tend().backups() == ()


def test_a_damaged_database_is_called_damaged_when_it_is_backed_up(
    open_disk: OpenDisk, tend: Tend, path: Path
) -> None:
    """Pages are copied as they are, and no backup with damaged ones is made of them."""
    with open_disk() as store:
        good = grown(store, tend())
        for _ in range(20):
            session_with_turn(store)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 2000] = os.urandom(2000)
    path.write_bytes(content)
    with pytest.raises(StoreDamaged) as damaged:
        tend().back_up()
    assert (damaged.value.path, damaged.value.backup_path) == (str(path), good.path)
    assert paths(tend().backups()) == paths((good,))
    left = {one.name for one in path.parent.iterdir()} - {f"{path.name}-wal", f"{path.name}-shm"}
    assert left == {*at_rest(path), "owners", Path(good.path).name}


def test_pruning_that_fails_is_no_failed_backup(
    open_disk: OpenDisk, tend: Tend, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one prunes what stayed, and only what went is named."""
    store, tended = open_disk(), tend()
    made = [grown(store, tended) for _ in range(5)]
    unlink = Path.unlink

    def refuse(one: Path, *, missing_ok: bool = False) -> None:
        if time_of(one):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(one))
        unlink(one, missing_ok=missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", refuse)
        made.append(grown(store, tended))
    assert not made[-1].pruned
    assert len(backups_of(path)) == 6
    made.append(grown(store, tended))
    assert list(made[-1].pruned) == [made[0].path, made[1].path]
    assert len(backups_of(path)) == backups.KEPT_COUNT


def test_backups_of_four_processes_at_once_all_succeed(
    open_disk: OpenDisk, start_python: StartPython, tend: Tend
) -> None:
    """Each names one that was whole when it was made, although others prune meanwhile."""
    store = open_disk()
    for _ in range(2):
        session_with_turn(store)
    crowd: list[Any] = [
        start_python(
            """
say("ready")
sys.stdin.readline()
with open_store() as store:
    for _ in range(4):
        store.create_session()
        made = tend().back_up()
        assert made.problem is None and made.session_count > 2, made
say("done")
"""
        )
        for _ in range(4)
    ]
    assert [one.line() for one in crowd] == ["ready"] * 4
    for one in crowd:
        one.go_on()
    assert [one.line() for one in crowd] == ["done"] * 4
    assert [one.wait() for one in crowd] == [0] * 4
    found = tend().backups()
    assert [one.problem for one in found] == [None] * backups.KEPT_COUNT
    assert all(one < other for one, other in itertools.pairwise(one.path for one in found))
