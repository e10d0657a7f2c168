"""The law of migrations: an upgraded database is a new one, from whatever version it comes."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from state_store.sqlite.opening import bring_up_to_date
from state_store.sqlite.place import Place
from state_store.sqlite.schema import SCHEMA, Migration, Schema, describe
from state_store.testing.family import FIRST, family, in_sql, old_database, open_store
from state_store.testing.sqlite_engine import WORKSPACE_ID

if TYPE_CHECKING:
    from pathlib import Path

LONG = os.environ.get("STATE_STORE_LONG") == "1"
Step = tuple[str, int, int]


def made_up(step: Step) -> Migration:
    """Return one of many possible migrations; *step* is its kind, its number and a choice."""
    kind, number, choice = step
    table = ("sessions", "messages", "runs")[choice]
    sql = {
        "column": f"ALTER TABLE {table} ADD COLUMN c{number} TEXT DEFAULT 'x'",
        "table": f"CREATE TABLE t{number} (id TEXT, n INTEGER)",
        "index": f"CREATE INDEX i{number} ON {table} (id) WHERE id IS NOT NULL",
        "rows": f"CREATE TABLE r{number} (id); INSERT INTO r{number} SELECT id FROM {table}",  # noqa: S608 - names of this file
        "trigger": f"CREATE TRIGGER g{number} AFTER DELETE ON {table} BEGIN SELECT 1; END",
    }
    return in_sql(f"{number:04}_{kind}", sql[kind])


STEPS = st.lists(
    st.tuples(st.sampled_from(["column", "table", "index", "rows", "trigger"]), st.integers(0, 2)),
    min_size=1,
    max_size=5,
)


@settings(
    max_examples=60 if LONG else 5,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS, data=st.data())
def test_an_upgraded_database_is_a_new_one(
    tmp_path_factory: pytest.TempPathFactory,
    workspace_id: str,
    steps: list[tuple[str, int]],
    data: st.DataObject,
) -> None:
    """The same tables, indexes, triggers and rows, from whatever version it comes, in any stages.

    The law: what all migrations make of a new database, and then of the same rows, is what some of
    them make before the rows and the others after them, but for what they compute from rows.
    """
    numbered = [
        (kind, number, choice)
        for number, (kind, choice) in enumerate(steps, start=SCHEMA.version + 1)
    ]
    whole = Schema((*SCHEMA.migrations, *map(made_up, numbered)))
    stages = sorted(data.draw(st.sets(st.integers(1, whole.version - 1), min_size=1)))
    directory = tmp_path_factory.mktemp("law")
    upgraded = directory / "upgraded" / "state.sqlite3"
    first, *later = (*(Schema(whole.migrations[:stage]) for stage in stages), whole)
    old_database(upgraded, workspace_id=workspace_id, schema=first)
    seen = visible(upgraded)
    for schema in later:
        place = Place.at(upgraded, workspace_id=workspace_id, schema=schema)
        assert bring_up_to_date(place) is not None
        assert bring_up_to_date(place) is None
        assert visible(upgraded) == seen
    require_like_new(upgraded, whole)


@pytest.mark.parametrize("schema", [SCHEMA, family()], ids=["real", "family"])
def test_a_database_of_any_version_is_upgraded_to_a_new_one(
    tmp_path: Path, workspace_id: str, schema: Schema
) -> None:
    """The real migrations, and the ones that rebuild and compute."""
    for version in range(1, schema.version):
        path = tmp_path / str(version) / "state.sqlite3"
        old_database(path, workspace_id=workspace_id, schema=Schema(schema.migrations[:version]))
        seen = visible(path)
        bring_up_to_date(Place.at(path, workspace_id=workspace_id, schema=schema))
        assert visible(path) == seen
        require_like_new(path, schema)


def require_like_new(path: Path, schema: Schema) -> None:
    """See that the tables and the record of migrations are those of a new database."""
    new = path.with_name("new.sqlite3")
    open_store(Place.at(new, workspace_id=WORKSPACE_ID, schema=schema)).close()
    with closing(apsw.Connection(str(path))) as one, closing(apsw.Connection(str(new))) as other:
        assert describe(one) == describe(other)
        assert one.pragma("user_version") == other.pragma("user_version")
        recorded = "SELECT version, name FROM schema_version"
        assert one.execute(recorded).fetchall() == other.execute(recorded).fetchall()


def visible(path: Path) -> str:
    """Return what a person wrote, in the columns that the first schema has."""
    with closing(apsw.Connection(":memory:")) as first:
        FIRST.migrations[0].apply(first)
        columns = {
            str(table): ", ".join(
                str(name)
                for (name,) in first.execute("SELECT name FROM pragma_table_info(?)", (table,))
            )
            for (table,) in first.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            if table not in ("schema_version", "sqlite_sequence")
        }
    with closing(apsw.Connection(str(path))) as connection:
        return repr(
            [
                connection.execute(f"SELECT {names} FROM {table} ORDER BY 1, 2").fetchall()  # noqa: S608 - names of the schema
                for table, names in columns.items()
            ]
        )
