"""What forks, undone turns and imports leave in the file: sound, salvaged whole, cheap to page."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import apsw
import pytest

from state_store import Maintenance, Message, SqliteStore, StoreClosed
from state_store.sqlite import messages
from state_store.testing.contract.branches import with_a_tool
from state_store.testing.contract.importing import brought_in, rich, whole
from state_store.testing.turns import (
    USAGE,
    begin,
    retry,
    source,
    source_messages,
    turn,
    user,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    OpenDisk = Callable[..., SqliteStore]


def branched(store: SqliteStore) -> list[str]:
    """Write a session, a fork of it that went on, and both of them brought in again."""
    parent = rich(store)
    fork = store.fork_session(parent).id
    turn(store, fork)
    undone = store.undo(fork).id
    return [
        parent,
        undone,
        *(brought_in(store, whole(store, one), one).session.id for one in (parent, fork)),
    ]


def test_a_check_finds_nothing_wrong_with_them(
    open_disk: OpenDisk, path: Path, workspace_id: str
) -> None:
    """Every counter adds up, every number leads somewhere."""
    with open_disk() as store:
        branched(store)
    report = Maintenance(path, workspace_id=workspace_id).check()
    assert report.ok
    assert report.findings == ()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE sessions SET inherited_tokens = inherited_tokens + 1 WHERE forked_from_seq",
        "UPDATE sessions SET inherited_cost = 9 WHERE forked_from_seq",
        "UPDATE runs SET copied_from = NULL",
        "UPDATE messages SET extra = '[]'",
        "UPDATE messages SET undone_after = -1 WHERE seq = 1",
    ],
)
def test_a_check_finds_what_does_not_add_up(
    open_disk: OpenDisk, path: Path, workspace_id: str, change: str
) -> None:
    """What is inherited is what the copied runs used, and nothing else."""
    with open_disk() as store:
        branched(store)
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(change)
    assert not Maintenance(path, workspace_id=workspace_id).check().ok


def test_a_salvage_saves_them_as_they_are(
    open_disk: OpenDisk, path: Path, workspace_id: str
) -> None:
    """With what is undone, inherited and copied."""
    with open_disk() as store:
        ids = branched(store)
        before = [whole(store, one) for one in ids]
    into = path.with_name("saved.sqlite3")
    report = Maintenance(path, workspace_id=workspace_id).salvage(into)
    assert report.incomplete == ()
    with SqliteStore.open(into, workspace_id=workspace_id) as saved:
        assert [whole(saved, one) for one in ids] == before
        assert saved.redo(ids[1]).id == ids[1]


def test_records_are_not_read_from_the_store_that_takes_them(open_disk: OpenDisk) -> None:
    """That would end the transaction in its middle; it is refused and nothing is written."""
    with open_disk() as store:
        session_id = rich(store)

        def reading() -> Iterator[Message]:
            yield from source_messages(user())
            yield from store.messages(session_id).items

        with pytest.raises(RuntimeError, match="store that takes them"):
            store.import_session(source(), messages=reading(), digest="d")
        assert [one.id for one in store.list().items] == [session_id]
        with open_disk() as other:
            given = replace(source(), title="from another store")
            page = store.messages(session_id, view="all").items
            runs = store.runs(session_id).items
            made = other.import_session(given, messages=page, runs=runs, digest="d")
            assert made.session.title == "from another store"


def test_a_source_that_asks_the_store_when_it_ends_is_refused_too(open_disk: OpenDisk) -> None:
    """Whether it reads, writes or closes: nothing is written outside the one transaction."""

    def asking(ask: Callable[[], object]) -> Iterator[Message]:
        yield from source_messages(user())
        ask()

    with open_disk() as store:
        for ask in (store.list, store.create_session):
            with pytest.raises(RuntimeError, match="store that takes them"):
                store.import_session(source(), messages=asking(ask), digest="d")
        with pytest.raises(StoreClosed):
            store.import_session(source(), messages=asking(store.close), digest="d")
    with open_disk() as store:
        assert [one.message_count for one in store.list().items] == [0]


def test_a_page_of_everything_is_found_by_its_place(open_disk: OpenDisk) -> None:
    """However long the session is, no row before the page is looked at and nothing is sorted."""
    with open_disk() as store, store._database.read() as connection:
        for view in ("all", "original"):
            plan = connection.execute(f"EXPLAIN QUERY PLAN {messages._PAGE[view]}", ("s", 1, 1))
            (first, *others) = [str(row[3]) for row in plan]
            assert "session_id=? AND seq>?" in first
            assert not [one for one in others if "TEMP B-TREE FOR ORDER" in one]


@pytest.mark.parametrize("lost", range(1, 7))
def test_what_damage_left_of_a_session_can_be_forked(
    open_disk: OpenDisk, path: Path, lost: int
) -> None:
    """Whichever message is gone: others keep their runs, so that a failed one is not replayed."""
    with open_disk() as store:
        parent = store.create_session().id
        with_a_tool(store, parent)
        store.fail_run(begin(store, parent).id, "provider.error", usage=USAGE)
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("DELETE FROM messages WHERE seq = ?", (lost,))
    with open_disk() as store:
        fork = store.fork_session(parent).id
        left = {one.id: one.first_seq for one in store.runs(parent).items}
        copied = {one.id: one.copied_from for one in store.runs(fork).items}
        kept, its = store.messages(parent).items, store.messages(fork).items
        assert [one.content for one in its] == [one.content for one in kept]
        assert [one.run_id and copied[one.run_id] for one in its] == [one.run_id for one in kept]
        assert set(copied.values()) == set(left) - ({next(reversed(left))} if lost == 6 else set())


def steps_of(store: SqliteStore, work: Callable[[], object]) -> int:
    """Return how many steps SQLite makes for *work*, in thousands."""
    count = 0

    def one() -> bool:
        nonlocal count
        count += 1
        return False

    connection = store._database._connection
    connection.set_progress_handler(one, 1000)
    work()
    connection.set_progress_handler(None)
    return count


def test_undoing_and_importing_cost_the_same_for_each_turn_of_a_long_session(
    workspace_id: str,
) -> None:
    """By the steps that SQLite makes: no run has the others, or other sessions, read for it."""
    made: list[list[int]] = []
    with SqliteStore.in_memory(workspace_id=workspace_id) as store:
        for turn_count in (100, 400):
            session_id = store.create_session().id
            for _ in range(turn_count):
                turn(store, session_id)
            given = whole(store, session_id)
            works: list[Callable[[], object]] = [
                partial(brought_in, store, given, session_id),
                partial(store.undo, session_id, turn_count),
                partial(store.redo, session_id, turn_count),
                partial(store.fork_session, session_id),
            ]
            made.append([steps_of(store, work) for work in works])
    for few, many in zip(*made, strict=True):
        assert many < 6 * few, made


def test_a_turn_of_many_attempts_is_undone_and_redone_as_one(workspace_id: str) -> None:
    """A turn of so many attempts is looked up once."""
    with SqliteStore.in_memory(workspace_id=workspace_id) as store:
        session_id = store.create_session().id
        runs = [turn(store, session_id)]
        for _ in range(200):
            runs.append(retry(store, runs[-1]))
        assert steps_of(store, lambda: store.undo(session_id)) < 100
        assert store.messages(session_id).items == ()
        assert steps_of(store, lambda: store.redo(session_id)) < 100
        assert len(store.messages(session_id).items) == 402
