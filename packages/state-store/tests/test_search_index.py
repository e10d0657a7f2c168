from __future__ import annotations

import itertools
import os
import shutil
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from state_store import (
    SessionState,
    SqliteStore,
    StoreClosed,
    StoreDamaged,
    StoreForked,
    new_id,
)
from state_store.sqlite.beside import presence_of, search_of
from state_store.sqlite.held import Held
from state_store.sqlite.search import index as index_module
from state_store.sqlite.search import searching
from state_store.sqlite.search.catching_up import add_new
from state_store.sqlite.search.index import APPLICATION_ID, FORMAT
from state_store.testing.contract.searching import SearchContract
from state_store.testing.turns import user

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from state_store import SessionStore
    from state_store.testing import OpenStore

    OpenDisk = Callable[..., SqliteStore]
    Tend = Callable[..., Any]
    Resize = Callable[[int], None]
    RunPython = Callable[..., str]
    StartPython = Callable[..., Any]


@pytest.fixture(autouse=True)
def _ask_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the index asked for the newest messages too, which are read otherwise."""
    monkeypatch.setattr(searching, "READ_FIRST", 0)


class TestThroughTheIndex(SearchContract):
    """The contract, where the index is asked for every message that is in it."""

    @pytest.fixture
    def open_store(self, path: Path, workspace_id: str) -> OpenStore:
        """Open the test's file."""

        def opened(**options: Any) -> SessionStore:
            return SqliteStore.open(path, workspace_id=workspace_id, **options)

        return opened


def filled(store: SqliteStore, count: int = 30, text: str = "needle") -> str:
    """Return the id of a session with so many messages."""
    messages = tuple(user(f"{text} {number}") for number in range(count))
    return store.save(SessionState(id=new_id(), messages=messages), timedelta(0)).id


def count_of(store: SqliteStore, query: str = "needle") -> int:
    """Return how many hits there are."""
    return len(store.search(query, limit=None).items)


def prepared(store: SqliteStore) -> SqliteStore:
    """Return *store* with everything indexed."""
    while not store.prepare_search().complete:
        pass
    return store


