from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from state_store import (
    AsyncSqliteStore,
    NewMessage,
    NewSession,
    OwnedThread,
    RunNotFound,
    SqliteStore,
    Usage,
    new_id,
)
from state_store.testing.turns import contents, turn

if TYPE_CHECKING:
    from collections.abc import Callable

    OpenDisk = Callable[..., SqliteStore]
    RunPython = Callable[..., str]


def descriptor_count() -> int:
    """Return how many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def owned_threads() -> list[threading.Thread]:
    """Return the threads of stores that are alive, after a moment for those that are ending."""
    deadline = time.monotonic() + 60
    while True:
        found = [one for one in threading.enumerate() if one.name.startswith("state-store")]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.005)


async def committed_turn(store: AsyncSqliteStore, session_id: str) -> None:
    """Ask and answer in a new session."""
    run, _ = await store.begin_run(
        session_id, NewMessage(role="user", content="q"), run_id=new_id(), create=NewSession()
    )
    await store.complete_run(run.id, NewMessage(role="assistant", content="a"), usage=Usage())


def test_twenty_coroutines_as_the_very_first_operation(path: Path, workspace_id: str) -> None:
    """All twenty sessions are stored (C02)."""

    async def main() -> None:
        async with await AsyncSqliteStore.open(path, workspace_id=workspace_id) as store:
            ids = [new_id() for _ in range(20)]
            await asyncio.gather(*(committed_turn(store, one) for one in ids))
            assert {one.id for one in (await store.list(limit=None)).items} == set(ids)
            assert store.recovered == ()

    asyncio.run(main())
    assert owned_threads() == []


def test_a_cancelled_write_is_whole_or_not_there(path: Path, workspace_id: str) -> None:
    """The row decides what happened, no transaction stays open, and the store goes on."""

    async def main() -> tuple[int, int]:
        there = absent = 0
        async with await AsyncSqliteStore.open(path, workspace_id=workspace_id) as store:
            session_id = (await store.create_session()).id
            for number in range(150):
                run_id = new_id()
                task = asyncio.create_task(
                    store.begin_run(session_id, NewMessage(role="user", content="q"), run_id=run_id)
                )
                for _ in range(number % 4):
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                try:
                    run = await store.get_run(run_id)
                except RunNotFound:
                    absent += 1
                else:
                    there += 1
                    assert run.status == "pending"
                    await store.fail_run(run_id, "cancelled", usage=Usage())
            assert len((await store.messages(session_id)).items) == there
        return there, absent

    there, absent = asyncio.run(main())
    assert there
    assert absent


def test_a_write_that_has_begun_is_over_before_its_cancellation_goes_on() -> None:
    """No write goes on behind the back of a caller who believes it over, cancelled twice or not."""

    async def main() -> None:
        thread = OwnedThread("state-store-test")
        done = threading.Event()

        def slow_write() -> None:
            time.sleep(0.1)
            done.set()

        task = asyncio.create_task(thread.call(slow_write))
        await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert done.is_set()
        thread.close()

    asyncio.run(main())
    assert owned_threads() == []


def test_a_call_that_still_waits_is_withdrawn_by_its_cancellation() -> None:
    """It is never performed later."""

    async def main() -> None:
        thread = OwnedThread("state-store-test")
        performed: list[str] = []
        first = asyncio.create_task(thread.call(time.sleep, 0.1))
        second = asyncio.create_task(thread.call(performed.append, "second"))
        await asyncio.sleep(0.02)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        await first
        await thread.call(performed.append, "third")
        assert performed == ["third"]
        thread.close()

    asyncio.run(main())


def test_an_opening_that_is_cancelled_is_closed_again(path: Path, workspace_id: str) -> None:
    """No thread, no lock and no owner's file stays of a store that nobody got."""

    async def main() -> None:
        baseline = descriptor_count()
        for number in range(20):
            task = asyncio.create_task(AsyncSqliteStore.open(path, workspace_id=workspace_id))
            await asyncio.sleep(0.0005 * number)
            task.cancel()
            try:
                store = await task
            except asyncio.CancelledError:
                continue
            await store.close()
        assert descriptor_count() == baseline

    asyncio.run(main())
    assert owned_threads() == []
    assert not list((path.parent / "owners").glob("*.lock"))


def test_an_opening_that_fails_ends_its_thread(path: Path, workspace_id: str) -> None:
    """And raises what the synchronous one raises."""
    with pytest.raises(FileNotFoundError):
        asyncio.run(AsyncSqliteStore.open(path, workspace_id=workspace_id, writing=False))
    assert owned_threads() == []


def test_one_store_serves_several_loops_in_turn(path: Path, workspace_id: str) -> None:
    """It holds no reference to any of them."""
    store = asyncio.run(AsyncSqliteStore.open(path, workspace_id=workspace_id))
    session_id = asyncio.run(store.create_session()).id
    assert asyncio.run(store.get_session(session_id)).id == session_id
    asyncio.run(store.close())


def test_an_asynchronous_store_in_memory_keeps_nothing(workspace_id: str) -> None:
    """The same meaning without a file."""

    async def main() -> None:
        async with await AsyncSqliteStore.in_memory(workspace_id=workspace_id) as store:
            await committed_turn(store, new_id())
            assert len((await store.list()).items) == 1

    asyncio.run(main())


def test_threads_share_a_store_without_sharing_a_transaction(open_disk: OpenDisk) -> None:
    """Readers see whole turns only, while another thread writes them."""
    store = open_disk()
    session_id = store.create_session().id
    done = threading.Event()
    odd: list[int] = []

    def watch() -> None:
        while not done.is_set():
            runs = store.runs(session_id).items
            messages = store.messages(session_id).items
            if len(messages) < 2 * sum(run.status == "completed" for run in runs):
                odd.append(len(messages))

    watchers = [threading.Thread(target=watch) for _ in range(3)]
    for watcher in watchers:
        watcher.start()
    for _ in range(30):
        turn(store, session_id)
    done.set()
    for watcher in watchers:
        watcher.join()
    assert odd == []
    assert len(contents(store, session_id)) == 60
