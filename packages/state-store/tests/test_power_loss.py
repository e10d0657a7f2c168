from __future__ import annotations

import hashlib
import itertools
import os
import random
import shutil
import uuid
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar

import apsw
import pytest

from state_store import NewSession, SessionState, SqliteStore, StoreUnavailable
from state_store.sqlite import opening, policy
from state_store.testing import SteppingClock
from state_store.testing.disk import Acknowledgement, Image, PowerRecorder, images_of
from state_store.testing.turns import USAGE, assistant, calling, contents, result, turn, user

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from state_store.testing.disk import Record

# All points of the record x 20 seeds: STATE_STORE_LONG=1. The same sample again:
# STATE_STORE_SEED=… as printed.
LONG = os.environ.get("STATE_STORE_LONG") == "1"
SEED = int(os.environ.get("STATE_STORE_SEED", random.SystemRandom().getrandbits(32)))
SEED_COUNT = 20
SAMPLE_SIZE = 250
P = ParamSpec("P")
T = TypeVar("T")
Verdict = Literal["whole", "lost", "corrupt"]


def digest(connection: apsw.Connection) -> str:
    """Return what tells this content from every other: the schema and all rows of all tables."""
    found = hashlib.sha256()
    schema = connection.execute(
        "SELECT type, name, sql FROM sqlite_schema ORDER BY name"
    ).fetchall()
    found.update(repr(schema).encode())
    for kind, name, _ in schema:
        if kind == "table":
            rows = connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall()  # noqa: S608 - a table's name
            found.update(repr((name, rows)).encode())
    return found.hexdigest()


