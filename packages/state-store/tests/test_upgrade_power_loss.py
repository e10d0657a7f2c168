"""The power goes in an upgrade and in a restore; see `state_store.testing.disk.power`."""

from __future__ import annotations

import os
import random
import shutil
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING
from unittest import mock

import apsw
import pytest

from state_store import Maintenance, StoreDamaged, UpgradeFailed
from state_store.sqlite import swapping
from state_store.sqlite.opening import bring_up_to_date
from state_store.sqlite.place import Place
from state_store.sqlite.schema import SCHEMA, Migration, Schema
from state_store.testing import Scale
from state_store.testing.disk import Acknowledgement, Image, PowerRecorder, images_of
from state_store.testing.disk.watched import WatchedDisk
from state_store.testing.family import digest, family, old_database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SCALE = Scale.from_environment()
SEED_COUNT = 8
SAMPLE_SIZE = 25
DONE = 2  # acknowledgements: that there is an old database, and that the work is done


class Wrong(AssertionError):
    """What a power loss left is neither the old nor the new."""


def _fail(connection: apsw.Connection) -> None:
    raise ValueError(connection.total_changes())


PASSING = Schema((*family().migrations, Migration(name="bad", apply=lambda _: None)))
FAILING = Schema((*family().migrations, Migration(name="bad", apply=lambda _: None, check=_fail)))


class Journey:
    """What is done on a disk that is going to lose its power, and what may be there then.

    `before` is legal until the work is done, `after` always, `started` after a start.
    """

    def __init__(self, tmp_path: Path, workspace_id: str, schema: Schema) -> None:
        self.tmp_path = tmp_path
        self.workspace_id = workspace_id
        self.schema = schema
        self.disk = tmp_path / "disk"
        self.disk.mkdir(mode=0o700)
        self.path = self.disk / "state.sqlite3"
        self.before: set[str] = set()
        self.after = ""
        self.started: set[str] = set()

    def start(self, path: Path, schema: Schema | None = None) -> None:
        """Bring the database to the schema; it may fail, as a migration does that is made to."""
        place = Place.at(path, workspace_id=self.workspace_id, schema=schema or self.schema)
        with suppress(UpgradeFailed):
            bring_up_to_date(place)

    def maintenance(self, path: Path) -> Maintenance:
        """Return what a person has in hand."""
        return Maintenance(path, workspace_id=self.workspace_id)

    def elsewhere(self, change: Callable[[Path], object]) -> str:
        """Return what is there after *change*, which is done to a copy of the disk."""
        copy = self.tmp_path / "copy"
        shutil.copytree(self.disk, copy)
        change(copy / self.path.name)
        found = digest_of(copy / self.path.name)
        shutil.rmtree(copy)
        return found

    def upgrade(self) -> PowerRecorder:
        """Upgrade an old database."""
        with PowerRecorder(self.disk) as recorder:
            old_database(self.path, workspace_id=self.workspace_id)
            self.before = {
                self.elsewhere(str),
                self.elsewhere(lambda path: self.start(path, PASSING))
                if self.schema is FAILING
                else "",
            }
            recorder.acknowledge("old")
            self.start(self.path)
            self.after = self.elsewhere(str)
            self.started = {self.after}
            recorder.acknowledge("new")
        return recorder

    def restore(self) -> PowerRecorder:
        """Restore a backup over a database whose newest commit is in its log."""
        with PowerRecorder(self.disk) as recorder:
            old_database(self.path, workspace_id=self.workspace_id, schema=SCHEMA)
            self.maintenance(self.path).back_up()
            with closing(apsw.Connection(str(self.path))) as connection:
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                connection.execute("UPDATE sessions SET title = 'in the log'")
            self.before = {self.elsewhere(str)}
            recorder.acknowledge("old")
            self.maintenance(self.path).restore()
            self.after = self.elsewhere(str)
            self.started = {*self.before, self.after}
            recorder.acknowledge("new")
        return recorder

    def judge_all(self, recorder: PowerRecorder, *, last: int | None = None) -> int:
        """Judge what a power loss leaves at any point, or all that it leaves at the *last* ones.

        Return how many images were looked at.
        """
        told = [isinstance(entry, Acknowledgement) for entry in recorder.record]
        work_size = len(told) - told.index(True)
        seeds = range(SCALE.seed, SCALE.seed + SEED_COUNT)
        points = [
            (index, seed)
            for index in range(len(told) - (last or work_size), len(told))
            for seed in seeds
        ]
        if not (SCALE.long or last):
            points = random.Random(SCALE.seed).sample(points, SAMPLE_SIZE)
        chosen, looked_at = set(points), 0
        for image in images_of(
            recorder.record, seeds=seeds, wanted=lambda index, seed: (index, seed) in chosen
        ):
            self.judge(image)
            looked_at += 1
        print(f"seed {SCALE.seed}: {work_size} operations, {looked_at} images")  # noqa: T201 - for `pytest -rP`
        return looked_at

    def judge(self, image: Image) -> None:
        """Look at one of them, start, and look again."""
        story = f"seed {image.seed}, operation {image.index}"
        directory = self.tmp_path / "after"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(mode=0o700)
        image.write_to(directory)
        path = directory / self.path.name
        done = image.acknowledged == DONE
        if not path.with_name(f"{path.name}.restore").exists():
            copy = self.tmp_path / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(directory, copy)
            if digest_of(copy / path.name) not in {self.after, *(() if done else self.before)}:
                raise Wrong(story)
        for backup in self.maintenance(path).backups():
            if backup.problem is not None:
                raise Wrong(f"{story}: {backup}")
        with unsynced(directory):
            self.start(path)
        if digest_of(path) not in ({self.after} if done else self.started):
            raise Wrong(f"{story}, after a start")


