"""What a process does to the disk, counted, so that it can die at each of these moments.

Where a process can die is not listed by hand: while a child goes through a program, everything that
it does to the disk is an *effect*: each statement that may write, each end of a commit, each
checkpoint and close, each file that is made, linked, named, locked, synced or removed.

Invariant: the same program over the same files has the same effects, so that counting up lets it
die once at every one. For children that end soon: what is watched stays watched.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from state_store.testing.children import Listen, Say

if TYPE_CHECKING:
    from state_store.testing.children import Children

DIED = 77
WRITING_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_UNWATCHED = apsw.Connection
FILE_EVENTS = ("os.mkdir", "os.link", "os.rename", "os.remove", "os.rmdir", "fcntl.flock")


class Effects:
    """Counts what this process does to the disk, and ends it at one of these moments."""

    def __init__(self, die_at: int | None) -> None:
        self.names: list[str] = []
        self._die_at = die_at
        self._seeing = True

    def about_to(self, name: str) -> None:
        """Note the effect that comes next, or die before it."""
        if not self._seeing:
            return
        if len(self.names) == self._die_at:
            os._exit(DIED)
        self.names.append(name)

    def watch(self) -> None:
        """See everything from now on. For a process that ends soon: a hook stays."""
        sys.addaudithook(self._audited)
        os.write = self._watched("write", os.write)
        # The death of a process takes nothing that it wrote: no need to wait for the disk.
        os.fsync = self._watched("fsync", lambda _: None)
        apsw.Connection = partial(_watched_connection, self)  # type: ignore[assignment,misc]  # the only place where they are made

    def unseen(self, say: Say) -> Say:
        """Return *say* such that it is no effect: it is the test's and not the store's."""

        def say_unseen(*fact: Any) -> None:
            self._seeing = False
            say(*fact)
            self._seeing = True

        return say_unseen

    def _audited(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            if isinstance(arguments[2], int) and arguments[2] & WRITING_FLAGS:
                self.about_to("open for writing")
        elif event in FILE_EVENTS:
            self.about_to(event)

    def _watched(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.about_to(f"os.{name}")
            return function(*arguments)

        return call


class WatchedConnection(apsw.Connection):
    """A connection that says what it is about to do."""

    effects: Effects

    def wal_checkpoint(self, *arguments: Any, **options: Any) -> tuple[int, int]:
        """Move the log into the database."""
        self.effects.about_to("checkpoint")
        return super().wal_checkpoint(*arguments, **options)

    def backup(self, *arguments: Any) -> apsw.Backup:
        """Begin to write a copy of another database into this one."""
        self.effects.about_to("backup")
        return super().backup(*arguments)

    def close(self, force: bool = False) -> None:  # noqa: FBT001, FBT002 - as it is in apsw
        """Close, which moves the log and removes it."""
        self.effects.about_to("close")
        super().close(force)


def _watched_connection(effects: Effects, *arguments: Any, **options: Any) -> apsw.Connection:
    if arguments[0] == ":memory:":
        return _UNWATCHED(*arguments, **options)  # what it does is no effect on the disk
    connection = WatchedConnection(*arguments, **options)
    connection.effects = effects

    def traced(cursor: apsw.Cursor, statement: str, bindings: Any) -> bool:
        del bindings
        if not cursor.is_readonly or statement.startswith(("COMMIT", "ROLLBACK")):
            effects.about_to(f"statement {' '.join(statement.split()[:3])}")
        return True

    def committed(connection: apsw.Connection, name: str, page_count: int) -> int:
        del connection, name, page_count
        effects.about_to("committed, not acknowledged")
        return apsw.SQLITE_OK

    connection.exec_trace = traced
    connection.set_wal_hook(committed)
    return connection


Program = Callable[[Path, Effects, Say], None]


def effects_of(children: Children, place: Path, program: Program) -> list[str]:
    """Let *program* go to its end over the files in *place* and return its effects."""

    def work(say: Say, listen: Listen) -> None:
        del listen
        effects = Effects(None)
        effects.watch()
        program(place, effects, effects.unseen(say))
        effects.unseen(say)("effects", effects.names)

    names: list[str] = children.ask(work)[-1][1]
    return names


def die_at(children: Children, place: Path, program: Program, number: int) -> list[list[Any]]:
    """Let *program* die at effect *number*, from 0; return what it had said."""

    def work(say: Say, listen: Listen) -> None:
        del listen
        effects = Effects(number)
        effects.watch()
        program(place, effects, effects.unseen(say))

    child = children.fork(work)
    status = children.wait(child)
    assert os.waitstatus_to_exitcode(status) == DIED, f"no death at effect {number}: {status}"
    return child.facts
