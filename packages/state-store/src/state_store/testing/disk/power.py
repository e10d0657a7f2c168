"""Power loss: what a disk may hold when the power goes, at any point of what was done to it.

The model, from POSIX and the SQLite documentation ("Atomic Commit", "Powersafe Overwrite"): what
was synced is there. Of what was written or truncated since, each piece may be there or not, and a
write may be torn between sectors of 512 bytes, in any combination. Names (created, linked,
renamed, removed) are there once their directory was synced; of later ones a beginning is, for
journalling filesystems keep their order. A failed fsync loses some of the pieces for good, although
later syncs succeed: the system has marked its pages clean. The -shm is left out.

Invariant: an image depends on the record, the point and the seed alone.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import apsw

from state_store.testing.disk.watched import Operation, WatchedDisk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

SECTOR_SIZE = 512
# What one image keeps of everything in doubt.
_MOODS = ("nothing", "everything", "beginning", "half", "sectors")


class PowerRecorder(WatchedDisk):
    """Records every change below its directory, and the acknowledgements between them.

    The sync of a file that has the number *failing_sync*, from 0, fails.
    """

    sees_writing = True

    def __init__(self, directory: Path, *, failing_sync: int | None = None) -> None:
        super().__init__(directory)
        self.record: Record = []
        self.sync_count = 0
        self._failing_sync = failing_sync

    def before(self, operation: Operation) -> None:
        """Let the chosen sync fail."""
        if operation.kind == "sync":
            self.sync_count += 1
            if self.sync_count - 1 == self._failing_sync:
                self.record.append(replace(operation, kind="sync_failed"))
                raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)

    def after(self, operation: Operation) -> None:
        """Record a change."""
        if operation.kind not in ("open", "read"):
            self.record.append(operation)

    def acknowledge(self, fact: str) -> None:
        """Record that the caller was told *fact* now, which no later power loss may undo."""
        self.record.append(Acknowledgement(fact=fact))


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """What the caller was told at this point of the record."""

    fact: str


Record = list[Operation | Acknowledgement]


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The files after a power loss behind operation number *index*, drawn with *seed*.

    `acknowledged` counts the acknowledgements before it.
    """

    index: int
    seed: int
    acknowledged: int
    files: dict[str, bytes]

    def write_to(self, directory: Path) -> None:
        """Write the files into *directory*, which exists."""
        for name, content in self.files.items():
            file = directory / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


def images_of(
    record: Record,
    *,
    seeds: Sequence[int],
    wanted: Callable[[int, int], bool] = lambda _index, _seed: True,
) -> Iterator[Image]:
    """Yield an image for each point of *record* and each of *seeds* that is *wanted*."""
    disk, acknowledged = _Disk(), 0
    for index, entry in enumerate(record):
        if isinstance(entry, Acknowledgement):
            acknowledged += 1
        else:
            disk.apply(entry, index)
        for seed in seeds:
            if wanted(index, seed):
                source = random.Random(f"{seed} {index}")  # noqa: S311 - repeatable, not secret
                yield Image(
                    index=index, seed=seed, acknowledged=acknowledged, files=disk.left(source)
                )


@dataclass(slots=True)
class _Content:
    """What a file holds for certain, and what was done to it since, in order."""

    certain: bytearray = field(default_factory=bytearray)
    doubtful: list[Operation] = field(default_factory=list)

    def settle(self) -> None:
        for change in self.doubtful:
            _change(self.certain, change)
        self.doubtful.clear()

    def lose_some(self, source: random.Random) -> None:
        for change in self.doubtful:
            _tear(self.certain, change, source)
        self.doubtful.clear()

    def left(self, source: random.Random) -> bytes:
        result = bytearray(self.certain)
        mood = source.choice(_MOODS)
        beginning = source.randint(0, len(self.doubtful))
        for number, change in enumerate(self.doubtful):
            if (
                mood == "everything"
                or (mood == "beginning" and number < beginning)
                or (mood == "half" and source.random() < 0.5)
            ):
                _change(result, change)
            elif mood == "sectors" or (mood == "beginning" and number == beginning):
                _tear(result, change, source)
        return bytes(result)


# What was done to a name, and what it stands for if it is new; None for a directory.
_NameChange = tuple[Operation, _Content | None]


@dataclass(slots=True)
class _Disk:
    """The names and what they stand for: for certain, as the program sees them, and in doubt."""

    certain: dict[str, _Content | None] = field(default_factory=dict)
    now: dict[str, _Content | None] = field(default_factory=dict)
    doubtful: list[_NameChange] = field(default_factory=list)

    def apply(self, change: Operation, index: int) -> None:
        content = self.now.get(change.path)
        match change.kind:
            case "write" | "truncate" if content:
                content.doubtful.append(change)
            case "sync" if content:
                content.settle()
            case "sync_failed" if content:
                content.lose_some(random.Random(index))  # noqa: S311 - repeatable, not secret
            case "sync_directory":
                self._settle(change.path)
            case _:
                made = None if change.kind == "mkdir" else _Content()
                _rename(self.now, (change, made))
                self.doubtful.append((change, made))

    def _settle(self, directory: str) -> None:
        rest = []
        for change in self.doubtful:
            if str(PurePosixPath(change[0].path).parent) == directory:
                _rename(self.certain, change)
            else:
                rest.append(change)
        self.doubtful = rest

    def left(self, source: random.Random) -> dict[str, bytes]:
        names = dict(self.certain)
        for change in self.doubtful[: source.choice((0, source.randint(0, len(self.doubtful))))]:
            _rename(names, change)
        return {
            name: content.left(source)
            for name, content in names.items()
            if content is not None
            and not name.endswith("-shm")
            and all(str(one) in names for one in PurePosixPath(name).parents if str(one) != ".")
        }


def _rename(names: dict[str, _Content | None], change: _NameChange) -> None:
    """Do to *names* what was done to those of the disk."""
    operation, made = change
    match operation.kind:
        case "create" | "mkdir":
            names.setdefault(operation.path, made)
        case "link" | "rename":
            if operation.path in names:
                names[operation.target] = names[operation.path]
            if operation.kind == "rename":
                names.pop(operation.path, None)
        case _:
            names.pop(operation.path, None)


def _change(content: bytearray, change: Operation) -> None:
    if change.kind == "truncate":
        _resize(content, change.offset)
        return
    end = change.offset + len(change.content)
    if len(content) < end:
        _resize(content, end)
    content[change.offset : end] = change.content


def _tear(content: bytearray, change: Operation, source: random.Random) -> None:
    """Do *change* in some sectors only."""
    if change.kind == "truncate":
        if source.random() < 0.5:
            _change(content, change)
        return
    start, end = change.offset, change.offset + len(change.content)
    while start < end:
        stop = min(end, (start // SECTOR_SIZE + 1) * SECTOR_SIZE)
        if source.random() < 0.5:
            piece = change.content[start - change.offset : stop - change.offset]
            _change(content, Operation(kind="write", path="", offset=start, content=piece))
        start = stop


def _resize(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))
