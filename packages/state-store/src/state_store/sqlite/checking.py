"""Look a whole database over and say what is wrong, all of it, changing nothing.

Works on every schema version and with others at work: one read transaction, no lock that a writer
would wait for, nothing made on disk but SQLite's own -wal and -shm. Invariant: one thing that is
wrong never hides another; what cannot be read is a finding, and the search goes on with the next
thing. Only a file that is missing, foreign, newer or out of reach is refused, as when it is opened.

Costs a few passes over all rows; nothing is looked up again for each of them.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import apsw

from state_store.errors import StoreDamaged, StoreLost
from state_store.findings import Finding, Report
from state_store.sqlite import beside, consistency, frozen, policy
from state_store.sqlite.connecting import connect, require_file
from state_store.sqlite.faults import explain, translated
from state_store.sqlite.salvaged import is_marked
from state_store.sqlite.telling import telling
from state_store.sqlite.values import Table, is_json, tables_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from state_store.findings import FindingKind, Severity
    from state_store.sqlite.place import Place
    from state_store.sqlite.schema import Schema

LOG_SIZE_LIMIT_BYTES = 64 * 1024 * 1024
_INTEGRITY_FINDINGS_MAX = 1_000
# In these, a salvaged session may miss what it was not possible to save.
_TAKEN_BY_DAMAGE = frozenset({"gap", "run", "tool", "status", "covers", "undone", "branch"})
_HINTS: dict[FindingKind, str] = {
    "damaged": "Keep the file. Restore the newest backup, or salvage what it holds.",
    "foreign_key": "Keep the file. Restore the newest backup, or salvage what it holds.",
    "log_size": "End readers that stay for long; the next idle writer cuts the log.",
    "leftover": "Whoever is next alone in the store removes it.",
}


def check(place: Place) -> Report:
    """Return all that is wrong with the database at *place*, the file itself first.

    StoreMissing, StoreLost, StoreForeign, StoreNewer and StoreUnavailable as when it is opened; a
    damaged database is no error but a report.
    """
    search = _Search(place.path)
    search.look_beside()
    try:
        with _opened(place) as (connection, version):
            with telling(connection, place.progress, "checking the database"):
                search.look_at_pages(connection)
                search.look_at_schema(connection, place.schema, version)
            with telling(connection, place.progress, "checking every row"):
                search.look_at_values(connection)
                for contradictions in consistency.SEARCHES:
                    search.look_at_sessions(contradictions(connection))
    except StoreLost:
        raise
    except StoreDamaged as error:
        search.add("damaged", str(place.path), error.reason)
    found = tuple(search.findings)
    return Report(ok=all(one.severity != "error" for one in found), findings=found)


def check_session(connection: apsw.Connection, session_id: str, path: Path) -> tuple[Finding, ...]:
    """Return all that is wrong with the rows of one session, within a transaction of the caller's.

    Costs what the session is long, however many others there are.
    """
    search = _Search(path)
    search.look_at_values(connection, session_id)
    rows = consistency.RowsOfOne(connection, session_id)
    for contradictions in consistency.SEARCHES:
        search.look_at_sessions(contradictions(rows))
    return tuple(search.findings)


@contextmanager
def _opened(place: Place) -> Iterator[tuple[apsw.Connection, int]]:
    """Give one snapshot of the database and its schema version."""
    path = place.path
    require_file(path)
    with translated(path, waited_ms=place.busy_timeout_ms, writing=False):
        snapshot = None
        try:
            connection, version = connect(place, rules=policy.READING)
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            if (snapshot := frozen.take(path)) is None:
                raise
            connection, version = connect(place, rules=policy.READING, name=frozen.uri_of(path))
        try:
            # A value that breaks a rule is found by name below; SQLite does not say which it is.
            policy.pragma(connection, "ignore_check_constraints=ON")
            connection.execute("BEGIN DEFERRED")
            yield connection, version
        finally:
            connection.close(True)
    if snapshot is not None:
        frozen.require_unchanged(path, snapshot)


class _Search:
    """What was found so far, in the order in which it was looked for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._salvaged: set[str] = set()
        self.findings: list[Finding] = []

    def add(
        self, kind: FindingKind, place: str, message: str, severity: Severity = "error"
    ) -> None:
        """Note one finding."""
        self.findings.append(
            Finding(
                severity=severity,
                kind=kind,
                object=place,
                message=message,
                hint=_HINTS.get(kind),
            )
        )

    def look_beside(self) -> None:
        """Look at the files beside the database."""
        with suppress(OSError):
            log = beside.log_of(self._path)
            if (size := log.stat().st_size) > LOG_SIZE_LIMIT_BYTES:
                self.add("log_size", str(log), f"it has grown to {size >> 20} MiB", "notice")
        for leftover in beside.buildings_of(self._path):
            self.add(
                "leftover", str(leftover), "it was left half built, or is being built", "notice"
            )

    def look_at_pages(self, connection: apsw.Connection) -> None:
        """Let SQLite look at pages, indexes and references."""
        with self._going_on(str(self._path)):
            statement = f"PRAGMA integrity_check({_INTEGRITY_FINDINGS_MAX})"
            for (message,) in connection.execute(statement):
                if message != "ok":
                    self.add("damaged", str(self._path), str(message))
        with self._going_on(str(self._path)):
            for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check"):
                place = f"{table} row {row}" if row is not None else str(table)
                self.add("foreign_key", place, f"its row in {parent} is missing")

    def look_at_schema(self, connection: apsw.Connection, schema: Schema, version: int) -> None:
        """Compare the header with the recorded versions, and the tables with what it says."""
        with self._going_on("schema_version"):
            found = connection.execute("SELECT version FROM schema_version ORDER BY version")
            if found.fetchall() != [(number,) for number in range(1, version + 1)]:
                message = f"it does not lead to version {version} of the header"
                self.add("version", "schema_version", message)
        with self._going_on("sqlite_schema"):
            for name in schema.differences(connection, version):
                self.add("version", name, f"it is not as version {version} has it")

    def look_at_values(self, connection: apsw.Connection, session_id: str | None = None) -> None:
        """Look at every value of every row, or of those of one session."""
        with self._going_on("sqlite_schema"):
            for table in tables_of(connection).values():
                with self._going_on(table.name):
                    for row in _rows(connection, table, session_id):
                        self._look_at_row(table, row)

    def look_at_sessions(self, found: Iterator[consistency.Contradiction]) -> None:
        """Take over what rows say about one another."""
        with self._going_on("sessions"):
            for one in found:
                is_taken = one.session_id in self._salvaged and one.kind in _TAKEN_BY_DAMAGE
                self.add(one.kind, one.object, one.message, "warning" if is_taken else one.severity)

    def _look_at_row(self, table: Table, row: dict[str, Any]) -> None:
        wrong = table.wrong_columns(row)
        if wrong:
            names = ", ".join(wrong)
            self.add("value", _place(table, row, wrong), f"this cannot have been stored in {names}")
        elif table.name == "sessions" and is_marked(row["metadata"]):
            self._salvaged.add(row["id"])
        elif table.name == "messages" and not is_json(row["provider_data"] or "null"):
            self.add("value", _place(table, row, wrong), "provider_data is no JSON", "warning")

    @contextmanager
    def _going_on(self, place: str) -> Iterator[None]:
        """Make damage that ends the block a finding. Other errors are no finding."""
        try:
            yield
        except UnicodeDecodeError:
            self.add("damaged", place, "a text in it cannot be read")
        except apsw.Error as error:
            known = explain(error, self._path, waited_ms=0, writing=False)
            if isinstance(known, StoreDamaged):
                self.add("damaged", place, known.reason)
            elif isinstance(error, apsw.SQLError):
                self.add("damaged", place, "SQLite cannot make sense of its schema")
            else:
                raise


