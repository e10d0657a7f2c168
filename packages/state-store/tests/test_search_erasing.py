from __future__ import annotations

import fcntl
import os
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from state_store import NewSession, SessionState, SqliteStore, new_id
from state_store.sqlite import policy
from state_store.sqlite.beside import presence_of, search_of
from state_store.sqlite.held import Held
from state_store.sqlite.search import index as index_module
from state_store.sqlite.search import searching
from state_store.sqlite.search.index import Index
from state_store.testing.turns import user

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    OpenDisk = Callable[..., SqliteStore]
    RunPython = Callable[..., str]
    Look = Callable[[], set[str]]

# A word that is nowhere else, and the beginning of it: FTS5 stores a word without what it has in
# common with the one before.
MARKER = "Qzvw51b7e0d2xx"
LOOK = """
found = [one.name for one in path.parent.rglob("*") if one.is_file()
         and any(part in one.read_bytes() for part in (b"zvw51b7e", b"51b7e0d2", "鬱鬯".encode(),
                                                       "鬱".encode()))]
say(*sorted(found))
"""


@pytest.fixture
def look(run_python: RunPython) -> Look:
    """Return what tells which files have the marker, or most of it, in their bytes."""
    return lambda: set(run_python(LOOK).split())


@pytest.fixture(autouse=True)
def _ask_the_index_and_wait_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "ERASE_WAIT_MS", 100)
    monkeypatch.setattr(searching, "READ_FIRST", 0)


def prepared(store: SqliteStore) -> SqliteStore:
    """Return *store* with everything indexed."""
    while not store.prepare_search().complete:
        pass
    return store


def saved(store: SqliteStore, text: str, count: int = 40) -> str:
    """Return the id of a session with so many messages that say *text*."""
    messages = tuple(user(f"{text} {number}") for number in range(count))
    settings = NewSession(title=text)
    state = SessionState(id=new_id(), settings=settings, messages=messages)
    return store.save(state, timedelta(0)).id


def marked(store: SqliteStore) -> str:
    """Return a session full of markers among others, all indexed, in several segments."""
    saved(store, "others before")
    prepared(store)
    session_id = saved(store, f"hay {MARKER} 鬱鬯")
    prepared(store)
    saved(store, "others after")
    return session_id


def count_of(store: SqliteStore, query: str) -> int:
    """Return how many hits there are."""
    return len(store.search(query, limit=None).items)


@pytest.mark.parametrize("among", ["others", "no others"])
def test_what_was_deleted_is_gone_from_the_bytes_of_the_index(
    open_disk: OpenDisk, path: Path, look: Look, among: str
) -> None:
    """Word and characters, from file and log, when the delete returns (C41); others are found."""
    store = open_disk()
    if among == "others":
        session_id = marked(store)
        prepared(store)
    else:
        session_id = saved(store, f"{MARKER} 鬱鬯")
        prepared(store)
    assert count_of(store, MARKER) == 41
    assert search_of(path).name in look()
    assert store.delete(session_id).erased
    assert look() == set()
    assert count_of(store, MARKER) == 0
    assert count_of(store, "others") == (82 if among == "others" else 0)
    store.close()
    assert look() == set()


def forget_without_merging(self: Index, ids: Iterable[int]) -> None:
    """Delete rows and do no more."""
    rows = [(key,) for key in ids]
    self._connection.executemany("DELETE FROM words WHERE rowid = ?", rows)


def overwrite_nothing(connection: apsw.Connection, path: Path) -> None:
    """Leave what is deleted in freed pages."""
    connection.pragma("secure_delete", 0)


@pytest.mark.parametrize("guard", ["optimize", "secure_delete"])
def test_without_its_guards_the_index_keeps_the_words(
    open_disk: OpenDisk, path: Path, look: Look, monkeypatch: pytest.MonkeyPatch, guard: str
) -> None:
    """The control: what the test above finds when one of the two is missing."""
    if guard == "optimize":
        monkeypatch.setattr(Index, "remove", forget_without_merging)
    else:
        rules = [
            overwrite_nothing if rule is policy.overwrite_deleted else rule
            for rule in index_module._WRITING
        ]
        monkeypatch.setattr(index_module, "_WRITING", tuple(rules))
    store = open_disk()
    session_id = marked(store)
    prepared(store)
    assert store.delete(session_id).erased
    assert look() == {search_of(path).name}


