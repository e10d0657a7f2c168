"""Full-text search: an index that can be lost at any time, and the rows that decide.

`words` says what a word is, `query` what was asked for, `snippet` what is shown of it. `truth`
reads the database, `index` is the FTS5 table, `file` how it is opened and thrown away,
`catching_up` how it follows. `searching` puts them together. Invariant: the index decides nothing.
Without it, or with half of it, a search finds the same and takes longer.

Must not: load any of these modules before somebody searches, or there is an index to be kept.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from state_store.sqlite.beside import search_of

if TYPE_CHECKING:
    from state_store.sqlite.database import Database

SLICE_MS = 200


def is_there(database: Database) -> bool:
    """Say whether *database* has something by the name of a search index."""
    return database.is_on_disk and os.path.lexists(search_of(database.path))
