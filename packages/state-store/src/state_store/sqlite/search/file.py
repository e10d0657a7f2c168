"""The file of the search index: making it, opening it, and throwing it away.

Whoever has the index open holds a lock file beside it, shared, for as long as that is, which is one
call. Whoever replaces it holds the lock alone, and nobody is waited for: who comes in between
searches without an index. So no file is unlinked while a process of ours has it open.

Invariant: nothing about the index ever fails its user. One that is damaged, foreign, of another
format or generation is thrown away and begun anew by a writer; where that cannot be, and wherever
it cannot be read or written at this moment, there is none. Errors of the database pass.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import apsw

from state_store.errors import StateStoreError
from state_store.sqlite.beside import SIDECARS, presence_of
from state_store.sqlite.held import Held
from state_store.sqlite.search.index import Index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from state_store.sqlite.search.truth import Source

T = TypeVar("T")
# What says that the file is no index of ours, and no condition of the moment. All SQL is constant:
# if SQLite does not understand it, the tables are not those that were made.
_DAMAGE = (
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.SQLError,
    apsw.ConstraintError,
    UnicodeDecodeError,
)
_POLL_S = 0.004


class _Unusable(Exception):
    """There is no index, or none that can be used: as it looks, or as it turned out *in_use*."""

    def __init__(self, *, in_use: bool = False) -> None:
        super().__init__()
        self.in_use = in_use


class IndexFile:
    """The index at *path*. Keeps nothing open between calls. Only *writing* makes or changes it."""

    def __init__(self, path: Path, *, writing: bool) -> None:
        self.path = path
        self._writing = writing

    @property
    def is_there(self) -> bool:
        """Whether something has the index's name."""
        return os.path.lexists(self.path)

    @property
    def size_bytes(self) -> int:
        """How many bytes it has on the disk, with its log."""
        size = 0
        for one in self._files():
            with suppress(OSError):
                size += one.stat().st_size
        return size

    def use(self, source: Source, work: Callable[[Index], T], *, create: bool = False) -> T | None:
        """Return what *work* makes of the index of *source*; None when there is none to be had.

        An unusable one is thrown away, and with *create* a new one begun. If *work* itself meets
        damage it may be called a second time, for the new one.
        """
        try:
            return self._use(source, work)
        except _Unusable as error:
            met = error
        if not self._writing:
            return None
        # Another process may have made a new one meanwhile.
        spared = None if met.in_use else source
        if not self.discard(unless_of=spared, make=source if create else None) or not create:
            return None
        with suppress(_Unusable):
            return self._use(source, work)
        return None

    def discard(
        self, *, unless_of: Source | None = None, make: Source | None = None, wait_ms: int = 0
    ) -> bool:
        """Throw the index away, unless it can be used for *unless_of*, and begin one of *make*.

        False when another process has it open still after *wait_ms*, or the system refuses.
        """
        try:
            with self._locked(fcntl.LOCK_EX, wait_ms=wait_ms):
                if unless_of is not None and self._is_usable(unless_of):
                    return True
                for one in self._files():
                    one.unlink(missing_ok=True)
                if make is not None:
                    self._make(make)
        except StateStoreError:
            raise
        except (apsw.Error, OSError):
            return False
        return True

    def _use(self, source: Source, work: Callable[[Index], T]) -> T | None:
        opened = False
        try:
            with self._locked(fcntl.LOCK_SH), self._opened(source) as index:
                opened = True
                return work(index)
        except _DAMAGE as error:
            raise _Unusable(in_use=opened) from error
        except StateStoreError:
            raise
        except (apsw.Error, OSError):
            return None

    def _is_usable(self, source: Source) -> bool:
        try:
            with self._opened(source):
                return True
        except (_Unusable, *_DAMAGE):
            return False

    @contextmanager
    def _opened(self, source: Source) -> Iterator[Index]:
        """Open the index of *source*. For one who holds the lock; raises `_Unusable` for others."""
        if not self.is_there:
            raise _Unusable
        for one in self._files():
            # SQLite would wait for whoever writes into a FIFO, and write where a link leads.
            with suppress(FileNotFoundError):
                if not stat.S_ISREG(one.lstat().st_mode):
                    raise _Unusable
        with closing(self._connect()) as connection:
            index = Index(connection, self.path, writing=self._writing)
            if not index.is_of(source):
                raise _Unusable
            yield index

    def _make(self, source: Source) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        os.close(os.open(self.path, flags, 0o600))
        with closing(self._connect()) as connection:
            Index(connection, self.path, writing=True).create(source)

    def _connect(self) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READWRITE if self._writing else apsw.SQLITE_OPEN_READONLY
        return apsw.Connection(str(self.path), flags=flags)

    @contextmanager
    def _locked(self, mode: int, *, wait_ms: int = 0) -> Iterator[None]:
        """Hold the lock beside the index; OSError when it cannot be had."""
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        if self._writing:
            flags |= os.O_CREAT
        held = Held(os.open(presence_of(self.path), flags, 0o600))
        try:
            deadline = time.monotonic() + wait_ms / 1000
            while True:
                try:
                    held.lock(mode | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(_POLL_S)
            yield
        finally:
            held.release()

    def _files(self) -> tuple[Path, ...]:
        """Return the index and its sidecars; the log first, which must not outlive it."""
        return (*(Path(f"{self.path}{end}") for end in SIDECARS), self.path)