@pytest.mark.parametrize("step", ["before", "removed", "emptied"])
def test_a_delete_whose_process_dies_on_the_way_is_finished_by_the_next_search(
    open_disk: OpenDisk, path: Path, look: Look, run_python: RunPython, step: str
) -> None:
    """Between any two of its steps; nobody finds the session meanwhile."""
    store = open_disk()
    session_id = marked(store)
    prepared(store)
    store.close()
    dying = """
from state_store.sqlite.search.index import Index
from state_store.sqlite.search.searching import Search
store = open_store()
die = lambda *args, **kwargs: os._exit(0)
owner, name = {"before": (Search, "erase"), "removed": (Index, "empty_log"),
               "emptied": (Index, "note_erased")}[sys.argv[4]]
setattr(owner, name, die)
store.delete(sys.argv[3])
"""
    run_python(dying, session_id, step)
    if step == "before":
        assert search_of(path).name in look(), "there is nothing left to be done"
    with open_disk(writing=False) as reader:
        assert count_of(reader, MARKER) == 0
    store = open_disk()
    assert count_of(store, MARKER) == 0
    assert look() == set()
    assert count_of(store, "others") == 82


def test_a_close_finishes_it_too(open_disk: OpenDisk, look: Look, run_python: RunPython) -> None:
    """Without any search."""
    store = open_disk()
    session_id = marked(store)
    prepared(store)
    store.close()
    run_python(
        """
from state_store.sqlite.search.searching import Search
store = open_store()
Search.erase = lambda self: os._exit(0)
store.delete(sys.argv[3])
""",
        session_id,
    )
    assert look()
    open_disk().close()
    assert look() == set()


def test_the_words_are_out_of_the_log_although_another_process_has_the_index_open(
    open_disk: OpenDisk, path: Path, look: Look
) -> None:
    """It is not the last close that empties it."""
    store = open_disk()
    session_id = marked(store)
    prepared(store)
    with closing(apsw.Connection(str(search_of(path)))) as other:
        assert other.execute("SELECT count(*) FROM words_docsize").get == 120
        assert store.delete(session_id).erased
        assert look() == set()


def test_an_index_that_cannot_be_cleaned_is_removed(
    open_disk: OpenDisk, path: Path, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes and all, and the delete goes through."""
    store = open_disk()
    session_id = marked(store)
    prepared(store)

    def fail(self: Index, ids: Any) -> None:
        raise apsw.FullError

    with monkeypatch.context() as patch:
        patch.setattr(Index, "remove", fail)
        assert store.delete(session_id).erased
    assert not search_of(path).exists()
    assert look() == set()
    assert count_of(prepared(store), "others") == 82


def test_who_has_the_index_open_holds_a_delete_up_for_a_moment_and_the_bytes_longer(
    open_disk: OpenDisk, path: Path, look: Look
) -> None:
    """The answer says so; the next search removes them."""
    store = open_disk()
    session_id = marked(store)
    prepared(store)
    held = Held(os.open(presence_of(search_of(path)), os.O_RDONLY))
    held.lock(fcntl.LOCK_SH)
    with closing(apsw.Connection(str(search_of(path)))) as other:
        other.execute("BEGIN IMMEDIATE")
        assert not store.delete(session_id).erased
        assert count_of(store, MARKER) == 0
    held.release()
    assert look() == {search_of(path).name}
    assert count_of(store, MARKER) == 0
    assert look() == set()


def test_a_session_deleted_while_it_is_being_indexed_leaves_nothing(
    open_disk: OpenDisk, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are read under the index's write lock, which the delete then waits for."""
    store, other = open_disk(), open_disk()
    saved(store, "others")
    session_id = saved(store, f"{MARKER} 鬱鬯")
    truth = store._search._truth
    original = truth.texts_after
    answers: list[bool] = []

    def read_and_delete(key: int) -> Any:
        found = list(original(key))
        if not answers:
            answers.append(other.delete(session_id).erased)
        return found

    monkeypatch.setattr(truth, "texts_after", read_and_delete)
    store.prepare_search(slice_ms=60_000)
    assert answers == [False], "the delete did not meet the indexing"
    assert look(), "nothing was indexed of it"
    assert count_of(store, MARKER) == 0
    assert look() == set()
    assert count_of(store, "others") == 41
