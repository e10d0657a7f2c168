"""The registry: one record a workspace, `<state home>/workspaces/<id>/workspace.json`.

It is the authority on which directory is which workspace. Records are exchanged whole, and written
only while the registry's lock is held; reading needs no lock. A directory of the registry without a
usable record still holds a history, so it is reported, never skipped and never removed.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workspace_identity.directory import Directory
from workspace_identity.record import NewerRecordError, Record, RecordError
from workspace_identity.state_home import RECORD_NAME, WORKSPACES_DIR, make_private_dir
from workspace_identity.workspace_id import is_workspace_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAX_RECORD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """A workspace's directory whose record is missing or damaged."""

    workspace_id: str
    problem: str


class Registry:
    """The records of one state home. Holds nothing open; any thread may use it."""

    __slots__ = ("_workspaces_dir",)

    def __init__(self, state_home: Path) -> None:
        self._workspaces_dir = state_home / WORKSPACES_DIR

    def find(self, workspace_id: str) -> Record | Unusable | None:
        """Return the record of *workspace_id*, what is wrong with it, or None without any trace.

        Raises OSError where the system refuses to read, and NewerRecordError.
        """
        content = self._read(workspace_id)
        return _parsed(content, workspace_id) if isinstance(content, bytes) else content

    def scan(self) -> Iterator[Record | Unusable]:
        """Yield every workspace of the registry, in no order."""
        for workspace_id in self._ids():
            try:
                found = self.find(workspace_id)
            except (OSError, NewerRecordError) as error:
                yield Unusable(workspace_id=workspace_id, problem=_reason(error))
            else:
                if found is not None:
                    yield found

    def find_inode(self, inode: int) -> list[Record]:
        """Return every whole record whose place has *inode*; what cannot be read is passed over.

        A record without these digits is not worth parsing, which makes the scan twice as fast.
        """
        digits, found = str(inode).encode("ascii"), []
        for workspace_id in self._ids():
            with contextlib.suppress(OSError, NewerRecordError):
                content = self._read(workspace_id)
                if isinstance(content, bytes) and digits in content:
                    record = _parsed(content, workspace_id)
                    if isinstance(record, Record) and record.place.inode == inode:
                        found.append(record)
        return found

    def has(self, workspace_id: str) -> bool:
        """Say whether the registry has a directory for *workspace_id*."""
        return (self._workspaces_dir / workspace_id).is_dir()

    def write(self, record: Record) -> None:
        """Put *record* in the place of the former one; survives power loss when it returns."""
        path = self._workspaces_dir / record.workspace_id
        is_new = not path.is_dir()
        make_private_dir(path)
        content = json.dumps(record.to_json(), indent=1).encode("ascii") + b"\n"
        with Directory.open(path) as directory:
            directory.publish(RECORD_NAME, content, replace=True)
        if is_new:
            with Directory.open(self._workspaces_dir) as parent:
                parent.sync()

    def remove(self, workspace_id: str) -> None:
        """Remove the record of *workspace_id* and nothing else of it."""
        with Directory.open(self._workspaces_dir / workspace_id) as directory:
            try:
                directory.remove(RECORD_NAME)
            except FileNotFoundError:
                return
            directory.sync()

    def _ids(self) -> list[str]:
        try:
            with os.scandir(self._workspaces_dir) as entries:
                return [entry.name for entry in entries if is_workspace_id(entry.name)]
        except FileNotFoundError:
            return []

    def _read(self, workspace_id: str) -> bytes | Unusable | None:
        try:
            directory = Directory.open(f"{self._workspaces_dir}{os.sep}{workspace_id}")
        except FileNotFoundError:
            return None
        with directory:
            try:
                content, status = directory.read(RECORD_NAME, max_bytes=_MAX_RECORD_BYTES)
            except FileNotFoundError:
                return Unusable(workspace_id=workspace_id, problem="it has no record")
        if not stat.S_ISREG(status.st_mode):
            return Unusable(workspace_id=workspace_id, problem="its record is no regular file")
        return content


def _parsed(content: bytes, workspace_id: str) -> Record | Unusable:
    try:
        return Record.from_json(json.loads(content), workspace_id=workspace_id)
    except NewerRecordError:
        raise
    except (RecordError, ValueError, RecursionError) as error:
        problem = str(error) if isinstance(error, RecordError) else "it is not JSON"
        return Unusable(workspace_id=workspace_id, problem=problem)


def _reason(error: OSError | NewerRecordError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
