"""Whether the schema in the file is the one that this package wrote.

Asked only after SQL has failed: all of it is constant, so either it is wrong, which a test finds,
or the text of the schema in the file is damaged, of which SQLite says no more than that there is
no such column. Invariant: reads the schema table and nothing else.
"""

from __future__ import annotations

from contextlib import closing

import apsw

from state_store.sqlite import schema

_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"


def is_as_written(connection: apsw.Connection) -> bool:
    """Say whether all tables and indexes are there as the migrations make them, and no other."""
    with closing(apsw.Connection(":memory:")) as right:
        for number in range(1, schema.VERSION + 1):
            right.execute(schema.read_migration(number))
        expected = right.execute(_SCHEMA).fetchall()
    return connection.execute(_SCHEMA).fetchall() == expected
