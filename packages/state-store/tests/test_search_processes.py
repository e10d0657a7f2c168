from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING, Any

import pytest

from state_store.sqlite.beside import search_of
from state_store.sqlite.search import searching
from state_store.testing.scale import Scale

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from state_store import SqliteStore

    OpenDisk = Callable[..., SqliteStore]
    StartPython = Callable[..., Any]

LONG = os.environ.get("STATE_STORE_LONG") == "1"
SAVE = """
import contextlib
from datetime import timedelta
from state_store.sqlite.search import searching
searching.READ_FIRST = 0  # have the index asked
def save(store, *texts):
    messages = tuple(NewMessage(role="user", content=text) for text in texts)
    return store.save(SessionState(id=new_id(), messages=messages), timedelta(0)).id
def count_of(store, query):
    return len(store.search(query, limit=None).items)
"""
INDEX_FOR_EVER = (
    SAVE
    + """
store = open_store()
say("ready")
number = 0
while True:
    save(store, *(f"needle {sys.argv[3]} {number} {i}" for i in range(20)))
    say(20)
    store.prepare_search(slice_ms=1)
    if number % 3 == 2:
        say(-20 * (store.delete(store.list(limit=1).items[0].id).message_count // 20))
    number += 1
"""
)
WRITE_AND_SEARCH = (
    SAVE
    + """
name, rounds = sys.argv[3], int(sys.argv[4])
store = open_store()
mine = 0
for number in range(rounds):
    keys = [save(store, *(f"needle of{name} {number} {i}" for i in range(10))) for _ in range(2)]
    mine += 20
    assert count_of(store, f"of{name}") == mine, (count_of(store, f"of{name}"), mine)
    if number % 2:
        assert count_of(store, f'"of{name} {number}"') == 20
        assert store.delete(keys[0]).message_count == 10
        mine -= 10
        assert count_of(store, f"of{name}") == mine
    store.prepare_search(slice_ms=5)
    if number == int(name):  # each of them breaks it once
        index = path.with_name("search.sqlite3")
        store.search("needle", limit=1)
        if name == "0":
            with contextlib.suppress(FileNotFoundError):  # others throw it away as well
                os.truncate(index, 5000)
    assert count_of(store, "needle") >= mine
store.close()
say("done", mine)
"""
)


def test_indexers_that_are_killed_leave_an_index_that_is_right(
    open_disk: OpenDisk,
    start_python: StartPython,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At random instants; what was acknowledged is found, with the index and without."""
    monkeypatch.setattr(searching, "READ_FIRST", 0)
    scale = Scale.from_environment()
    source = random.Random(scale.seed)
    for number in range(60 if LONG else 5):
        process = start_python(INDEX_FOR_EVER, str(number))
        assert process.line() == "ready"
        time.sleep(source.random() * 0.3)
        process.kill()
        process.wait()
        with open_disk() as store:
            found = store.search("needle", limit=None).items
            assert len(found) == sum(one.message_count for one in store.list(limit=None).items)
            while not store.prepare_search().complete:
                pass
            assert store.search("needle", limit=None).items == found, scale.seed
            assert store._search._file is not None
            assert store._search._file.discard()
            assert search_of(path).exists() is False
            with store._database.read() as connection:
                stored = connection.execute("SELECT count(*) FROM messages").get
            assert len(found) == stored


@pytest.mark.timeout(300)
def test_eight_processes_search_and_write_at_once_and_find_all_that_is_theirs(
    open_disk: OpenDisk, start_python: StartPython, path: Path
) -> None:
    """No error, nothing lost, although one cuts the index in the middle of it all."""
    open_disk().close()
    rounds = 30 if LONG else 3
    processes = [start_python(WRITE_AND_SEARCH, str(name), str(rounds)) for name in range(8)]
    total = 0
    for process in processes:
        output, _ = process.communicate()
        assert process.returncode == 0, output
        total += int(output.split()[-1])
    store = open_disk()
    while not store.prepare_search().complete:
        pass
    assert len(store.search("needle", limit=None).items) == total
