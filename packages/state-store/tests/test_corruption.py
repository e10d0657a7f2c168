from __future__ import annotations

import os
import random
from contextlib import closing
from typing import TYPE_CHECKING

import apsw
import pytest

from state_store import (
    NewSession,
    SessionNotFound,
    SqliteStore,
    StoreDamaged,
    StoreForeign,
    Usage,
    new_id,
)
from state_store.testing.turns import calling, contents, result, turn, user

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    OpenDisk = Callable[..., SqliteStore]
    Damage = Callable[[bytearray, random.Random], None]

# More damage: STATE_STORE_LONG=1. The same again: STATE_STORE_SEED=… as printed.
LONG = os.environ.get("STATE_STORE_LONG") == "1"
SEED = int(os.environ.get("STATE_STORE_SEED", random.SystemRandom().getrandbits(32)))
DAMAGE_COUNT = 2000 if LONG else 40
SESSION_COUNT = 25
PAGE_SIZE = 4096
EMPTY_INDEX_PAGE = b"\x0a\0\0\0\0" + PAGE_SIZE.to_bytes(2, "big") + bytes(PAGE_SIZE - 7)
ROOT_PAGE = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
MISCOUNTED = (
    "SELECT count(*) FROM sessions WHERE message_count <> (SELECT count(*) FROM messages"
    " WHERE session_id = sessions.id AND kind = 'original')"
)


@pytest.fixture
def filled(open_disk: OpenDisk, path: Path) -> dict[str, list[str | None]]:
    """Return what the sessions of a closed database of many pages say, by id."""
    with open_disk() as store:
        for number in range(SESSION_COUNT):
            session_id = store.create_session(NewSession(title=f"session {number}")).id
            for round_number in range(3):
                turn(store, session_id, f"{number} {round_number} " + "x" * 150 * number)
        session_id = store.list().items[0].id
        run, _ = store.begin_run(session_id, user(), run_id=new_id())
        seq = store.start_tools(run.id, calling("a"), ["safe"]).seq
        store.finish_tool(
            run.id, call_seq=seq, call_index=0, outcome="ok", message=result("a", "y" * 9000)
        )
        store.fail_run(run.id, "provider.error", usage=Usage())
        said = {one.id: contents(store, one.id) for one in store.list(limit=None).items}
    path.with_name(f"{path.name}.backup-20260101T000000Z").write_bytes(b"older")
    path.with_name(f"{path.name}.backup-20260102T000000Z").write_bytes(b"newest")
    return said


def zeroed_header(content: bytearray, _: random.Random) -> None:
    """Overwrite bytes 0 to 99."""
    content[:100] = bytes(100)