def _rows(
    connection: apsw.Connection, table: Table, session_id: str | None
) -> Iterator[dict[str, Any]]:
    """Yield all rows, or those of one session; text that is no UTF-8 comes as bytes."""
    names = [column.name for column in table.columns]
    columns = ", ".join(
        f"CASE typeof({name}) WHEN 'text' THEN CAST({name} AS BLOB) ELSE {name} END"
        for name in names
    )
    statement = f"SELECT {columns} FROM {table.name}"  # noqa: S608 - names of the schema
    if session_id is not None:
        statement += f" WHERE {'id' if table.name == 'sessions' else 'session_id'} = ?1"
    for values in connection.execute(statement, () if session_id is None else (session_id,)):
        yield {name: _decoded(value) for name, value in zip(names, values, strict=True)}


def _decoded(value: Any) -> Any:
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            return value.decode()
    return value


def _place(table: Table, row: dict[str, Any], wrong: tuple[str, ...]) -> str:
    keys = {
        "sessions": ("id",),
        "runs": ("id",),
        "messages": ("session_id", "seq"),
        "tool_executions": ("session_id", "call_seq", "call_index"),
        "tombstones": ("session_id",),
    }[table.name]
    shown = ("?" if name in wrong else str(row[name]) for name in keys)
    return f"{table.name} {' '.join(shown)}"
