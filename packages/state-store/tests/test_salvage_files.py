from __future__ import annotations

import errno
import os
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from state_store import (
    NewSession,
    SqliteStore,
    StoreDamaged,
    StoreForeign,
    StoreMissing,
    StoreNewer,
    StoreUnavailable,
)
from state_store.sqlite.checking import check
from state_store.sqlite.place import Place
from state_store.sqlite.salvage import salvage
from state_store.sqlite.schema import SCHEMA, Migration, Schema
from state_store.testing.damage import PAGE_SIZE, change, rows
from state_store.testing.family import FIRST, family, old_database, open_store
from state_store.testing.turns import begin, calling, complete, result, turn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from state_store.findings import SalvageReport, TableSalvage

    OpenDisk = Callable[..., SqliteStore]

NOW = datetime(2027, 1, 1, tzinfo=UTC)
MARKER = "a text that has to be gone"


def table(report: SalvageReport, name: str) -> TableSalvage:
    """Return the account of one table."""
    return next(one for one in report.tables if one.table == name)


def test_of_two_copies_of_a_row_the_one_in_the_tree_is_kept(
    open_disk: OpenDisk, path: Path, into: Path, save: Callable[..., SalvageReport]
) -> None:
    """An older image of a page that no tree leads to changes nothing, and is counted."""
    with open_disk() as store:
        session_id = store.create_session(NewSession(title="older")).id
    ((page,),) = rows(path, "SELECT rootpage FROM sqlite_schema WHERE name = 'sessions'")
    older = path.read_bytes()[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    with open_disk() as store:
        store.update_session(session_id, {"title": "newer"})
    with path.open("ab") as file:
        file.write(older)
    report = save()
    assert rows(into, "SELECT title FROM sessions") == [("newer",)]
    assert table(report, "sessions").refused == {"duplicate": 1}
    assert report.incomplete == ()


@pytest.mark.parametrize("damage", [b"\0\0", b"\x20\0", b"\x02\0", b"\xff\xff"])
def test_a_wrong_page_size_in_the_header_hides_nothing(
    open_disk: OpenDisk, path: Path, save: Callable[..., SalvageReport], damage: bytes
) -> None:
    """The pages themselves tell their size."""
    with open_disk() as store:
        for _ in range(25):
            turn(store, store.create_session(NewSession(title="t")).id)
    content = bytearray(path.read_bytes())
    content[16:18] = damage
    path.write_bytes(content)
    report = save()
    assert (report.session_count, report.incomplete) == (25, ())


def test_a_chain_of_pages_that_is_broken_costs_its_row_alone(
    open_disk: OpenDisk, path: Path, into: Path, save: Callable[..., SalvageReport]
) -> None:
    """No part of a message is taken for the whole."""
    with open_disk() as store:
        session_id = store.create_session().id
        turn(store, session_id, "x" * 30_000)
    content = bytearray(path.read_bytes())
    links = [at for at in range(0, len(content), PAGE_SIZE) if content[at + 4 : at + 8] == b"xxxx"]
    content[links[2] : links[2] + 4] = (links[0] // PAGE_SIZE + 1).to_bytes(4, "big")
    path.write_bytes(content)
    report = save()
    assert table(report, "messages").refused == {"broken": 1}
    assert rows(into, "SELECT seq, content FROM messages") == [(2, "answer")]
    assert report.incomplete == (session_id,)
    assert report.damaged_page_count


def _weigh(connection: apsw.Connection) -> None:
    connection.execute(
        "ALTER TABLE messages ADD COLUMN weight INTEGER NOT NULL DEFAULT 7;"
        "UPDATE messages SET weight = 8 WHERE role = 'assistant'"
    )


MADE_UP = Schema((*SCHEMA.migrations, Migration(name="made_up", apply=_weigh)))


def test_an_older_database_is_saved_into_the_newest_schema(
    open_disk: OpenDisk,
    path: Path,
    into: Path,
    save: Callable[..., SalvageReport],
    workspace_id: str,
) -> None:
    """By the migrations, as an upgrade would; rows from before a column was added have it too."""
    with open_disk() as store:
        turn(store, store.create_session().id)
    report = save(schema=MADE_UP)
    assert report.version == SCHEMA.version
    assert rows(into, "SELECT weight FROM messages ORDER BY id") == [(7,), (8,)]
    assert check(Place.at(into, workspace_id=workspace_id, schema=MADE_UP)).findings == ()
    newer = into.with_name("newer.sqlite3")
    content = bytearray(into.read_bytes())
    content[:PAGE_SIZE] = bytes(PAGE_SIZE)  # nothing says which version it is any more
    into.write_bytes(content)
    salvage(Place.at(into, workspace_id=workspace_id, schema=MADE_UP), newer)
    assert rows(newer, "SELECT weight FROM messages ORDER BY id") == [(7,), (8,)]


def test_what_is_not_a_damaged_database_of_this_workspace_is_refused(
    open_disk: OpenDisk, path: Path, into: Path, save: Callable[..., SalvageReport]
) -> None:
    """With a typed error, nothing at the new path, and nothing left beside it."""
    with pytest.raises(StoreMissing):
        save()
    with open_disk() as store:
        store.create_session()
    with pytest.raises(StoreForeign):
        save(workspace_id="99999999-8888-4777-a666-555555555555")
    content = path.read_bytes()
    change(path, "PRAGMA user_version=9", "UPDATE schema_version SET version = version + 8")
    with pytest.raises(StoreNewer):
        save()
    for rubbish in (b"", b"something else", bytes(50_000), content[:PAGE_SIZE]):
        path.write_bytes(rubbish)
        with pytest.raises(StoreDamaged):
            save()
    path.unlink()
    change(path, "CREATE TABLE notes (text)")
    with pytest.raises(StoreForeign):
        save()
    assert {one.name for one in into.parent.iterdir()} == {"workspace"}
    into.write_bytes(b"mine")
    path.write_bytes(content)
    with pytest.raises(StoreUnavailable):
        save()
    assert into.read_bytes() == b"mine"


@pytest.mark.parametrize("pair", ["ac", "ce", "cC", "aC"])
def test_two_messages_whose_ends_changed_places_are_both_refused(
    open_disk: OpenDisk, path: Path, into: Path, save: Callable[..., SalvageReport], pair: str
) -> None:
    """Of one session or of two: what an end says of its row gives it away, and nothing is mixed."""
    with open_disk() as store:
        for letters in ("ace", "ACE"):
            session_id = store.create_session().id
            for letter in letters:
                turn(store, session_id, letter * 12_000)
    content = bytearray(path.read_bytes())
    one, other = (
        next(at for at in range(0, len(content), PAGE_SIZE) if content[at + 4 : at + 1000] == text)
        for text in (letter.encode() * 996 for letter in pair)
    )
    first, second = content[one : one + PAGE_SIZE], content[other : other + PAGE_SIZE]
    content[one : one + PAGE_SIZE], content[other : other + PAGE_SIZE] = second, first
    path.write_bytes(content)
    report = save()
    asked = rows(into, "SELECT content FROM messages WHERE role = 'user'")
    assert sorted(asked) == sorted((letter * 12_000,) for letter in set("aceACE") - set(pair))
    assert table(report, "messages").saved == 10


def test_frames_from_before_the_log_began_anew_are_not_read(
    open_disk: OpenDisk, path: Path, tmp_path: Path, into: Path, workspace_id: str
) -> None:
    """They are no damage either: every log that was not cut has some."""
    with open_disk() as store:
        session_id = store.create_session(NewSession(title="older")).id
        for _ in range(5):
            turn(store, session_id)
        with closing(apsw.Connection(str(path))) as connection:
            connection.execute("SELECT * FROM store").fetchall()  # or it sees no log
            assert connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)[0] > 0
        store.update_session(session_id, {"title": "newer"})
        copy = tmp_path / "copy.sqlite3"
        for end in ("", "-wal"):
            copy.with_name(f"{copy.name}{end}").write_bytes(
                path.with_name(f"{path.name}{end}").read_bytes()
            )
    report = salvage(Place.at(copy, workspace_id=workspace_id, clock=lambda: NOW), into)
    assert not report.log_damaged
    assert rows(into, "SELECT title FROM sessions") == [("newer",)]
    assert rows(into, "SELECT count(*) FROM messages") == [(10,)]


def test_commits_behind_the_damage_in_a_log_are_found_in_the_file(
    open_disk: OpenDisk, path: Path, tmp_path: Path, into: Path, workspace_id: str
) -> None:
    """When they were moved there before: older images in the log must not hide them."""
    with open_disk() as store:
        session_id = store.create_session(NewSession(title="older")).id
        log = path.with_name(f"{path.name}-wal")
        run = begin(store, session_id)
        seq = store.start_tools(run.id, calling("a"), ["safe"]).seq
        begun = log.stat().st_size
        store.finish_tool(run.id, call_seq=seq, call_index=0, outcome="ok", message=result("a"))
        complete(store, run)
        for _ in range(20):
            turn(store, session_id)
        store.update_session(session_id, {"title": "newer"})
        with closing(apsw.Connection(str(path))) as connection:
            connection.execute("SELECT * FROM store").fetchall()
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        damaged = bytearray(log.read_bytes())
        damaged[begun + 3000] ^= 1
        copy = tmp_path / "copy.sqlite3"
        copy.write_bytes(path.read_bytes())
        copy.with_name(f"{copy.name}-wal").write_bytes(damaged)
    report = salvage(Place.at(copy, workspace_id=workspace_id, clock=lambda: NOW), into)
    assert report.log_damaged
    for name in ("sessions", "messages", "runs", "tool_executions"):
        statement = f"SELECT * FROM {name} ORDER BY 1, 2, 3"  # noqa: S608 - constants alone
        assert rows(into, statement) == rows(path, statement), (name, report)
    assert report.incomplete == ()


def test_a_page_that_the_disk_cannot_read_costs_its_rows_alone(
    open_disk: OpenDisk, path: Path, save: Callable[..., SalvageReport], monkeypatch: Any
) -> None:
    """As on a disk with bad sectors."""
    with open_disk() as store:
        for _ in range(10):
            turn(store, store.create_session().id, "x" * 1000)
    ((bad,),) = rows(path, "SELECT max(pageno) FROM dbstat WHERE name = 'messages'")
    pread = os.pread

    def failing_pread(descriptor: int, size: int, offset: int) -> bytes:
        if offset == (bad - 1) * PAGE_SIZE:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", failing_pread)
    report = save()
    assert 0 < len(report.incomplete) < report.session_count == 10
    assert report.damaged_page_count == 1


@pytest.mark.parametrize(
    ("schema", "newest"), [(FIRST, SCHEMA), (FIRST, family()), (family(), family())]
)
def test_a_database_of_any_version_is_saved_into_the_newest_one(
    path: Path,
    into: Path,
    save: Callable[..., SalvageReport],
    workspace_id: str,
    *,
    schema: Schema,
    newest: Schema,
) -> None:
    """With all that a store of that version can hold, and what the migrations make of it."""
    path.parent.mkdir()
    filled = old_database(path, workspace_id=workspace_id, schema=schema)
    report = save(schema=newest)
    assert (report.version, report.incomplete) == (schema.version, ())
    assert {key for (key,) in rows(into, "SELECT id FROM sessions")} == set(filled.session_ids)
    place = Place.at(into, workspace_id=workspace_id, schema=newest)
    assert check(place).findings == ()
    open_store(place).close()
