"""What is not upgraded, and keeps its bytes: what is newer, what has drifted, what is only asked.

Each call on a copy of its own, so that one that writes cannot hide another.
"""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest

from state_store import Maintenance, SqliteStore, StateStoreError, StoreDamaged, StoreNewer
from state_store.sqlite.opening import bring_up_to_date
from state_store.sqlite.place import Place
from state_store.sqlite.schema import SCHEMA
from state_store.testing.family import FIRST, Filled, OldStore, family, old_database

if TYPE_CHECKING:
    from collections.abc import Callable

NEWER = SCHEMA.version + 1
ASKED: dict[str, Callable[[Path, str], object]] = {
    "open": lambda path, key: SqliteStore.open(path, workspace_id=key),
    "read": lambda path, key: SqliteStore.open(path, workspace_id=key, writing=False),
    "plan": lambda path, key: Maintenance(path, workspace_id=key).plan(),
    "upgrade": lambda path, key: Maintenance(path, workspace_id=key).upgrade(),
    "back up": lambda path, key: Maintenance(path, workspace_id=key).back_up(),
    "compact": lambda path, key: Maintenance(path, workspace_id=key).compact(),
    "restore": lambda path, key: Maintenance(path, workspace_id=key).restore(),
}


def contents(path: Path) -> dict[str, bytes]:
    """Return the bytes of all files of a store that nobody has open, but for the -shm.

    An empty log is as good as none: whoever reads a database in WAL mode makes one.
    """
    files = [one for one in path.parent.rglob("*") if one.is_file()]
    found = {one.name: one.read_bytes() for one in files if not one.name.endswith("-shm")}
    return {name: content for name, content in found.items() if content}


def change(path: Path, *statements: str) -> None:
    """Change a database that nobody has open, as a program does that knows no rules."""
    with closing(apsw.Connection(str(path))) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize("asked", ASKED)
def test_an_older_program_refuses_a_newer_database_before_any_write(
    path: Path, workspace_id: str, asked: str
) -> None:
    """C09: one line that names both versions and the way out; every byte as it was.

    Also where there is a backup that could be restored, and files that a crash left.
    """
    old_database(path, workspace_id=workspace_id, schema=SCHEMA)
    Maintenance(path, workspace_id=workspace_id).back_up()
    change(
        path,
        "ALTER TABLE sessions ADD COLUMN mood TEXT",
        "CREATE TABLE moods (mood TEXT)",
        f"PRAGMA user_version={NEWER}",
    )
    path.with_name(f".{path.name}.0123.new").write_bytes(b"left by a crash of the newer program")
    before = contents(path)
    with pytest.raises(StoreNewer) as refused:
        ASKED[asked](path, workspace_id)
    assert contents(path) == before
    assert (refused.value.found, refused.value.supported) == (NEWER, SCHEMA.version)
    assert "\n" not in str(refused.value)
    assert "Upgrade" in str(refused.value.hint)


def test_a_newer_database_is_replaced_only_when_told(path: Path, workspace_id: str) -> None:
    """C09: and it is kept beside the one that was restored."""
    filled = old_database(path, workspace_id=workspace_id, schema=SCHEMA)
    maintenance = Maintenance(path, workspace_id=workspace_id)
    maintenance.back_up()
    change(path, "CREATE TABLE moods (mood TEXT)", f"PRAGMA user_version={NEWER}")
    newer = path.read_bytes()
    restored = maintenance.restore(over_newer=True)
    assert restored.replaced_path is not None
    assert Path(restored.replaced_path).read_bytes() == newer
    with SqliteStore.open(path, workspace_id=workspace_id) as store:
        listed = store.list(limit=None).items + store.list(limit=None, archived=True).items
    assert {one.id for one in listed} == set(filled.session_ids)


DRIFTS = {
    "table tombstones": "ALTER TABLE tombstones ADD COLUMN erased_at TEXT",
    "index sessions_digits": "CREATE INDEX sessions_digits ON sessions (substr(id, -4))",
    "index sessions_title": "DROP INDEX sessions_title",
    "trigger t": "CREATE TRIGGER t AFTER DELETE ON runs BEGIN SELECT 1; END",
}


