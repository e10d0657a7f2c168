"""From a damaged database to a new one with all that can still be read.

Start at `saving`. `pages` is the file with its log over it, `log_frames` the log, `stored_rows` the
rows in a page, `recognition` which table a row belongs to, `collecting` which of several copies
counts, `mending` the rows without which others could not be kept. Source of what a page looks like:
SQLite documentation, "Database File Format".
"""

from state_store.sqlite.salvage.saving import salvage

__all__ = ["salvage"]
