"""The physical place of a directory: what stays the same however its path is spelled.

Inode and birth time together are the evidence. An inode alone is reused at once after
rmdir/mkdir; the device number changes over reboots on some filesystems, so it only decides where
birth times are missing or two candidates tie. `os.stat` has no birth time on Linux before
`os.statx`; the C library's statx(2) has. Where neither has it the evidence is weaker.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from workspace_identity.directory import Directory

_AT_EMPTY_PATH = 0x1000
_STATX_BTIME = 0x800
_STATX_SIZE = 256
_BIRTH_OFFSET = 80  # stx_btime: seconds as int64, then nanoseconds as uint32


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a directory physically is; `birth_ns` is None where the system does not tell."""

    device: int
    inode: int
    birth_ns: int | None


def place_of(directory: Directory) -> Place:
    """Return the place of an open directory."""
    status = directory.status()
    return Place(
        device=status.st_dev,
        inode=status.st_ino,
        birth_ns=_birth_ns(directory.descriptor, status),
    )


def same_place(left: Place, right: Place) -> bool:
    """Say whether two places, taken at different times, are one directory."""
    if left.inode != right.inode:
        return False
    if left.birth_ns is not None and right.birth_ns is not None:
        return left.birth_ns == right.birth_ns
    return left.device == right.device


if sys.platform == "linux":

    def _birth_ns(descriptor: int | None, _status: os.stat_result) -> int | None:
        return None if descriptor is None else _statx_birth_ns(descriptor)

else:

    def _birth_ns(_descriptor: int | None, status: os.stat_result) -> int | None:
        # Windows before Python 3.12 has its creation time in `st_ctime`; elsewhere that is a change
        # time and says nothing.
        if sys.platform == "win32" and not hasattr(status, "st_birthtime_ns"):
            return status.st_ctime_ns
        exact: int | None = getattr(status, "st_birthtime_ns", None)
        rough: float | None = getattr(status, "st_birthtime", None)
        if exact is not None or rough is None:
            return exact
        return int(rough * 1_000_000_000)


def _statx_birth_ns(descriptor: int) -> int | None:
    statx = _statx()
    if statx is None:
        return None
    answer = statx(descriptor)
    if answer is None or not int.from_bytes(answer[0:4], sys.byteorder) & _STATX_BTIME:
        return None
    seconds = answer[_BIRTH_OFFSET : _BIRTH_OFFSET + 8]
    nanoseconds = answer[_BIRTH_OFFSET + 8 : _BIRTH_OFFSET + 12]
    whole = int.from_bytes(seconds, sys.byteorder, signed=True)
    return whole * 1_000_000_000 + int.from_bytes(nanoseconds, sys.byteorder)


@functools.cache
def _statx() -> Callable[[int], bytes | None] | None:
    """Return a call of statx(2) by descriptor, None where there is none."""
    try:
        import ctypes  # noqa: PLC0415 - importing it costs more than the rest of an open

        function = ctypes.CDLL(None).statx
    except (ImportError, OSError, AttributeError):
        return None
    function.argtypes = [
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.c_char_p,
    ]
    function.restype = ctypes.c_int

    def call(descriptor: int) -> bytes | None:
        buffer = ctypes.create_string_buffer(_STATX_SIZE)
        failed = function(descriptor, b"", _AT_EMPTY_PATH, _STATX_BTIME, buffer)
        return None if failed else buffer.raw

    return call
