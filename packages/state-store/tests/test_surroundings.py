"""What a store stands on, seen from outside, and the ways in which it goes for good."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from state_store import BackupUnusable, NewSession, StoreInUse

if TYPE_CHECKING:
    from collections.abc import Callable

    from state_store import Maintenance, SqliteStore

    OpenDisk = Callable[..., SqliteStore]
    Tend = Callable[..., Maintenance]


def names(folder: Path) -> set[str]:
    """Return what lies in *folder*, but for what SQLite makes to read."""
    return {one.name for one in folder.iterdir() if not one.name.endswith(("-wal", "-shm"))}


def test_a_missing_store_has_surroundings_and_nothing_is_made(tend: Tend, path: Path) -> None:
    """Sizes are unknown, the rest is not."""
    around = tend().look_around()
    assert (around.database_bytes, around.log_bytes, around.owners) == (None, None, ())
    assert around.sqlite_fault is None
    assert around.free_bytes is not None
    assert not path.exists()


def test_a_damaged_store_has_the_same_surroundings(
    open_disk: OpenDisk, tend: Tend, path: Path
) -> None:
    """The database is never opened."""
    with open_disk():
        pass
    path.write_bytes(b"no database")
    around = tend().look_around()
    assert around.database_bytes == len(b"no database")
    assert not around.is_unfinished


def test_open_stores_are_seen_with_what_they_wrote(open_disk: OpenDisk, tend: Tend) -> None:
    """Alive while open; a file that nobody holds is a dead process's."""
    with open_disk():
        (owner,) = tend().look_around().owners
        assert (owner.liveness, owner.pid) == ("alive", os.getpid())
    assert tend().look_around().owners == ()


def test_backups_that_hold_a_session_are_named_and_removed(open_disk: OpenDisk, tend: Tend) -> None:
    """An older one that does not hold it stays."""
    with open_disk() as store:
        earlier = tend().back_up()
        session = store.create_session(NewSession(title="t"))
        holding = tend().back_up()
        assert tend().backups_holding(session.id) == (holding.path,)
        assert tend().remove_backups([holding.path]) == (holding.path,)
        assert tend().backups_holding(session.id) == ()
        assert [one.path for one in tend().backups()] == [earlier.path]
        assert store.get_session(session.id) == session


def test_nothing_but_a_backup_is_removed_as_one(
    open_disk: OpenDisk, tend: Tend, path: Path
) -> None:
    """Not the database, and then no other one either."""
    with open_disk():
        backup = tend().back_up()
        with pytest.raises(BackupUnusable):
            tend().remove_backups([backup.path, str(path)])
        assert Path(backup.path).exists()
        assert path.exists()


def test_a_store_is_removed_whole_but_for_what_is_to_be_kept(
    open_disk: OpenDisk, tend: Tend, path: Path
) -> None:
    """Database, log, lock files, backups and the directory itself."""
    with open_disk():
        tend().back_up()
    (path.parent / "exports").mkdir()
    (path.parent / "exports" / "mine").write_text("kept")
    tend().remove(kept=frozenset({"exports"}))
    assert names(path.parent) == {"exports"}
    tend().remove()
    assert not path.parent.exists()


def test_a_store_in_use_is_not_removed(open_disk: OpenDisk, tend: Tend, path: Path) -> None:
    """What was to be done first is not done either."""
    done: list[str] = []
    with open_disk() as store:
        session = store.create_session(NewSession(title="t"))
        before = names(path.parent)
        with pytest.raises(StoreInUse):
            tend(busy_timeout_ms=50).remove(first=lambda: done.append("first"))
        assert (names(path.parent), done) == (before, [])
        assert store.get_session(session.id) == session


def test_what_has_to_be_done_first_keeps_all_when_it_fails(
    open_disk: OpenDisk, tend: Tend, path: Path
) -> None:
    """Whoever cannot take the store off its lists does not lose it."""
    with open_disk():
        pass
    before = names(path.parent)

    def fail() -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        tend().remove(first=fail)
    assert names(path.parent) == before
