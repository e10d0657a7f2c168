"""Many processes at an old database: starters at once, one that works with it, readers in turn.

Jobs for a process of its own, which forks the crowd. Invariant: the parent opens nothing; each
process opens the store as its program does, an older one with an older schema.

The rules: of many starters one upgrades, and none fails, whoever goes to work first; somebody who
has it open is named and nothing is changed; readers that come and go keep nobody out for ever.
"""

from __future__ import annotations

import itertools
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from state_store import Maintenance, StoreInUse, StoreNewer
from state_store.sqlite.opening import bring_up_to_date, open_database
from state_store.sqlite.place import Place
from state_store.sqlite.schema import SCHEMA, Schema
from state_store.testing.children import Children, Listen, Say
from state_store.testing.family import FIRST, OldStore, old_database, open_store
from state_store.testing.sqlite_engine import WORKSPACE_ID
from state_store.testing.turns import session_with_turn, turn

if TYPE_CHECKING:
    from state_store.testing.address import StoreAddress

TURN_SIZE = 2
SAVED_COUNT = 1  # what `fill` leaves in the list that looks like a turn


def start_at_once(addresses: list[StoreAddress], *, starter_count: int) -> dict[str, Any]:
    """Let *starter_count* processes open an old database at once, and all of them stay."""
    children = Children()
    counted = {"stores": 0, "starters": 0, "upgrades": 0, "backups": 0}
    for address in addresses:
        path = Path(address.location)
        children.ask(partial(_make_old, path))
        starters = [children.fork(partial(_start, path)) for _ in range(starter_count)]
        for starter in starters:
            starter.tell()
        for starter in starters:
            starter.wait_for(1)
        upgrades = sum(starter.facts[0][0] for starter in starters)
        assert upgrades == 1, f"{upgrades} upgrades"
        for starter in starters:
            starter.tell()
        for starter in starters:
            children.finish(starter)
        ((backups, turns),) = children.ask(partial(_count, path))
        assert turns == starter_count
        counted["stores"] += 1
        counted["starters"] += starter_count
        counted["upgrades"] += upgrades
        counted["backups"] += backups
    return counted


def upgrade_beside_another(addresses: list[StoreAddress]) -> dict[str, Any]:
    """Try to upgrade while an older program has it open, and again when that has gone."""
    (address,) = addresses
    path, children = Path(address.location), Children()
    children.ask(partial(_make_old, path))
    older = children.fork(partial(_work_with_the_old, path))
    older.wait_for(1)
    before = _contents(path)
    ((pids, work, hint),) = children.ask(partial(_be_refused, path))
    assert pids == [older.pid], pids
    assert _contents(path) == before, "something was changed although it was refused"
    older.tell()
    children.finish(older)
    ((version,),) = children.ask(partial(_upgrade, path))
    assert version == SCHEMA.version
    return {"work": work, "hint": hint}


def upgrade_among_readers(addresses: list[StoreAddress], *, reader_count: int) -> dict[str, Any]:
    """Upgrade while older programs open it for reading, one after another without a pause."""
    (address,) = addresses
    path, children = Path(address.location), Children()
    children.ask(partial(_make_old, path))
    readers = [children.fork(partial(_read_again_and_again, path)) for _ in range(reader_count)]
    for reader in readers:
        reader.wait_for(1)
    ((version,),) = children.ask(partial(_upgrade, path))
    assert version == SCHEMA.version
    for reader in readers:
        children.finish(reader)
    assert all(reader.facts[-1][0] == "newer" for reader in readers)
    return {"readers": reader_count, "readings": sum(one.facts[-1][1] for one in readers)}


def _place(path: Path, schema: Schema = SCHEMA, busy_timeout_ms: int = 5_000) -> Place:
    return Place.at(path, workspace_id=WORKSPACE_ID, schema=schema, busy_timeout_ms=busy_timeout_ms)


def _make_old(path: Path, say: Say, listen: Listen) -> None:
    del say, listen
    old_database(path, workspace_id=WORKSPACE_ID)


def _start(path: Path, say: Say, listen: Listen) -> None:
    listen()
    # Who waits for the others to leave fails in the end: they stay until this one has started.
    with closing(open_store(_place(path, busy_timeout_ms=20_000))) as store:
        say(store.upgraded is not None)
        listen()
        session_id = store.create_session().id
        turn(store, session_id)


def _count(path: Path, say: Say, listen: Listen) -> None:
    del listen
    maintenance = Maintenance(path, workspace_id=WORKSPACE_ID)
    assert maintenance.plan() is None
    with closing(open_store(_place(path))) as store:
        new = [one for one in store.list(limit=None).items if one.title is None]
        turns = sum(one.message_count == TURN_SIZE for one in new)
    say(len(maintenance.backups()), turns - SAVED_COUNT)


def _work_with_the_old(path: Path, say: Say, listen: Listen) -> None:
    with closing(OldStore(_place(path, FIRST))) as store:
        store.write(session_with_turn)
        say("open")
        listen()


def _be_refused(path: Path, say: Say, listen: Listen) -> None:
    del listen
    try:
        bring_up_to_date(_place(path, busy_timeout_ms=50))
    except StoreInUse as refused:
        say([pid for pid, *_ in refused.holders], refused.work, refused.hint)


def _upgrade(path: Path, say: Say, listen: Listen) -> None:
    del listen
    made = bring_up_to_date(_place(path))
    say(None if made is None else made.to_version)


def _read_again_and_again(path: Path, say: Say, listen: Listen) -> None:
    del listen
    place = _place(path, FIRST)
    for count in itertools.count():
        try:
            opened = open_database(place, writing=False)
        except StoreNewer:
            say("newer", count)
            return
        if count == 0:
            say("reading")
        with opened.database.read() as connection:
            assert connection.execute("SELECT count(*) FROM sessions").get
        opened.database.close()


def _contents(path: Path) -> dict[str, bytes]:
    """Return the bytes of all files but the -shm, where SQLite notes who reads.

    This process has none of them open, so reading them drops nobody's locks.
    """
    files = [one for one in path.parent.iterdir() if one.is_file()]
    return {one.name: one.read_bytes() for one in files if not one.name.endswith("-shm")}