def half(content: bytearray, _: random.Random) -> None:
    """Cut the file in the middle of a page."""
    del content[len(content) // 2 + 1000 :]


def flipped_bytes(content: bytearray, source: random.Random) -> None:
    """Flip some bits of a few bytes that lie together in a page behind the first."""
    start = source.randrange(PAGE_SIZE, len(content) - 64)
    for offset in range(start, start + source.choice((1, 2, 8, 64))):
        content[offset] ^= source.randrange(1, 256)


def zeroed_page(content: bytearray, source: random.Random) -> None:
    """Overwrite a page behind the first."""
    number = source.randrange(1, len(content) // PAGE_SIZE)
    content[number * PAGE_SIZE : (number + 1) * PAGE_SIZE] = bytes(PAGE_SIZE)


def swapped_pages(content: bytearray, source: random.Random) -> None:
    """Write a page to the place of another, as a disk does that mixes up addresses."""
    one, other = source.sample(range(1, len(content) // PAGE_SIZE), 2)
    page = content[one * PAGE_SIZE : (one + 1) * PAGE_SIZE]
    content[other * PAGE_SIZE : (other + 1) * PAGE_SIZE] = page


def source_of(seed: int) -> random.Random:
    """Return the choices that belong to *seed*."""
    return random.Random(seed)


def everything_read(store: SqliteStore) -> dict[str, list[str | None]]:
    """Read all there is by every reading method, and return what the messages say, by session."""
    found = {}
    for summary in store.list(limit=None).items:
        found[summary.id] = contents(store, summary.id)
        store.get_session(summary.id)
        store.runs(summary.id)
        store.tool_executions(summary.id)
        list(store.export_messages(summary.id))
    return found


@pytest.mark.parametrize("writing", [True, False])
@pytest.mark.parametrize("damage", [zeroed_header, half])
def test_a_database_without_head_or_tail_is_refused_with_what_helps(
    open_disk: OpenDisk,
    path: Path,
    filled: dict[str, list[str | None]],
    damage: Damage,
    *,
    writing: bool,
) -> None:
    """The file and the newest backup are named; nothing is put in its place (C11)."""
    content = bytearray(path.read_bytes())
    damage(content, source_of(0))
    path.write_bytes(content)
    names = {one.name for one in path.parent.iterdir()}
    with pytest.raises(StoreDamaged) as refused:
        open_disk(writing=writing)
    require_help(refused.value, path)
    assert path.read_bytes() == content
    assert {one.name for one in path.parent.iterdir()} - {
        f"{path.name}-wal",
        f"{path.name}-shm",
    } == names


@pytest.mark.parametrize("damage", [flipped_bytes, zeroed_page, swapped_pages])
def test_damage_in_the_middle_is_an_error_or_an_answer_that_is_not_empty(
    open_disk: OpenDisk, path: Path, filled: dict[str, list[str | None]], damage: Damage
) -> None:
    """Never "no sessions" nor "no messages" with success; the bytes stay (C11).

    SQLite has no checksums: a changed letter is a changed letter, and a row whose key has changed
    is not found by it. Whatever is missing like that is found by a check of the whole.
    """
    content = path.read_bytes()
    source = source_of(SEED)
    found = {"refused": 0, "whole": 0, "changed": 0, "shortened": 0, "not found": 0}
    for number in range(DAMAGE_COUNT):
        damaged = bytearray(content)
        damage(damaged, source)
        path.write_bytes(damaged)
        try:
            with open_disk(writing=False) as store:
                read = everything_read(store)
        except StoreDamaged as error:
            require_help(error, path)
            found["refused"] += 1
        except (SessionNotFound, StoreForeign):
            found["not found"] += 1  # the damage is in the id by which it was looked for
            assert not is_whole(path) or damage is flipped_bytes, (SEED, number)
        else:
            assert read, (SEED, number)
            # A page in the place of another is whole in itself, and its rows may say anything.
            assert all(read.values()) or damage is swapped_pages, (SEED, number)
            if shape(read) != shape(filled):
                found["shortened"] += 1
                assert not is_whole(path) or damage is swapped_pages, (SEED, number)
            else:
                found["whole" if read == filled else "changed"] += 1
        assert path.read_bytes() == damaged, (SEED, number)
    print(f"seed {SEED}, {damage.__name__}: {found}")  # noqa: T201 - for `pytest -s`
    assert found["refused"]


@pytest.mark.parametrize(
    ("index", "read"),
    [
        ("sessions_active", lambda store, _: store.list()),
        ("sqlite_autoindex_messages_1", lambda store, key: store.messages(key)),
        ("sqlite_autoindex_messages_1", lambda store, key: store.messages(key, view="all")),
        ("sqlite_autoindex_messages_1", lambda store, key: store.last_messages(key, 5)),
        ("sqlite_autoindex_messages_1", lambda store, key: store.load(key)),
    ],
)
def test_an_index_that_lost_its_rows_makes_no_empty_answer(
    open_disk: OpenDisk,
    path: Path,
    filled: dict[str, list[str | None]],
    index: str,
    read: Callable[[SqliteStore, str], object],
) -> None:
    """SQLite believes an index; this package asks once more before it says "nothing" (C11)."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        found = connection.execute(ROOT_PAGE, (index,)).get
    assert isinstance(found, int)
    with path.open("r+b") as file:
        file.seek((found - 1) * PAGE_SIZE)
        file.write(EMPTY_INDEX_PAGE)
    with open_disk(writing=False) as store, pytest.raises(StoreDamaged) as refused:
        read(store, next(iter(filled)))
    require_help(refused.value, path)


def test_a_database_that_belongs_to_two_workspaces_is_damaged(
    open_disk: OpenDisk, path: Path, filled: dict[str, list[str | None]]
) -> None:
    """There is one row that says whose it is."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("INSERT INTO store SELECT * FROM store")
    with pytest.raises(StoreDamaged) as refused:
        open_disk()
    require_help(refused.value, path)


def shape(read: dict[str, list[str | None]]) -> list[int]:
    """Return how many messages there are, by session."""
    return sorted(len(messages) for messages in read.values())


def is_whole(path: Path) -> bool:
    """Say whether nothing is wrong with the file when all of it is looked at."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        try:
            return (
                connection.pragma("integrity_check") == "ok"
                and connection.execute("PRAGMA foreign_key_check").fetchall() == []
                # integrity_check says ok to a message whose kind is no longer one.
                and connection.execute(MISCOUNTED).get == 0
            )
        except apsw.Error:
            return False


def require_help(error: StoreDamaged, path: Path) -> None:
    """Check that an error names the file, the newest backup, and what to do."""
    assert str(path) in str(error)
    assert str(error.backup_path).endswith(".backup-20260102T000000Z")
    assert str(error.backup_path) in str(error.hint)