@pytest.mark.parametrize("named", DRIFTS)
def test_a_database_that_has_drifted_is_refused_twice_the_same(
    path: Path, workspace_id: str, old: Filled, named: str
) -> None:
    """C43: a part of the last migration is there already, and nothing says so.

    One error that names what does not agree; nothing is changed and no backup made. The program
    that wrote it can still open it, and so can a backup of it be made.
    """
    change(path, DRIFTS[named])
    before = contents(path)
    told = set()
    for asked in ("open", "read", "upgrade", "open"):
        with pytest.raises(StoreDamaged, match=f"{named} does not agree") as refused:
            ASKED[asked](path, workspace_id)
        told.add(str(refused.value))
        assert contents(path) == before
    assert len(told) == 1
    assert Maintenance(path, workspace_id=workspace_id).back_up().problem is None
    with (
        closing(OldStore(Place.at(path, workspace_id=workspace_id, schema=FIRST))) as store,
        store.database.read() as connection,
    ):
        pending = connection.execute("SELECT id FROM runs WHERE status = 'pending'").fetchall()
        assert pending == [(old.pending_run_id,)]


def test_a_failed_statement_leaves_no_transaction_open(
    path: Path, workspace_id: str, old: Filled
) -> None:
    """C43: another connection writes at once."""
    change(path, "CREATE TABLE moods (mood TEXT)")
    with suppress(StateStoreError):
        bring_up_to_date(Place.at(path, workspace_id=workspace_id, schema=family()))
    change(path, "BEGIN IMMEDIATE", "DROP TABLE moods", "COMMIT")
    assert bring_up_to_date(Place.at(path, workspace_id=workspace_id, schema=family()))


def test_a_plan_says_what_an_upgrade_does_and_changes_nothing(
    path: Path, workspace_id: str, old: Filled
) -> None:
    """From where to where, in which steps, with how much space."""
    before = contents(path)
    maintenance = Maintenance(path, workspace_id=workspace_id)
    planned = maintenance.plan()
    assert planned is not None
    assert contents(path) == before
    assert planned.needed_bytes >= 3 * path.stat().st_size
    assert planned.free_bytes > planned.needed_bytes
    assert planned.backup is None
    done = maintenance.upgrade()
    assert done is not None
    assert (done.from_version, done.to_version, done.steps) == (
        planned.from_version,
        planned.to_version,
        planned.steps,
    )
    assert maintenance.plan() is None
    assert maintenance.upgrade() is None


def test_a_plan_is_made_beside_others(path: Path, workspace_id: str, old: Filled) -> None:
    """Somebody who works with the store keeps nobody from asking."""
    with closing(OldStore(Place.at(path, workspace_id=workspace_id, schema=FIRST))):
        assert Maintenance(path, workspace_id=workspace_id).plan() is not None


def test_a_plan_leaves_an_unfinished_restore_alone(
    path: Path, workspace_id: str, run_python: Callable[..., str]
) -> None:
    """A reader would begin a new log, which would be kept in the place of the one that is kept."""
    old_database(path, workspace_id=workspace_id, schema=SCHEMA)
    maintenance = Maintenance(path, workspace_id=workspace_id)
    maintenance.back_up()
    run_python(
        """
import apsw
connection = apsw.Connection(str(path))
connection.execute("UPDATE sessions SET title = 'in the log'")
rename = os.rename
def die_at_the_database(old, new):
    os._exit(0) if str(old) == str(path) else rename(old, new)
os.rename = die_at_the_database
if os.fork() == 0:
    tend().restore()
os.wait()
os._exit(0)
"""
    )
    before = contents(path)
    assert any("replaced" in name and name.endswith("-wal") for name in before)
    with pytest.raises(StateStoreError, match="begun and not finished"):
        maintenance.plan()
    assert contents(path) == before
    SqliteStore.open(path, workspace_id=workspace_id).close()
    (kept,) = [one for one in path.parent.glob("*.replaced-*") if one.name.endswith("Z")]
    with closing(apsw.Connection(str(kept))) as connection:
        assert connection.execute("SELECT DISTINCT title FROM sessions").get == "in the log"
