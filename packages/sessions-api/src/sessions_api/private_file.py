"""Writing a file that only its owner may read, whole or not at all.

Invariant: until everything is written and on the disk, a file at *path* is what it was before; the
new one is 0600 from the moment it exists. A device or a pipe is written to and never replaced: as
root, exporting to /dev/null would otherwise leave the system without it.
"""

from __future__ import annotations

import errno
import os
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


EXPORTS_DIR = "exports"
MARKER_DIR = ".tinyagent"


def _refuse_state(path: Path) -> None:
    from workspace_identity import resolve_state_home  # noqa: PLC0415 - not for --help

    home, target = resolve_state_home().resolve(), path.resolve()
    if target.parent.name == MARKER_DIR and target.parent != home:
        raise PermissionError(errno.EPERM, "it is where a workspace has its marker", str(path))
    if target.is_relative_to(home) and target.parent.name != EXPORTS_DIR:
        raise PermissionError(
            errno.EPERM, "it lies in the state home, whose files belong to tinyagent", str(path)
        )


def write_private(path: Path, chunks: Iterable[bytes]) -> int:
    """Write *chunks* to *path*, replacing what is there, and return the number of bytes.

    A symbolic link stays, and what it leads to is replaced. Returns after the file and its name are
    on the disk. Raises OSError, and what *chunks* raises; then nothing has changed. A file of the
    state home is never replaced, nor one beside a marker: the live database would be one.
    """
    _refuse_state(path)
    if path.is_dir() or not path.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        with path.open("wb") as special:
            return sum(special.write(chunk) for chunk in chunks)
    path = path.resolve()
    building = path.with_name(f".{path.name}.{uuid.uuid4().hex}.new")
    byte_count = 0
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(building, flags, 0o600), "wb") as file:
            for chunk in chunks:
                byte_count += file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        building.replace(path)
    except BaseException as error:
        with suppress(OSError):
            building.unlink(missing_ok=True)
        # The system's, and neither that of a file of others nor what *chunks* raise.
        match error:
            case OSError(errno=int(), filename=name) if name in {None, str(building)}:
                raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return byte_count
