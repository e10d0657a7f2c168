"""Archives read back: lines become records, and whatever does not fit is refused.

Owns the grammar of an archive: the order of its lines, what may stand on each, what refers to
what. Invariants: a session is just as it was written, by its counts and its digest, or
`ImportInvalid` says on which line it is not; nothing is guessed or left out. Every record is one
that the store takes, by the store's own rules. Only a session that says so may lack something.

Fields of a message that nobody here knows are kept with it; on any other line they are refused,
because there is no place to keep them.

Source: `docs/formats.md`, "Archive".
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sessions_api.transfer.archive_lines import MESSAGE_FIELDS, extra_of
from sessions_api.transfer.archive_links import Links
from sessions_api.transfer.archive_shapes import END, EXECUTION, HEADER, MESSAGE, RUN, SESSION
from sessions_api.transfer.archive_writing import FORMAT, VERSION
from sessions_api.transfer.shapes import Check, fields
from sessions_api.transfer.strict_json import Unfit, exact_members, object_in
from state_store import ImportInvalid as StoreImportInvalid
from state_store import Message, Run, Session, ToolExecution, Usage, require_possible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sessions_api.errors import ImportInvalid
    from sessions_api.transfer.source_lines import SourceLines
    from state_store import ImportRecord

NOBODY = "00000000-0000-0000-0000-000000000000"  # who ran a run is a fact of another machine
_USAGE = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens")
_KINDS = ("session", "run", "tool_execution", "message", "end")


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What an archive says about itself."""

    session_count: int
    redacted: bool


def is_header(line: bytes) -> bool:
    """Whether *line*, the first one of a source, begins an archive, be it a damaged one."""
    try:
        found = object_in(line)
    except Unfit:
        return FORMAT.encode() in line[:200]
    return "role" not in found and (found.get("type") == "header" or found.get("format") == FORMAT)


def read_header(lines: SourceLines) -> Header:
    """Read the first line."""
    line = lines.next()
    if line is None:
        raise lines.invalid("the file is empty")
    with lines.strict():
        found = object_in(line)
        if found.get("format") != FORMAT:
            raise Unfit("it is not the header of an archive")
        if type(found.get("version")) is int and found["version"] > VERSION:
            raise Unfit(f"it is of version {found['version']}, and this program reads {VERSION}")
        values = fields(found, HEADER, HEADER, ignored={"type"})
    return Header(session_count=values["session_count"], redacted=values["redacted"])


def require(record: ImportRecord, found: Session | Run | ToolExecution | Message) -> None:
    """Raise Unfit with the field that the store would refuse *found* for, if it would."""
    try:
        require_possible(record, 0, found)
    except StoreImportInvalid as error:
        raise Unfit(f"{error.field} cannot be kept") from None


class SessionReader:
    """One session of an archive: first what stands before its messages, then these, then the end.

    `session`, `runs` and `executions` are there at once; `messages` yields the messages in order
    and, when it is over, has checked the end, so that only then `digest` and `is_complete` are
    to be relied on.
    """

    def __init__(self, lines: SourceLines) -> None:
        self._lines = lines
        self._hash = hashlib.sha256()
        self._links = Links(self._note_loss)
        self._loss: ImportInvalid | None = None
        self.place = lines.place
        self.digest = ""
        self.is_complete = False
        self.session = self._session()
        self.runs: tuple[Run, ...] = tuple(self._runs())
        self.executions: tuple[ToolExecution, ...] = tuple(self._executions())

    def messages(self) -> Iterator[Message]:
        """Yield the messages; ImportInvalid when they, or what must follow, do not fit."""
        while (taken := self._take("message")) is not None:
            with self._lines.strict():
                message = self._message(*taken)
                self._links.message(message)
                require("message", message)
            yield message
        self._end()

    # --- one kind of line each ------------------------------------------------------------------

    def _session(self) -> Session:
        values = self._read("session", SESSION)
        if values is None:
            self._lines.next()
            raise self._lines.invalid("a session must begin here")
        session = Session(
            **values, message_count=0, total_tokens=0, cost=None, usage_complete=True, revision=1
        )
        with self._lines.strict():
            require("session", session)
        return session

    def _runs(self) -> Iterator[Run]:
        while (values := self._read("run", RUN)) is not None:
            usage = Usage(**{name: values.pop(name) for name in _USAGE})
            run = Run(
                **values,
                session_id=self.session.id,
                usage=usage,
                owner=NOBODY,
                journal_head=None,
                journal_lost_count=0,
            )
            with self._lines.strict():
                self._links.run(run)
                require("run", run)
            yield run

    def _executions(self) -> Iterator[ToolExecution]:
        while (values := self._read("tool_execution", EXECUTION)) is not None:
            execution = ToolExecution(**values, session_id=self.session.id)
            with self._lines.strict():
                self._links.execution(execution)
                require("execution", execution)
            yield execution

    def _message(self, found: dict[str, Any], line: bytes) -> Message:
        unknown = found.keys() - MESSAGE_FIELDS
        values = fields(found, MESSAGE, ("seq", "role", "content"), ignored=unknown | {"type"})
        if unknown:
            if values.get("extra") is not None:
                raise Unfit("it has both extra and fields that are not known here")
            exact = exact_members(line)
            values["extra"] = extra_of((name, text) for name, text in exact if name in unknown)
        absent: dict[str, Any] = dict.fromkeys(MESSAGE_FIELDS - {"type"})
        absent |= {"kind": "original", "repaired": False}
        return Message(**{**absent, **values}, id=0, session_id=self.session.id, imported_at=None)

    def _note_loss(self, what: str) -> None:
        """Keep what is missing, with its line, until the end says whether that is known."""
        self._loss = self._lines.invalid(what)

    def _end(self) -> None:
        digest = self._hash.hexdigest()
        line = self._lines.next()
        if line is None:
            raise self._lines.invalid("the archive ends in the middle of a session")
        with self._lines.strict():
            found = object_in(line)
            if found.get("type") != "end":
                raise Unfit("it is out of order; the end of the session must stand here")
            values = fields(found, END, END, ignored={"type"})
            self._links.close()
        counted = {
            "session_id": self.session.id,
            "run_count": self._links.run_count,
            "tool_execution_count": self._links.execution_count,
            "message_count": self._links.message_count,
        }
        for name, count in counted.items():
            if values[name] != count:
                raise self._lines.invalid(f"{name} is not what the lines before say")
        if values["sha256"] != digest:
            raise self._lines.invalid(
                "the lines of this session are not those that were written: the digest differs"
            )
        self.is_complete = values["complete"]
        if self.is_complete and self._loss is not None:
            raise self._loss
        self.digest = digest

    # --- lines ------------------------------------------------------------------------------------

    def _read(self, kind: str, checks: Mapping[str, Check]) -> dict[str, Any] | None:
        """Return the fields of the next line if it is of *kind*; all of them must be there."""
        taken = self._take(kind)
        if taken is None:
            return None
        with self._lines.strict():
            return fields(taken[0], checks, checks, ignored={"type"})

    def _take(self, kind: str) -> tuple[dict[str, Any], bytes] | None:
        """Return the next line, parsed and raw, if it is of *kind*; the digest is of these."""
        line = self._lines.next()
        if line is None:
            return None
        with self._lines.strict():
            found = object_in(line)
            if found.get("type") not in _KINDS:
                raise Unfit(f"type must be one of {', '.join(_KINDS)}")
        if found["type"] != kind:
            self._lines.put_back(line)
            return None
        if not line.endswith(b"\n"):
            raise self._lines.invalid("it was cut off")
        self._hash.update(line)
        return found, line
