"""Writing: the journal of one workspace, a file for each session and one for the rest.

Owns the way of an event to its line: encode, search for secrets, hand to the private logger,
count what failed. Invariant: writing never fails a run. What the disk, another process or a
hostile file name does is counted in `failed_count`; only a wrong event is an error, and that is
a bug in the caller. The journal is evidence, the database is the truth, so lines are not synced:
they survive a killed process, and a power loss may take the last ones.

Must not: decide what happened, or be asked for anything but evidence.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Self

from run_journal.delivery import DELIVERY_KEY, Delivery
from run_journal.errors import EventInvalid, JournalUnavailable, RunJournalError
from run_journal.events import EVENT_CLASSES, JournalRepaired, RedactionTripped, SessionDeleted
from run_journal.file_names import file_name_of
from run_journal.lines import Head, body_of
from run_journal.names import ID_RULE, id_of, identifier_of, is_id
from run_journal.reader import Damage, Entry, follow, read
from run_journal.redact import Guard
from run_journal.uninterrupted import Uninterrupted
from run_journal.verify import ExpectedRun, Report, verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from run_journal.event_base import Event
    from run_journal.names import Id

LOCK_TIMEOUT_S = 5.0


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Journal:
    """The journal of one workspace in *directory*, which is made (0700) when it is missing.

    `workspace_id` is a text that `id_of` takes; any other raises `EventInvalid`.

    `secrets` is called for every line and returns the keys that are live now; a line in which
    one shows is replaced by `redaction.tripped`. `clock` returns aware datetimes.

    `failed_count` counts lines that could not be written, `tripped_count` events stopped for a
    secret, `repaired_count` torn tails set aside; all since this object was made.

    Threads may share a journal. So may processes share a directory, each with its own object; a
    forked child may go on with its parent's, it opens its own descriptors. Nothing is pending
    between calls, so cancellation and `close` lose nothing. At most *max_open_files* stay open, by
    default a quarter of what the process may open and at most 1,024; fewer when that runs out of
    descriptors. Raises `JournalUnavailable` on a system without `flock`, such as Windows.
    """

    def __init__(
        self,
        directory: Path,
        *,
        workspace_id: str,
        secrets: Callable[[], Iterable[str]] = tuple,
        clock: Callable[[], datetime] = _utc_now,
        max_open_files: int | None = None,
        lock_timeout_s: float = LOCK_TIMEOUT_S,
    ) -> None:
        if find_spec("fcntl") is None:
            raise JournalUnavailable(
                Path(directory),
                reason="this system cannot lock files as the journal needs it (flock)",
                hint="Write journals on Linux, on macOS or in WSL; reading them works here too.",
            )
        # loguru costs 90 ms to import, and whoever only reads journals does without it.
        from run_journal.private_core import make_logger  # noqa: PLC0415 - see the line above
        from run_journal.sink import Sink  # noqa: PLC0415 - it needs a system that can lock

        if not is_id(workspace_id):
            raise EventInvalid(event="Journal", field="workspace_id", rule=ID_RULE)
        if max_open_files is not None and max_open_files < 1:
            raise ValueError("max_open_files must be at least 1: a line needs an open file.")
        self.directory = Path(directory)
        self.workspace_id = id_of(workspace_id)
        self._clock = clock
        self._guard = Guard(secrets)
        self._sink = Sink(
            self.directory,
            max_open=max_open_files,
            lock_timeout_s=lock_timeout_s,
            repair_body=self._repair_body,
        )
        self._logger = make_logger(self._sink.write)
        self.failed_count = 0
        self.tripped_count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def repaired_count(self) -> int:
        """How many torn tails this object set aside."""
        return self._sink.repaired_count

    def write(self, event: Event, *, duration_ms: int | None = None) -> Head | None:
        """Append *event* to its file and return where that file now stands.

        Returns None, and counts, when the line could not be written: disk full, permission, no
        regular file in its place, a lock held too long, a session deleted meanwhile, a closed
        journal. Returns after the line was handed to the system; survives a process kill. Ctrl-C
        and termination wait until then.

        Raises `EventInvalid` only, for a *duration_ms* that is no count.
        """
        if type(event) not in EVENT_CLASSES:
            raise EventInvalid(event="Journal", field="event", rule="one of this package's events")
        with Uninterrupted():
            return self._write(event, duration_ms)

    def _write(self, event: Event, duration_ms: int | None) -> Head | None:
        body = body_of(
            event, moment=self._clock(), workspace_id=self.workspace_id, duration_ms=duration_ms
        )
        try:
            body_to_write = self._guarded(event, body)
        except Exception:  # noqa: BLE001 - the caller's secrets() may raise anything; fail closed
            body_to_write = None
        if body_to_write is None:
            self._count_failure()
            return None
        session_id = _file_session(event)
        delivery = Delivery(file_name=file_name_of(session_id), session_id=session_id)
        try:
            self._logger.bind(**{DELIVERY_KEY: delivery}).info(body_to_write)
        except (OSError, RunJournalError, RuntimeError):
            # RuntimeError: loguru refuses a write from a signal handler inside a write.
            delivery.head = None
        if delivery.head is None:
            self._count_failure()
        return delivery.head

    def path_for(self, session_id: str | None) -> Path:
        """Return the path of a session's file, or with None that of the workspace's own."""
        return self.directory / file_name_of(session_id)

    def read(self, session_id: str | None) -> Iterator[Entry | Damage]:
        """Yield a session's lines; see `run_journal.read`."""
        return read(self.path_for(session_id))

    def follow(
        self,
        session_id: str | None,
        *,
        stop: Callable[[], bool] = lambda: False,
        poll_s: float = 0.2,
    ) -> Iterator[Entry | Damage]:
        """Yield a session's lines as they come; see `run_journal.follow`."""
        return follow(self.path_for(session_id), stop=stop, poll_s=poll_s)

    def verify(
        self,
        session_id: str | None,
        *,
        head: Head | None = None,
        expected_runs: Iterable[ExpectedRun] | None = None,
    ) -> Report:
        """Check a session's file; see `run_journal.verify`."""
        return verify(self.path_for(session_id), head=head, expected_runs=expected_runs)

    def delete(self, session_id: str) -> bool:
        """Remove a session's file and its set-aside tails; return whether there was a file.

        Write `SessionDeleted` as well: it goes to the workspace's file and stays. A process that
        has the file open loses what it still writes there. Raises `JournalBusy` (another process
        holds the file) or `OSError`.
        """
        return self._sink.delete(file_name_of(session_id))

    def close(self) -> None:
        """Close all files; may be called twice. What is written afterwards counts as failed."""
        with suppress(RuntimeError):  # Ctrl-C inside a write can leave loguru's lock taken
            self._logger.remove()
        self._sink.close()

    def _guarded(self, event: Event, body: str) -> str | None:
        reason = self._guard.reason_against(body)
        if reason is None:
            return body
        with self._sink.counting():
            self.tripped_count += 1
        session_id = _file_session(event)
        for named in (True, False):
            tripped = RedactionTripped(
                phase=event.phase,
                session_id=session_id if named else None,
                run_id=getattr(event, "run_id", None) if named else None,
                tripped_event=event.name,
                reason=reason,
            )
            body = body_of(tripped, moment=self._clock(), workspace_id=self.workspace_id)
            if self._guard.reason_against(body) is None:
                return body
        return None

    def _repair_body(self, session_id: Id | None, torn_bytes: int, name: str) -> str:
        event = JournalRepaired(
            session_id=session_id, torn_bytes=torn_bytes, set_aside=identifier_of(name)
        )
        return body_of(event, moment=self._clock(), workspace_id=self.workspace_id)

    def _count_failure(self) -> None:
        with self._sink.counting():
            self.failed_count += 1


def _file_session(event: Event) -> Id | None:
    return None if isinstance(event, SessionDeleted) else getattr(event, "session_id", None)
