"""What forks, undone turns and imports leave in the file: sound, salvaged whole, cheap to page."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import apsw
import pytest

from state_store import Maintenance, Message, SqliteStore
from state_store.sqlite import messages
from state_store.testing.contract.importing import brought_in, rich, whole
from state_store.testing.turns import source, source_messages, turn, user

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


def test_a_page_of_everything_is_found_by_its_place(open_disk: OpenDisk) -> None:
    """However long the session is, no row before the page is looked at and nothing is sorted."""
    with open_disk() as store, store._database.read() as connection:
        for view in ("all", "original"):
            plan = connection.execute(f"EXPLAIN QUERY PLAN {messages._PAGE[view]}", ("s", 1, 1))
            (first, *others) = [str(row[3]) for row in plan]
            assert "session_id=? AND seq>?" in first
            assert not [one for one in others if "TEMP B-TREE FOR ORDER" in one]
