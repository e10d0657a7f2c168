"""An upgrade that may be committed and is not checked yet: the record that says so.

It is on the disk before the commit and goes when the check has passed or the backup is back. So a
crash, or Ctrl-C, between the two does not turn an upgrade that fails its check into one that never
had any: whoever comes next checks it, before anything else.

Must not: judge. What the record means for a database is for `upgrading` to say.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from state_store.sqlite.beside import unproven_of
from state_store.sqlite.creating import building_beside, sync_directory, write_synced
from state_store.sqlite.faults import unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Unproven:
    """From which version the database is being upgraded, and the file name of its backup."""

    version: int
    backup: str


def note(path: Path, unproven: Unproven) -> None:
    """Record an upgrade of the database at *path* before it is committed."""
    with building_beside(path) as building:
        write_synced(building, json.dumps(asdict(unproven)).encode() + b"\n")
        building.rename(unproven_of(path))
        sync_directory(path.parent)


def find(path: Path) -> Unproven | None:
    """Return what is recorded; None when nothing is, or nothing that can be read."""
    try:
        found = json.loads(unproven_of(path).read_text(encoding="utf-8"))
        return Unproven(version=int(found["version"]), backup=Path(str(found["backup"])).name)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unavailable(unproven_of(path), error) from error
    except (ValueError, KeyError, TypeError):
        return None


def forget(path: Path) -> None:
    """Remove the record for good; no-op when there is none."""
    try:
        unproven_of(path).unlink()
        sync_directory(path.parent)
    except FileNotFoundError:
        return
    except OSError as error:
        raise unavailable(unproven_of(path), error) from error
