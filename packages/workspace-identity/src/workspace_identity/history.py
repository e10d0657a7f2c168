"""The registry's own history: one JSON line for every decision but `known`.

It only grows, is written under the registry's lock, and answers "when did this workspace move, and
why did the program think so". Its last line about a workspace also stands in for a record that was
lost or damaged. A line that does not parse is passed over when looking for one that does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workspace_identity.directory import Directory
from workspace_identity.record import (
    Record,
    RecordError,
    format_time,
    parse_path,
    parse_time,
    place_from_json,
    place_to_json,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from workspace_identity.place import Place

HISTORY_NAME = "registry.jsonl"
HISTORY_FORMAT = 1
FORGOTTEN = "forgotten"
RELINKED = "relinked"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One decision; `action` is a verdict, `relinked` or `forgotten`.

    `evidence` is what it rested on, as a JSON object; its fields may grow.
    """

    at: datetime
    action: str
    workspace_id: str
    path: str
    place: Place
    marked: bool
    previous_path: str | None
    marker_id: str | None
    reason: str
    evidence: Mapping[str, object]


class History:
    """The history of one state home. Holds nothing open."""

    __slots__ = ("_path",)

    def __init__(self, state_home: Path) -> None:
        self._path = state_home / HISTORY_NAME

    def append(self, entry: HistoryEntry) -> None:
        """Add *entry*; survives power loss when it returns."""
        line = {
            "v": HISTORY_FORMAT,
            "ts": format_time(entry.at),
            "action": entry.action,
            "workspace_id": entry.workspace_id,
            "path": entry.path,
            "place": place_to_json(entry.place),
            "marked": entry.marked,
            "previous_path": entry.previous_path,
            "marker_id": entry.marker_id,
            "reason": entry.reason,
            "evidence": entry.evidence,
        }
        with Directory.open(self._path.parent) as directory:
            directory.append(self._path.name, json.dumps(line).encode("ascii") + b"\n")

    def last_record(self, workspace_id: str) -> Record | None:
        """Return where the history last said that *workspace_id* is, None if nowhere."""
        action, record = self._last(workspace_id)
        return None if action == FORGOTTEN else record

    def last_forgotten(self, workspace_id: str) -> Record | None:
        """Return where *workspace_id* was when it was forgotten, None unless that came last."""
        action, record = self._last(workspace_id)
        return record if action == FORGOTTEN else None

    def _last(self, workspace_id: str) -> tuple[object, Record | None]:
        last: tuple[object, Record | None] = None, None
        for line in self._lines():
            if line.get("workspace_id") == workspace_id:
                record = _record_of(line, workspace_id)
                if record is not None:
                    last = line.get("action"), record
        return last

    def mentions(self, workspace_id: str) -> bool:
        """Say whether any decision had to do with *workspace_id*, be it as a marker's claim."""
        return any(
            workspace_id in (line.get("workspace_id"), line.get("marker_id"))
            for line in self._lines()
        )

    def _lines(self) -> Iterator[dict[str, object]]:
        try:
            with self._path.open("rb") as lines:
                for raw in lines:
                    try:
                        line = json.loads(raw)
                    except (ValueError, RecursionError):
                        continue
                    if isinstance(line, dict):
                        yield line
        except FileNotFoundError:
            return


def _record_of(line: dict[str, object], workspace_id: str) -> Record | None:
    marked = line.get("marked")
    if not isinstance(marked, bool):
        return None
    try:
        path = parse_path(line.get("path"))
        at = parse_time(line.get("ts"))
        place = place_from_json(line.get("place"))
    except RecordError:
        return None
    return Record(
        workspace_id=workspace_id,
        path=path,
        place=place,
        marked=marked,
        created_at=at,
        last_seen_at=at,
    )
