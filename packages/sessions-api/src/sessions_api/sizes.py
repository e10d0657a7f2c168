"""How large the files of a workspace are, by what they are for. Looks at names and sizes alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from workspace_identity import WorkspacePaths


def sizes_of(paths: WorkspacePaths) -> dict[str, int]:
    """Return bytes by purpose, in the order in which people ask; 0 for what is not there.

    "database" has its log in it; "set_aside" is what a restore or a recovery has left, and yours.
    """
    database, directory = paths.database, paths.state_dir
    files = {
        "database": [database, *directory.glob(f"{database.name}-*")],
        "backups": directory.glob(f"{database.name}.backup-*"),
        "set_aside": [
            *directory.glob(f"{database.name}.replaced-*"),
            *directory.glob(f"{database.name}.salvaged-*"),
        ],
        "journals": paths.journal_dir.glob("*"),
        "index": directory.glob("search.sqlite3*"),
        "exports": paths.exports.rglob("*"),
    }
    return {name: _size(found) for name, found in files.items()}


def _size(files: Iterable[Path]) -> int:
    total = 0
    for file in files:
        try:
            total += file.lstat().st_size if file.is_file() else 0
        except OSError:  # it has just gone
            continue
    return total