def reads_of_messages(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the ids that a search reads one by one, proposed by an index."""
    read: list[int] = []
    truth = store._search._truth
    original = truth.messages_of

    def watched(scope: Any, ids: Any) -> Any:
        read.extend(ids)
        return original(scope, ids)

    monkeypatch.setattr(truth, "messages_of", watched)
    return read


def ask_index(index: Path, sql: str) -> Any:
    """Return the one value that another program reads in the index."""
    with closing(apsw.Connection(str(index))) as connection:
        return connection.execute(sql).get


def test_opening_writing_and_closing_make_no_index_and_the_first_search_does(
    open_disk: OpenDisk, path: Path
) -> None:
    """For its user alone, whatever the umask; with its numbers, and gone without a trace."""
    store = open_disk()
    session_id = filled(store)
    store.close_session(session_id, spent=timedelta(0))
    store.close()
    store = open_disk()
    assert not search_of(path).exists()
    before = os.umask(0)
    try:
        assert count_of(store) == 30
    finally:
        os.umask(before)
    files = {one.name: one.stat().st_mode & 0o777 for one in path.parent.glob("search*")}
    assert files == {"search.sqlite3": 0o600, "search.sqlite3.presence": 0o600}
    assert ask_index(search_of(path), "PRAGMA application_id") == APPLICATION_ID
    assert ask_index(search_of(path), "PRAGMA user_version") == FORMAT
    assert ask_index(search_of(path), "PRAGMA integrity_check") == "ok"


def test_an_index_that_is_there_follows_at_close(open_disk: OpenDisk, path: Path) -> None:
    """Of a session and of the store."""
    store = prepared(open_disk())
    assert not search_of(path).exists(), "an empty store needs no index"
    first = filled(store, 3)
    prepared(store)
    filled(store, 4)
    assert store.search_state().indexed_count == 3
    store.close_session(first, spent=timedelta(0))
    assert store.search_state().indexed_count == 7
    filled(store, 5)
    store.close()
    assert open_disk(writing=False).search_state().complete


def test_with_an_index_only_what_it_proposes_is_read(
    open_disk: OpenDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the other tests do test it: it proposes the one message in thirty."""
    store = open_disk()
    filled(store)
    prepared(store)
    read = reads_of_messages(store, monkeypatch)
    assert count_of(store, "needle 17") == 1
    assert read == [18]


def test_a_reader_makes_nothing_and_uses_what_is_there(
    open_disk: OpenDisk, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads all without an index, and changes none that it cannot use."""
    filled(open_disk())
    reader = open_disk(writing=False)
    names = {one.name for one in path.parent.iterdir()}
    assert count_of(reader) == 30
    assert not reader.prepare_search().complete
    assert {one.name for one in path.parent.iterdir()} == names
    prepared(open_disk())
    read = reads_of_messages(reader, monkeypatch)
    assert count_of(reader, "needle 17") == 1
    assert read == [18]
    search_of(path).write_bytes(b"no index")
    assert count_of(reader) == 30
    assert search_of(path).read_bytes() == b"no index"


def cut(index: Path) -> None:
    """Take half of it away."""
    os.truncate(index, index.stat().st_size // 2)


def zero_pages(index: Path) -> None:
    """Leave only its first page."""
    index.write_bytes(index.read_bytes()[:4096].ljust(index.stat().st_size, b"\0"))


def garble(index: Path) -> None:
    """Flip bytes everywhere, but leave the header that says whose it is."""
    content = bytearray(index.read_bytes())
    for at in range(100, len(content), 13):
        content[at] ^= 0x35
    index.write_bytes(content)


def replace_by_text(index: Path) -> None:
    """Write something else into it."""
    index.write_text("no database at all" * 500)


def replace_by_link(index: Path) -> None:
    """Put a link to another file in its place."""
    index.unlink()
    target = index.with_name("target")
    target.write_bytes(b"somebody's")
    index.symlink_to(target)


def replace_by_fifo(index: Path) -> None:
    """Put something in its place that whoever opens it waits for."""
    index.unlink()
    os.mkfifo(index)


def change(sql: str) -> Callable[[Path], None]:
    """Return what changes an index by SQL."""

    def change_it(index: Path) -> None:
        with closing(apsw.Connection(str(index))) as connection:
            connection.execute(sql).fetchall()

    return change_it


BROKEN: dict[str, Callable[[Path], None]] = {
    "cut": cut,
    "zeroed": zero_pages,
    "garbled": garble,
    "empty": lambda index: os.truncate(index, 0),
    "text": replace_by_text,
    "linked": replace_by_link,
    "fifo": replace_by_fifo,
    "foreign": change("PRAGMA application_id=1"),
    "older": change("PRAGMA user_version=0"),
    "newer": change(f"PRAGMA user_version={FORMAT + 1}"),
    "other generation": change("UPDATE source SET generation = 'other'"),
    "other Unicode": change("UPDATE source SET unicode = '1.0'"),
    "ahead": change("UPDATE source SET indexed_to = 1000000"),
    "no source": change("DELETE FROM source"),
    "no table": change("DROP TABLE words"),
    "no data": change("DELETE FROM words_data"),
}


@pytest.mark.parametrize(
    ("action", "broken"),
    [
        *(("search", name) for name in BROKEN),
        *itertools.product(("prepare", "delete", "close"), ("garbled", "cut", "older")),
    ],
)
def test_an_index_that_is_no_good_is_thrown_away_and_hinders_nothing(
    open_disk: OpenDisk, path: Path, action: str, broken: str
) -> None:
    """And the next search makes a new one; a link's target is not touched."""
    store = prepared(open_disk())
    session_id = filled(store, 3)
    filled(store)
    prepared(store)
    BROKEN[broken](search_of(path))
    expected = 33
    if action == "prepare":
        store.prepare_search()
    elif action == "delete":
        assert store.delete(session_id).erased
        expected = 30
    elif action == "close":
        store.close()
        store = open_disk()
    assert count_of(store) == expected
    assert count_of(store) == expected
    assert store.prepare_search().complete
    assert not search_of(path).is_symlink()
    assert ask_index(search_of(path), "PRAGMA integrity_check") == "ok"
    assert ask_index(search_of(path), "SELECT count(*) FROM words_docsize") == expected
    target = search_of(path).with_name("target")
    assert not target.exists() or target.read_bytes() == b"somebody's"


def test_damage_that_only_indexing_meets_is_repaired_by_indexing(
    open_disk: OpenDisk, path: Path
) -> None:
    """What the header says is right; no search has to come first."""
    store = open_disk()
    filled(store)
    prepared(store)
    change("DELETE FROM words_data")(search_of(path))
    filled(store, 3)
    assert prepared(store).search_state().complete
    assert ask_index(search_of(path), "SELECT count(*) FROM words_docsize") == 33


@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize("make", [replace_by_link, replace_by_fifo])
def test_what_is_no_file_beside_the_index_is_thrown_away_with_it(
    open_disk: OpenDisk, path: Path, make: Callable[[Path], None], end: str
) -> None:
    """Nothing is waited for, and nothing is written where a link leads."""
    store = open_disk()
    session_id = filled(store, 3)
    filled(store)
    prepared(store)
    beside = search_of(path).with_name(search_of(path).name + end)
    beside.touch()
    make(beside)
    assert count_of(store) == 33
    assert prepared(store).delete(session_id).erased
    assert not beside.is_symlink()
    assert not beside.is_fifo()
    target = beside.with_name("target")
    assert not target.exists() or target.read_bytes() == b"somebody's"


@pytest.mark.parametrize("parts", ["{", "5", "[5]", '"x"'])
def test_a_damaged_message_is_the_damage_of_the_database_and_hinders_no_delete(
    open_disk: OpenDisk, path: Path, parts: str
) -> None:
    """A search says so, and so does indexing; a close goes through."""
    store = open_disk()
    session_id = filled(store)
    prepared(store)
    damaged = filled(store, 1)
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("UPDATE messages SET parts = ? WHERE session_id = ?", (parts, damaged))
    for attempt in (lambda: store.search("needle"), store.prepare_search):
        with pytest.raises(StoreDamaged):
            attempt()
    store.close_session(session_id, spent=timedelta(0))
    assert store.delete(damaged).erased
    assert count_of(store) == 30


def test_a_close_that_is_interrupted_while_it_indexes_closes(
    open_disk: OpenDisk, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database and the claim on runs: nothing of them waits for the index."""
    store = open_disk()
    filled(store)
    prepared(store)

    def interrupted() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store._search, "settle", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.close()
    with pytest.raises(StoreClosed):
        store.list()
    assert not path.with_name(f"{path.name}-wal").exists()
    assert list(path.with_name("owners").iterdir()) == []


def test_a_directory_in_its_place_is_left_alone(open_disk: OpenDisk, path: Path) -> None:
    """It cannot be thrown away; everything else goes on."""
    store = open_disk()
    session_id = filled(store)
    search_of(path).mkdir()
    assert count_of(store) == 30
    assert not store.prepare_search().complete
    assert not store.delete(session_id).erased, "whatever that is, it was not looked into"
    assert search_of(path).is_dir()


def test_a_restored_database_is_indexed_anew(open_disk: OpenDisk, tend: Tend, path: Path) -> None:
    """Its row ids were given once before, to other messages."""
    store = open_disk()
    filled(store, 5, "early")
    backup = tend().back_up()
    filled(store, 30, "lost")
    prepared(store).close()
    tend().restore(path.with_name(backup.path.rpartition("/")[2]))
    store = open_disk()
    filled(store, 30, "later")
    assert (count_of(store, "early"), count_of(store, "lost"), count_of(store, "later")) == (
        5,
        0,
        30,
    )
    prepared(store)
    assert (count_of(store, "early"), count_of(store, "lost"), count_of(store, "later")) == (
        5,
        0,
        30,
    )


def test_compacting_and_checking_leave_the_index_as_it_is(
    open_disk: OpenDisk, tend: Tend, path: Path
) -> None:
    """It fits the database afterwards."""
    store = open_disk()
    store.delete(filled(store, 3))
    filled(store)
    prepared(store).close()
    tend().compact()
    assert tend().check().ok
    with open_disk(writing=False) as store:
        assert store.search_state().complete
        assert count_of(store, "needle 17") == 1


def test_a_directory_that_may_not_be_written_is_searched_all_the_same(
    open_disk: OpenDisk, path: Path, run_as_stranger: RunPython
) -> None:
    """With an index that this user may not use, or without any."""
    store = open_disk()
    filled(store)
    prepared(store).close()
    for index_mode in (0o644, 0o600):
        search_of(path).chmod(index_mode)
        path.chmod(0o644)
        path.parent.chmod(0o755)
        for extra in path.parent.glob("*.presence"):
            extra.chmod(0o644)
        program = """
store = open_store(writing=False)
say(len(store.search("needle", limit=None).items), store.search_state().message_count)
"""
        assert run_as_stranger(program).split() == ["30", "30"]


def test_a_full_disk_stops_the_index_and_nothing_else(
    disk: Path, resize: Resize, workspace_id: str
) -> None:
    """Searching goes on by reading; when there is space the index comes."""
    resize(2048)
    path = disk / "state.sqlite3"
    with SqliteStore.open(path, workspace_id=workspace_id) as store:
        filled(store, 300)
        with (disk / "filler").open("wb") as filler:
            free = os.statvfs(disk)
            filler.write(b"x" * (free.f_bavail - 6) * free.f_frsize)
        for _ in range(3):
            assert count_of(store) == 300
            assert not store.prepare_search().complete
        (disk / "filler").unlink()
        assert prepared(store).search_state().complete
        assert count_of(store) == 300


def test_a_slice_ends_when_its_time_is_over(open_disk: OpenDisk, path: Path) -> None:
    """By the clock that it is given, with the message that it is at; the next goes on there."""
    store = open_disk()
    filled(store, 10)
    now = 0.0

    def timer() -> float:
        nonlocal now
        now += 0.0625
        return now

    store._search = searching.Search(store._database, timer=timer)
    steps = []
    while not (state := store.prepare_search(slice_ms=250)).complete:
        steps.append(state.indexed_count)
    assert steps == [3, 6, 9]
    assert count_of(store) == 10


def test_a_long_message_is_not_indexed_and_is_found(
    open_disk: OpenDisk, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slice would not end in time; its id is proposed to every search, until it is deleted."""
    monkeypatch.setattr(index_module, "LONG_MESSAGE_LENGTH", 100)
    store = open_disk()
    filled(store, 2)
    long = filled(store, 1, "hay " * 100 + "needle")
    filled(store, 2)
    prepared(store)
    assert ask_index(search_of(path), "SELECT id FROM long_messages") == 3
    assert ask_index(search_of(path), "SELECT count(*) FROM words_docsize") == 4
    assert count_of(store) == 5
    assert count_of(store, "hay") == 1
    store.delete(long)
    assert ask_index(search_of(path), "SELECT count(*) FROM long_messages") == 0


def test_who_is_indexing_already_is_not_waited_for(open_disk: OpenDisk, path: Path) -> None:
    """The rest is read; a close does not wait either."""
    store = open_disk(busy_timeout_ms=60_000)
    filled(store, 3)
    prepared(store)
    filled(store, 4)
    with closing(apsw.Connection(str(search_of(path)))) as other:
        other.execute("BEGIN IMMEDIATE")
        assert count_of(store) == 7
        assert store.prepare_search().indexed_count == 3
        store.close()
    assert open_disk().prepare_search().complete


def test_an_index_that_another_process_has_open_is_not_replaced(
    open_disk: OpenDisk, path: Path
) -> None:
    """It is damaged and stays; the search goes on by reading, and replaces it later."""
    store = open_disk()
    filled(store)
    prepared(store)
    search_of(path).write_bytes(b"damaged")
    held = Held(os.open(presence_of(search_of(path)), os.O_RDONLY))
    held.lock(1)  # LOCK_SH
    assert count_of(store) == 30
    assert search_of(path).read_bytes() == b"damaged"
    held.release()
    assert count_of(store) == 30
    assert prepared(store).search_state().complete


def test_nobody_but_sqlite_opens_the_index(run_python: RunPython) -> None:
    """Closing a descriptor of a file drops the locks that this process has on it."""
    output = run_python("""
opened = []
store = open_store()
def watch(event, args):
    if event == "open" and str(args[0]).rpartition("/")[2].startswith("search.sqlite3"):
        opened.append(str(args[0]).rpartition("/")[2])
sys.addaudithook(watch)
session_id = store.create_session().id
turn(store, session_id)
for _ in range(3):
    store.search("question")
store.delete(session_id)
store.close()
opened = [one for one in opened if not one.endswith(".presence")]
say(opened)
""")
    assert output.strip() == "['search.sqlite3']", "made once, under the lock that is held alone"


def test_a_forked_child_is_refused_and_its_parent_goes_on(open_disk: OpenDisk) -> None:
    """Nothing of the index is open between two calls."""
    store = open_disk()
    filled(store)
    prepared(store)
    pid = os.fork()
    if pid == 0:
        try:
            store.search("needle")
        except StoreForked:
            store.close()
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert count_of(store) == 30


def test_an_index_put_back_by_hand_is_begun_anew_if_it_is_ahead(
    open_disk: OpenDisk, path: Path
) -> None:
    """It speaks of messages that this database never had."""
    store = open_disk()
    filled(store, 3)
    store.close()
    older = path.with_name("older")
    shutil.copy(path, older)
    store = open_disk()
    filled(store, 30, "lost")
    prepared(store).close()
    shutil.copy(older, path)
    store = open_disk()
    assert (count_of(store), count_of(store, "lost")) == (3, 0)
    prepared(store)
    filled(store, 2)
    assert count_of(store) == 5


def test_a_search_goes_on_by_reading_when_the_index_goes_in_its_middle(
    open_disk: OpenDisk, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two proposals; nothing is missed and nothing comes twice."""
    store = open_disk()
    filled(store, 300)
    prepared(store)
    whole = store.search("needle", limit=None).items
    calls = 0
    search = store._search
    original = search._propose

    def propose(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            search_of(path).write_bytes(b"gone")
        return original(*args, **kwargs)

    monkeypatch.setattr(search, "_propose", propose)
    assert store.search("needle", limit=None).items == whole
    assert calls == 2
    assert len(whole) == 300


def test_add_new_is_resumed_by_another_process_without_a_gap(open_disk: OpenDisk) -> None:
    """Where an index has got to is read again under its lock."""
    store, other = open_disk(), open_disk()
    filled(store, 250)
    store.prepare_search(slice_ms=0)
    source = store._search._truth.source()
    file = store._search._file
    assert file is not None

    def work(index: Any) -> int:
        prepared(other)
        add_new(index, store._search._truth, last_id=source.last_id, slice_s=1, timer=lambda: 0.0)
        return int(index.progress.indexed_to)

    assert file.use(source, work) == 250
    assert count_of(store) == 250
