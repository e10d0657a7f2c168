from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from state_store import NewMessage, NewSession, SqliteStore, Usage, new_id, utc_now
from state_store.testing import Scale
from state_store.testing.turns import begin

if TYPE_CHECKING:
    from collections.abc import Callable

    OpenDisk = Callable[..., SqliteStore]

LONG = Scale.from_environment().long
OPENING_COUNT = 2_000 if LONG else 100


def descriptor_count() -> int:
    """Return how many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def test_openings_for_writing_leave_no_handle(open_disk: OpenDisk) -> None:
    """Nor do those that fail, within the claim or after it (C33). Thousands in a long run."""
    with closing(open_disk()) as store:
        begin(store, store.create_session().id)
    baseline = descriptor_count()
    for number in range(OPENING_COUNT // 4):
        # The clock is read for the claim, and again for the run that was left behind.
        readings = [utc_now()] * (number % 2)
        with pytest.raises(IndexError):
            open_disk(clock=readings.pop)
    assert descriptor_count() == baseline
    for _ in range(OPENING_COUNT):
        with closing(open_disk()) as store:
            store.list()
    assert descriptor_count() == baseline


def test_short_threads_that_read_leave_no_handle(open_disk: OpenDisk) -> None:
    """Each opens the store, reads once and closes it (C33). Five hundred in a long run."""
    open_disk().close()
    baseline = descriptor_count()

    def read() -> None:
        with closing(open_disk(writing=False)) as store:
            store.list()

    for _ in range(OPENING_COUNT // 4):
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
    assert descriptor_count() == baseline


def test_twenty_threads_may_be_the_first_to_use_a_store(open_disk: OpenDisk) -> None:
    """One store object, no database before: all twenty turns are stored (C02)."""
    store = open_disk()
    start = threading.Barrier(20)
    ids = [new_id() for _ in range(20)]
    raised: list[Exception] = []

    def work(session_id: str) -> None:
        start.wait()
        try:
            question = NewMessage(role="user", content="q")
            run, _ = store.begin_run(
                session_id, question, run_id=new_id(), create=NewSession(title=session_id)
            )
            store.complete_run(run.id, NewMessage(role="assistant", content="a"), usage=Usage())
        except Exception as error:  # noqa: BLE001 - to be seen outside of the thread
            raised.append(error)

    threads = [threading.Thread(target=work, args=(one,)) for one in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert raised == []
    assert {one.id for one in store.list(limit=None).items} == set(ids)
    assert all(one.message_count == 2 for one in store.list(limit=None).items)
