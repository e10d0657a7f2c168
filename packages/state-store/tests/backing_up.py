"""Backups beside writers, and backups that die: jobs for a process of their own.

The parent keeps the ledger: a writer says when it begins a commit and when it was acknowledged.
Invariants: a backup holds, of every writer, its messages 1 to k, and k lies between what was
acknowledged before the backup was asked for and what was begun before it was there; what lies under
a backup's name is whole whenever its maker dies, and what it was making has a temporary name.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from state_store import Maintenance, NewMessage, NewSession, SqliteStore, Usage, new_id
from state_store.sqlite import backups
from state_store.sqlite.beside import at_rest, backups_of
from state_store.sqlite.place import Place
from state_store.testing.children import Child, Children, Listen, Say
from state_store.testing.effects import Effects, die_at, effects_of
from state_store.testing.sqlite_engine import WORKSPACE_ID

if TYPE_CHECKING:
    from state_store.testing.address import StoreAddress

PAUSE_S = 0.002
CONTENTS = "SELECT session_id, content FROM messages ORDER BY session_id, seq"
HALF_RUNS = (
    "SELECT count(*) FROM runs WHERE (status = 'completed') != EXISTS"
    " (SELECT 1 FROM messages WHERE run_id = runs.id AND role = 'assistant')"
)


def back_up_beside_writers(
    addresses: list[StoreAddress], *, backup_count: int, writer_count: int, seed: int
) -> dict[str, Any]:
    """Make *backup_count* backups while *writer_count* processes commit; judge each of them."""
    (address,) = addresses
    path, source, children = Path(address.location), random.Random(seed), Children()
    children.ask(partial(_create, address))
    writers = {one: children.fork(partial(_write, address, one)) for one in _ids(writer_count)}
    for writer in writers.values():
        writer.wait_for(4)
    backer = children.fork(partial(_back_up_when_told, path))
    counted = {"seed": seed, "backups": 0, "messages": 0, "grew_meanwhile": 0}
    for number in range(1, backup_count + 1):
        time.sleep(source.uniform(0, 0.01))
        children.hear()
        acknowledged = {one: _last(writer, "done") for one, writer in writers.items()}
        backer.tell(True)
        backer.wait_for(number)
        children.hear()
        (held,) = backer.facts[-1]
        for one, writer in writers.items():
            begun = _last(writer, "begin")
            assert acknowledged[one] <= held.get(one, 0) <= begun, (number, one, held)
            counted["grew_meanwhile"] += begun > acknowledged[one]
        counted["backups"] += 1
        counted["messages"] += sum(held.values())
    backer.tell(False)
    children.finish(backer)
    for writer in writers.values():
        children.kill(writer)
    children.ask(partial(_nothing_is_lost, path, {k: w.facts for k, w in writers.items()}))
    return counted


def _ids(count: int) -> list[str]:
    return [new_id() for _ in range(count)]


def _last(writer: Child, kind: str) -> int:
    return next((fact[1] for fact in reversed(writer.facts) if fact[0] == kind), 0)


def _create(address: StoreAddress, say: Say, listen: Listen) -> None:
    del say, listen
    address.open().close()


def _write(address: StoreAddress, session_id: str, say: Say, listen: Listen) -> None:
    """Commit one numbered message after the other, for ever."""
    del listen
    store, number = address.open(), 0
    while True:
        run_id = new_id()
        say("begin", number + 1)
        question = NewMessage(role="user", content=str(number + 1))
        create = NewSession() if number == 0 else None
        store.begin_run(session_id, question, run_id=run_id, create=create)
        say("done", number + 1)
        say("begin", number + 2)
        answer = NewMessage(role="assistant", content=str(number + 2))
        store.complete_run(run_id, answer, usage=Usage())
        number += 2
        say("done", number)
        time.sleep(PAUSE_S)


def _back_up_when_told(path: Path, say: Say, listen: Listen) -> None:
    tended = Maintenance(path, workspace_id=WORKSPACE_ID)
    while listen():
        backup = tended.back_up()
        assert backup.problem is None
        say(_judged(Path(backup.path)))


def _judged(backup: Path) -> dict[str, int]:
    """Return how many messages of each writer are in *backup*, which has to be consistent."""
    with closing(apsw.Connection(str(backup), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute(HALF_RUNS).get == 0, "half a run is in a backup"
        counts: Counter[str] = Counter()
        for session_id, content in connection.execute(CONTENTS):
            counts[session_id] += 1
            assert content == str(counts[session_id]), f"no prefix: {content} of {session_id}"
    left = [one.name for one in backup.parent.iterdir() if one.name.startswith(f"{backup.name}-")]
    assert left == [], "it is not one file"
    return dict(counts)


def _nothing_is_lost(
    path: Path, ledgers: dict[str, list[list[Any]]], say: Say, listen: Listen
) -> None:
    del say, listen
    with closing(SqliteStore.open(path, workspace_id=WORKSPACE_ID)) as store:
        for session_id, facts in ledgers.items():
            said = [one.content for one in store.messages(session_id).items]
            assert said == [str(number + 1) for number in range(len(said))]
            assert facts[-1][1] - (facts[-1][0] == "begin") <= len(said) <= facts[-1][1]


def die_everywhere(addresses: list[StoreAddress], *, step: int, seed: int) -> dict[str, Any]:
    """Die at every *step*-th effect of a backup that also prunes; look at what is left."""
    (address,) = addresses
    children, root = Children(), Path(address.location)
    root.mkdir()
    children.ask(partial(_prepare, root / "new", backup_count=backups.KEPT_COUNT))
    before = _names(root / "new")
    effects = effects_of(children, _copied(root, "life"), _back_up)
    assert _names(root / "life") != before
    numbers = range(seed % step, len(effects), step)
    for number in numbers:
        name = effects[number]
        place = _copied(root, f"death-{number}")
        die_at(children, place, _back_up, number)
        children.ask(partial(_only_good_ones, place, f"effect {number}, {name}"))
        shutil.rmtree(place)
    return {
        "points": len(effects),
        "deaths": len(numbers),
        "kinds": Counter(one.split()[0] for one in effects),
    }


def die_at_random(addresses: list[StoreAddress], *, kill_count: int, seed: int) -> dict[str, Any]:
    """Kill *kill_count* backups of a larger database, each at some instant of its work."""
    (address,) = addresses
    children, source, root = Children(), random.Random(seed), Path(address.location)
    root.mkdir()
    children.ask(partial(_prepare, root / "new", backup_count=1, size=600_000))
    place = _copied(root, "killed")
    began = time.monotonic()
    children.ask(partial(_back_up_always, place, once=True))
    takes_s = time.monotonic() - began
    counted = {"seed": seed, "kills": kill_count, "in_the_middle": 0}
    for number in range(kill_count):
        backer = children.fork(partial(_back_up_always, place))
        backer.wait_for(1)
        time.sleep(source.uniform(0, takes_s))
        children.kill(backer)
        counted["in_the_middle"] += any(name.startswith(".") for name in _names(place))
        children.ask(partial(_only_good_ones, place, f"kill {number}"))
    return counted


def interrupt_at_random(
    addresses: list[StoreAddress], *, interrupt_count: int, seed: int
) -> dict[str, Any]:
    """Send Ctrl-C to *interrupt_count* backups; count those of which something hidden is left."""
    (address,) = addresses
    children, source, root = Children(), random.Random(seed), Path(address.location)
    root.mkdir()
    children.ask(partial(_prepare, root / "new", backup_count=1, size=600_000))
    place = _copied(root, "interrupted")
    began = time.monotonic()
    children.ask(partial(_back_up_always, place, once=True))
    takes_s = time.monotonic() - began
    counted = {"seed": seed, "interrupts": interrupt_count, "in_the_middle": 0}
    counted |= {"left": 0, "unheard": 0}
    for number in range(interrupt_count):
        backer = children.fork(partial(_back_up_until_interrupted, place))
        backer.wait_for(1)
        time.sleep(source.uniform(0, takes_s))
        os.kill(backer.pid, signal.SIGINT)
        children.finish(backer)
        # Python passes over an exception that strikes in a finalizer.
        counted["unheard"] += backer.facts[-1] != ["interrupted"]
        counted["in_the_middle"] += ["made"] not in backer.facts
        counted["left"] += any(name.startswith(".") for name in _names(place))
        children.ask(partial(_only_good_ones, place, f"interrupt {number}"))
    return counted


def _prepare(place: Path, say: Say, listen: Listen, *, backup_count: int, size: int = 0) -> None:
    """Make a store with backups and something new since."""
    del say, listen
    path = _path(place)
    with closing(SqliteStore.open(path, workspace_id=WORKSPACE_ID)) as store:
        session_id = store.create_session().id
        for number in range(backup_count + 1):
            if number:
                Maintenance(path, workspace_id=WORKSPACE_ID).back_up()
            run_id, content = new_id(), f"{number} " + "x" * size
            message = NewMessage(role="user", content=content)
            store.begin_run(session_id, message, run_id=run_id)
            store.fail_run(run_id, "provider.error", usage=Usage())


def _path(place: Path) -> Path:
    return place / "home" / "state.sqlite3"


def _names(place: Path) -> set[str]:
    return {one.name for one in (place / "home").iterdir()}


def _copied(root: Path, name: str) -> Path:
    shutil.copytree(root / "new", root / name)
    return root / name


def _back_up(place: Path, effects: Effects, say: Say) -> None:
    del say
    Maintenance(
        _path(place),
        workspace_id=WORKSPACE_ID,
        progress=lambda what, *_: effects.about_to(f"progress {what}"),
    ).back_up()


def _back_up_always(place: Path, say: Say, listen: Listen, *, once: bool = False) -> None:
    """Back up again and again, each time after something new."""
    del listen
    with closing(SqliteStore.open(_path(place), workspace_id=WORKSPACE_ID)) as store:
        while True:
            store.create_session()
            say("begin")
            Maintenance(_path(place), workspace_id=WORKSPACE_ID).back_up()
            if once:
                return


def _back_up_until_interrupted(place: Path, say: Say, listen: Listen) -> None:
    del listen
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with closing(SqliteStore.open(_path(place), workspace_id=WORKSPACE_ID)) as store:
        store.create_session()
        try:
            say("begin")
            Maintenance(_path(place), workspace_id=WORKSPACE_ID).back_up()
            say("made")
            time.sleep(5)
        except KeyboardInterrupt:
            say("interrupted")
        store.create_session()


def _only_good_ones(place: Path, name: str, say: Say, listen: Listen) -> None:
    """Verify all that is called a backup; whoever is alone next sweeps; and backing up goes on."""
    del say, listen
    path = _path(place)
    tended, found = Maintenance(path, workspace_id=WORKSPACE_ID), backups_of(path)
    assert [Path(one.path) for one in tended.backups() if not one.problem] == found, name
    for one in found:
        backups.require_usable(one, Place.at(path, workspace_id=WORKSPACE_ID))
    with closing(SqliteStore.open(path, workspace_id=WORKSPACE_ID)) as store:
        store.create_session()
    tended.compact()
    assert _names(place) == {*at_rest(path), "owners", *(one.name for one in found)}, name
    backup = Path(tended.back_up().path)
    assert backups_of(path)[-1] == backup, name
    assert len(backups_of(path)) == min(len(found) + 1, backups.KEPT_COUNT), name