@contextmanager
def unsynced(directory: Path) -> Iterator[None]:
    """Wait for no disk: here the power stays on."""
    with WatchedDisk(directory), mock.patch.object(os, "fsync", return_value=None):
        yield


def digest_of(path: Path) -> str:
    """Return what is in a database, which has to be whole."""
    try:
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            connection.pragma("synchronous", 0)
            if connection.pragma("integrity_check") != "ok":
                raise Wrong(path)
            return digest(connection)
    except apsw.Error as error:
        raise Wrong(path) from error


@pytest.mark.timeout(1800 if SCALE.long else 120)
@pytest.mark.parametrize("schema", [SCHEMA, family(), FAILING], ids=["real", "family", "put back"])
def test_a_power_loss_in_an_upgrade_leaves_the_old_or_the_new(
    tmp_path: Path, workspace_id: str, schema: Schema
) -> None:
    """Behind every operation, whatever of the unsynced there is; and a start goes on from it."""
    journey = Journey(tmp_path, workspace_id, schema)
    assert journey.judge_all(journey.upgrade()) > SAMPLE_SIZE // 2


@pytest.mark.timeout(1800 if SCALE.long else 120)
def test_a_power_loss_in_a_restore_leaves_the_old_or_the_new(
    tmp_path: Path, workspace_id: str
) -> None:
    """And a start finishes a restore that was begun."""
    journey = Journey(tmp_path, workspace_id, SCHEMA)
    assert journey.judge_all(journey.restore()) > SAMPLE_SIZE // 2


def test_a_log_goes_aside_before_its_database(tmp_path: Path, workspace_id: str) -> None:
    """SQLite would play a log that outlives its database into the next one of that name."""
    journey = Journey(tmp_path, workspace_id, SCHEMA)
    moved = [
        operation.path
        for operation in journey.restore().record
        if not isinstance(operation, Acknowledgement) and ".replaced-" in operation.target
    ]
    assert [name.removeprefix(journey.path.name) for name in moved] == ["-wal", "-shm", ""]


def test_a_restore_that_syncs_nothing_loses_a_database(
    tmp_path: Path, workspace_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: what the tests above would find without the syncs that they test."""
    monkeypatch.setattr(swapping, "sync_file", lambda _: None)
    monkeypatch.setattr(swapping, "sync_directory", lambda _: None)
    journey = Journey(tmp_path, workspace_id, SCHEMA)
    recorder = journey.restore()
    with pytest.raises((Wrong, StoreDamaged)):
        journey.judge_all(recorder, last=20)
