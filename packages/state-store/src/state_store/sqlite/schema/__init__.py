"""The schema, one numbered SQL file a version, applied in order and never changed once released.

`APPLICATION_ID` marks a file as ours ("tAgS"); `user_version` and the table `schema_version` both
hold the number, so that a glance at the header is enough to refuse a newer file.
"""

from __future__ import annotations

APPLICATION_ID = 0x74416753
MIGRATIONS = ("0001_first",)
VERSION = len(MIGRATIONS)


def read_migration(number: int) -> str:
    """Return the SQL of migration *number*, counted from 1."""
    from importlib import resources  # noqa: PLC0415 - most openings create nothing

    name = f"{MIGRATIONS[number - 1]}.sql"
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