def again(step: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Do *step*, and once more when the disk let it down: what a user does."""
    try:
        return step(*args, **options)
    except StoreUnavailable:
        return step(*args, **options)


class Work:
    """Uses a store in every way that writes, and tells *disk* each time a method has returned.

    A step that fails is done again with the same ids at the same time, so that it makes no
    difference for the content whether the first attempt is there.
    """

    def __init__(self, disk: PowerRecorder, path: Path, workspace_id: str) -> None:
        self.disk = disk
        self.path = path
        self.workspace_id = workspace_id
        self.numbers = itertools.count(1)

    def open(self, *, writing: bool = True) -> SqliteStore:
        """Open the store at a time that stands still."""
        clock = SteppingClock(step=timedelta(0))
        return again(
            SqliteStore.open,
            self.path,
            workspace_id=self.workspace_id,
            writing=writing,
            clock=clock,
        )

    def round(self, size: int, *, reading_first: bool) -> None:
        """Fill a session by two stores, with *size* words a message, and delete another one."""
        # A reader that is first makes the log; no writer may rely on its name.
        self.first = self.open(writing=not reading_first)
        store, other = self.open(), self.open()
        self.tell()
        kept, gone = self.fresh(), self.fresh()
        self.do(store.create_session, NewSession(title="kept"), session_id=kept)
        self.turn_with_tools(store, kept, size)
        self.turn_with_tools(other, kept, 20)
        self.do(other.create_session, session_id=gone)
        run_id = self.begin(store, gone, "will fail")
        self.do(store.fail_run, run_id, "provider.error", usage=USAGE)
        state = SessionState(
            id=kept,
            settings=NewSession(title="renamed"),
            messages=(*other.load(kept).messages, user("more"), assistant("and more")),
        )
        self.do(other.save, state, timedelta(seconds=1))
        self.do(store.delete, gone)
        self.turn_with_tools(other, kept, 5)
        again(other.close)
        run_id = self.begin(store, kept, "the last one")
        self.do(store.complete_run, run_id, assistant(), usage=USAGE)
        again(store.close)
        again(self.first.close)

    def turn_with_tools(self, store: SqliteStore, session_id: str, size: int) -> None:
        """Ask, call two tools that end in the other order, answer."""
        run_id = self.begin(store, session_id, "question " * size)
        calls = calling("a", "b")
        asked = self.do(store.start_tools, run_id, calls, ["safe", "unsafe"])
        for index in (1, 0):
            self.do(
                store.finish_tool,
                run_id,
                call_seq=asked.seq,
                call_index=index,
                outcome="ok",
                message=result("ab"[index], "seen " * size),
            )
        self.do(store.complete_run, run_id, assistant(), usage=USAGE)

    def begin(self, store: SqliteStore, session_id: str, content: str) -> str:
        """Begin a run and return its id."""
        run_id = self.fresh()
        self.do(store.begin_run, session_id, user(content), run_id=run_id)
        return run_id

    def do(self, step: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Do a step that writes, and tell."""
        made = again(step, *args, **options)
        self.tell()
        return made

    def tell(self) -> None:
        """Tell the disk that all that there is now has been acknowledged."""
        with self.first._database.read() as connection:
            self.disk.acknowledge(digest(connection))

    def fresh(self) -> str:
        """Return an id that the same work gets again."""
        return str(uuid.UUID(int=next(self.numbers)))


def recorded(
    directory: Path, path: Path, workspace_id: str, *, failing_sync: int | None = None
) -> PowerRecorder:
    """Return the record of the work on a new store, or of its part before a sync failed."""
    with PowerRecorder(directory, failing_sync=failing_sync) as disk:
        work = Work(disk, path, workspace_id)
        work.round(300, reading_first=False)
        work.round(600, reading_first=True)
    return disk


def judged(image: Image, facts: list[str], name: str, directory: Path) -> Verdict:
    """Open what a power loss left by the rules of SQLite alone, and compare all of it.

    Right is the content at the last acknowledgement or, if a commit was under way, at the next.
    """
    if name not in image.files:
        return "lost" if image.acknowledged else "whole"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    image.write_to(directory)
    right = facts[max(0, image.acknowledged - 1) : image.acknowledged + 1]
    with closing(apsw.Connection(str(directory / name))) as connection:
        try:
            connection.pragma("synchronous", 0)
            if connection.pragma("integrity_check") != "ok":
                return "corrupt"
            if connection.execute("PRAGMA foreign_key_check").fetchall():
                return "corrupt"
            return "whole" if digest(connection) in right else "lost"
        except apsw.Error:
            return "corrupt"


def verdicts(record: Record, path: Path, tmp_path: Path, *, fraction: float) -> dict[Verdict, int]:
    """Return how many images of *record* are whole, lost and corrupt; a *fraction* is looked at."""
    facts = [entry.fact for entry in record if isinstance(entry, Acknowledgement)]
    found: dict[Verdict, int] = {"whole": 0, "lost": 0, "corrupt": 0}
    name = str(path.relative_to(tmp_path))
    choice = random.Random(SEED)
    for image in images_of(
        record,
        seeds=range(SEED, SEED + SEED_COUNT),
        wanted=lambda _index, _seed: choice.random() < fraction,
    ):
        verdict = judged(image, facts, name, tmp_path / "after")
        found[verdict] += 1
    return found


def test_no_power_loss_takes_what_was_acknowledged(
    tmp_path: Path, path: Path, workspace_id: str
) -> None:
    """Behind every operation: all that was acknowledged, no half transaction, nothing else."""
    record = recorded(tmp_path, path, workspace_id).record
    fraction = 1.0 if LONG else SAMPLE_SIZE / (len(record) * SEED_COUNT)
    found = verdicts(record, path, tmp_path, fraction=fraction)
    print(f"seed {SEED}: {len(record)} operations, {found}")  # noqa: T201 - for `pytest -s`
    assert found == {"whole": sum(found.values()), "lost": 0, "corrupt": 0}, SEED
    assert found["whole"] > SAMPLE_SIZE // 2


@pytest.mark.parametrize("level", [1, 0], ids=["NORMAL", "OFF"])
def test_a_weaker_synchronous_loses_acknowledged_rows(
    tmp_path: Path,
    path: Path,
    workspace_id: str,
    monkeypatch: pytest.MonkeyPatch,
    level: int,
) -> None:
    """The control: what the test above would find without the rule that it tests."""

    def sync_less(connection: apsw.Connection, path: Path) -> None:
        connection.pragma("synchronous", level)

    rules = [sync_less if rule is policy.sync_fully else rule for rule in policy.WRITING]
    monkeypatch.setattr(policy, "WRITING", tuple(rules))
    record = recorded(tmp_path, path, workspace_id).record
    fraction = 1.0 if LONG else 100 / (len(record) * SEED_COUNT)
    found = verdicts(record, path, tmp_path, fraction=fraction)
    print(f"seed {SEED}, synchronous={level}: {found}")  # noqa: T201 - for `pytest -s`
    assert found["lost"] > 10, SEED
    assert level == 0 or not found["corrupt"], "NORMAL keeps the file whole, only older"


def test_a_new_directory_that_is_not_synced_is_lost_with_all_in_it(
    tmp_path: Path, path: Path, workspace_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control for the sync of the directory above a new one."""
    monkeypatch.setattr(opening, "sync_directory", lambda _: None)
    record = recorded(tmp_path, path, workspace_id).record
    found = verdicts(record, path, tmp_path, fraction=100 / (len(record) * SEED_COUNT))
    assert found["lost"] > 10, SEED


def test_a_failed_sync_followed_by_a_power_loss_takes_nothing(
    tmp_path: Path, path: Path, workspace_id: str
) -> None:
    """The pages of the failed sync are lost although later ones succeed; every sync in turn."""
    sync_count = recorded(tmp_path, path, workspace_id).sync_count
    total = 0
    for number in range(0, sync_count, 1 if LONG else 13):
        shutil.rmtree(path.parent)
        record = recorded(tmp_path, path, workspace_id, failing_sync=number).record
        fraction = (1 if LONG else 0.05) * SAMPLE_SIZE / (len(record) * SEED_COUNT)
        found = verdicts(record, path, tmp_path, fraction=fraction)
        assert found["lost"] == found["corrupt"] == 0, (SEED, number, found)
        total += found["whole"]
    print(f"seed {SEED}: {sync_count} syncs, {total} images")  # noqa: T201 - for `pytest -s`


def test_a_store_goes_on_from_what_a_power_loss_left(
    tmp_path: Path, path: Path, workspace_id: str
) -> None:
    """It opens, calls the run under way interrupted, shows the rest, and takes a new turn."""
    record = recorded(tmp_path, path, workspace_id).record
    choice = random.Random(SEED)
    recovered = 0
    for image in images_of(
        record, seeds=[SEED], wanted=lambda _index, _seed: choice.random() < 30 / len(record)
    ):
        directory = tmp_path / f"after{image.index}"
        directory.mkdir()
        image.write_to(directory)
        after = directory / path.relative_to(tmp_path)
        with SqliteStore.open(after, workspace_id=workspace_id) as store:
            recovered += len(store.recovered)
            for summary in store.list(limit=None).items:
                runs = store.runs(summary.id).items
                assert all(run.status in ("completed", "failed") for run in runs), SEED
            session_id = store.create_session().id
            turn(store, session_id)
            assert contents(store, session_id) == ["question", "answer"]
    assert recovered, SEED
