"""The registry record of one workspace: where it was last seen, and what place that was.

On disk it is a small JSON object with a format number. It is read strictly: a record that is not
wholly what this version writes is a damaged record, reported as such and never half believed.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from workspace_identity.place import Place

RECORD_FORMAT = 1


class RecordError(ValueError):
    """A record that cannot be used; the text says why. Never leaves the package."""


class NewerRecordError(RecordError):
    """A record written by a newer version, which must not be overwritten by this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What the registry believes of one workspace.

    `marked` is False for one without a marker. `git_asked` says that it was seen in a git
    repository, and people were told once if the marker was not ignored there.
    """

    workspace_id: str
    path: str
    place: Place
    marked: bool
    created_at: datetime
    last_seen_at: datetime
    git_asked: bool = False

    def to_json(self) -> dict[str, object]:
        """Return the JSON object of the record."""
        return {
            "format": RECORD_FORMAT,
            "workspace_id": self.workspace_id,
            "path": self.path,
            "place": place_to_json(self.place),
            "marked": self.marked,
            "created_at": format_time(self.created_at),
            "last_seen_at": format_time(self.last_seen_at),
            "git_asked": self.git_asked,
        }

    @classmethod
    def from_json(cls, value: object, *, workspace_id: str) -> Record:
        """Read the JSON object of *workspace_id*; raises RecordError or NewerRecordError."""
        if not isinstance(value, dict):
            raise RecordError("it is not a JSON object")
        version = value.get("format")
        if isinstance(version, int) and version > RECORD_FORMAT:
            raise NewerRecordError(f"it has format {version}, this version knows {RECORD_FORMAT}")
        if version != RECORD_FORMAT:
            raise RecordError("it has no known format number")
        if value.get("workspace_id") != workspace_id:
            raise RecordError("it is the record of another workspace")
        marked, git_asked = value.get("marked"), value.get("git_asked", False)
        if not isinstance(marked, bool) or not isinstance(git_asked, bool):
            raise RecordError("a field is missing or has the wrong type")
        return cls(
            workspace_id=workspace_id,
            path=parse_path(value.get("path")),
            place=place_from_json(value.get("place")),
            marked=marked,
            created_at=parse_time(value.get("created_at")),
            last_seen_at=parse_time(value.get("last_seen_at")),
            git_asked=git_asked,
        )


def place_to_json(place: Place) -> dict[str, int | None]:
    """Return the JSON object of a place."""
    return {"device": place.device, "inode": place.inode, "birth_ns": place.birth_ns}


def place_from_json(value: object) -> Place:
    """Read the JSON object of a place; raises RecordError."""
    if isinstance(value, dict):
        device, inode, birth_ns = (value.get(name) for name in ("device", "inode", "birth_ns"))
        if (
            isinstance(device, int)
            and isinstance(inode, int)
            and (birth_ns is None or isinstance(birth_ns, int))
        ):
            return Place(device=device, inode=inode, birth_ns=birth_ns)
    raise RecordError("its place is missing or has the wrong type")


def parse_path(value: object) -> str:
    """Read a recorded path, absolute and one that the system can be asked about; RecordError."""
    if isinstance(value, str) and Path(value).is_absolute() and "\0" not in value:
        with contextlib.suppress(UnicodeEncodeError):
            os.fsencode(value)
            return value
    raise RecordError("its path is missing or no absolute path")


def format_time(moment: datetime) -> str:
    """Return *moment* as fixed-width UTC text, so that text order is time order."""
    utc = moment.astimezone(UTC).replace(tzinfo=None)
    # Not by strftime: its %Y has fewer than four digits for early years on some systems.
    return f"{utc.isoformat(timespec='microseconds')}Z"


def parse_time(value: object) -> datetime:
    """Read what `format_time` wrote; raises RecordError."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError, OverflowError):
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is not None and format_time(moment) == value:
                return moment
    raise RecordError("a time is missing or malformed")
