"""What kind of filesystem carries a path: the question that comes before WAL is tried.

WAL mode shares memory between processes and trusts their locks. Over a network, or between a
virtual machine and its host, both may seem to work and lose commits without a word, so such
filesystems are refused by their type, before anything is made on them. The type comes from
/proc/self/mountinfo (proc_pid_mountinfo(5)); where there is none, SQLite's own answer decides.

Must not: open, or make, anything at the path.
"""

from __future__ import annotations

import re
from pathlib import Path

from state_store.errors import WalUnsupported

MOUNTS = Path("/proc/self/mountinfo")
_SHARED = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "ncpfs", "afs", "coda"),
        *("ceph", "lustre", "gpfs", "beegfs", "glusterfs", "pvfs2", "orangefs", "davfs"),
        *("9p", "virtiofs", "vboxsf", "vmhgfs", "prl_fs", "drvfs"),
        *("fuse", "fuseblk"),
    }
)
_ESCAPED = re.compile(rb"\\([0-7]{3})")


def require_local(path: Path) -> None:
    """Raise WalUnsupported when *path*, which need not exist, lies on a network filesystem."""
    kind = kind_of(path)
    if kind is not None and is_shared(kind):
        raise WalUnsupported(
            path, f"it lies on a {kind} filesystem, where WAL mode may lose commits", hint=WAY_OUT
        )


def refused_by_sqlite(path: Path, answer: str) -> WalUnsupported:
    """Return what it means that SQLite cannot use WAL at *path* and says so with *answer*."""
    kind = kind_of(path) or "unknown"
    return WalUnsupported(
        path, f"{answer} on this {kind} filesystem, so WAL mode is not in force", hint=WAY_OUT
    )


WAY_OUT = (
    "Stop every program that uses it, move the state home to a directory on a local disk and set"
    " TINYAGENT_STATE_HOME to that."
)


def is_shared(kind: str) -> bool:
    """Say whether filesystems of this type are shared with other machines."""
    return kind in _SHARED or kind.startswith("fuse.")


def kind_of(path: Path) -> str | None:
    """Return the type of the filesystem that carries *path*; None where it is not known."""
    try:
        mounts = MOUNTS.read_bytes()
    except OSError:
        return None
    return kind_in(mounts, path.resolve())


def kind_in(mounts: bytes, path: Path) -> str | None:
    """Return the type that the mount table *mounts* gives for the absolute *path*.

    The deepest mount point counts, and of several mounts on one the last.
    """
    kind, depth = None, 0
    for line in mounts.splitlines():
        place, found, rest = line.partition(b" - ")
        fields = place.split(b" ")
        if not found or len(fields) <= _MOUNT_POINT:
            continue
        mount_point = Path(_unescape(fields[_MOUNT_POINT]))
        if path.is_relative_to(mount_point) and len(mount_point.parts) >= depth:
            kind, depth = rest.split(b" ")[0].decode("ascii", "replace"), len(mount_point.parts)
    return kind


_MOUNT_POINT = 4


def _unescape(name: bytes) -> str:
    """Return a mount point as the path it stands for: blanks and such are octal escapes."""
    raw = _ESCAPED.sub(lambda found: bytes([int(found[1], 8) & 0xFF]), name)
    return raw.decode("utf-8", "surrogateescape")
