"""The schema: numbered migrations, applied in order and never changed once released.

`APPLICATION_ID` marks a file as ours ("tAgS"); `user_version` and the table `schema_version` both
hold the number of the last migration that was applied, so that a glance at the header is enough
to refuse a newer file. A new database is made by applying all of them, so that an upgraded one and
a new one cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import apsw

APPLICATION_ID = 0x74416753

Step = Callable[[apsw.Connection], None]
Described = list[tuple[object, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step from a schema to the next.

    `apply` changes tables and rows inside a transaction that its caller opens and ends. `check`,
    if there is one, raises when the committed result is not what it has to be; the database is
    then restored. A released one never changes, not even its name.
    """

    name: str
    apply: Step
    check: Step | None = None


@dataclass(frozen=True, slots=True)
class Schema:
    """All migrations that a program knows, in order."""

    migrations: tuple[Migration, ...]

    @property
    def version(self) -> int:
        """The number that a database has when all of them were applied."""
        return len(self.migrations)

    def after(self, version: int) -> tuple[tuple[int, Migration], ...]:
        """Return the migrations that a database of *version* lacks, with their numbers."""
        return tuple(enumerate(self.migrations, start=1))[version:]

    def matches(self, connection: apsw.Connection, version: int) -> bool:
        """Say whether all tables, indexes and triggers are those of *version*, and no other."""
        return not self.differences(connection, version)

    def differences(self, connection: apsw.Connection, version: int) -> tuple[str, ...]:
        """Name what is there and not of *version*, or of it and not there, or not as it should be.

        Each as "table runs", sorted; empty when all is as it has to be.
        """
        with closing(apsw.Connection(":memory:")) as right:
            for migration in self.migrations[:version]:
                migration.apply(right)
            wrong = set(describe(connection)) ^ set(describe(right))
        return tuple(sorted({f"{kind} {name}" for kind, name, *_ in wrong}))


def describe(connection: apsw.Connection) -> Described:
    """Return what the schema table says, in an order that does not depend on its history."""
    return connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"
    ).fetchall()


def apply_sql(connection: apsw.Connection, *, name: str) -> None:
    """Apply the SQL file *name* of this folder."""
    connection.execute(read_sql(name))


def read_sql(name: str) -> str:
    """Return the text of the SQL file *name* of this folder."""
    from importlib import resources  # noqa: PLC0415 - most openings create and upgrade nothing

    return resources.files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")


def _in_sql(name: str) -> Migration:
    return Migration(name=name, apply=partial(apply_sql, name=name))


SCHEMA = Schema(tuple(map(_in_sql, ("0001_first", "0002_erasing", "0003_branches"))))
