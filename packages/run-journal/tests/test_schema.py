"""The schema, the classes, the file in the package and the document say the same."""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, fields
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from json_schema import is_valid
from largest import largest
from run_journal import (
    Entry,
    Journal,
    RunCompleted,
    SessionDeleted,
    SessionForked,
    SessionRenamed,
    ToolStarted,
    WorkspaceDecided,
    WorkspaceVerdict,
    line_schema,
    name_of,
    read,
)
from run_journal.events import EVENT_CLASSES
from run_journal.lines import EMPTY, seal
from run_journal.schema import schema_text

if TYPE_CHECKING:
    from types import SimpleNamespace

    from run_journal import Event

FORMATS = Path(__file__).parents[3] / "docs/formats.md"
UUID = "019b7d2e-0000-7000-8000-000000000001"


def _written(journal: Journal, event: Event, duration_ms: int | None = None) -> dict[str, Any]:
    assert journal.write(event, duration_ms=duration_ms) is not None
    name = getattr(event, "session_id", None)
    path = journal.path_for(None if isinstance(event, SessionDeleted) else name)
    line: dict[str, Any] = json.loads(path.read_bytes().splitlines()[-1])
    return line


def test_the_file_in_the_package_is_what_the_classes_make() -> None:
    """Whoever installs the package has the schema; it cannot lag behind the classes."""
    text = files("run_journal").joinpath("schema.json").read_text("utf-8")
    assert text == schema_text()
    assert json.loads(text) == line_schema()


@pytest.mark.skipif(not FORMATS.exists(), reason="the package alone has no docs")
def test_the_document_shows_the_same_schema() -> None:
    """`docs/formats.md` is where people look for formats."""
    section = FORMATS.read_text("utf-8").partition("## The journal, format 1")[2]
    (shown,) = re.findall(r"```json\n(.*?)```", section, re.DOTALL)
    assert shown == schema_text()


@pytest.mark.parametrize("cls", sorted(EVENT_CLASSES, key=repr))
def test_every_event_at_its_largest_and_at_its_smallest_fits_the_schema(
    journal: Journal, cls: type[Event]
) -> None:
    """Lines as they really stand in a file, with every field full, and with as few as can be."""
    schema = line_schema()
    assert is_valid(_written(journal, largest(cls), 2**63 - 1), schema)
    needed = {
        field.name: getattr(largest(cls), field.name)
        for field in fields(cls)
        if field.default is MISSING
    }
    assert is_valid(_written(journal, cls(**needed)), schema)


def test_what_no_event_writes_does_not_fit_the_schema(
    journal: Journal, ids: SimpleNamespace
) -> None:
    """Free text, another member, a missing one, a wrong kind, another event's member."""
    tool: dict[str, Any] = _written(
        journal, ToolStarted(session_id=ids.session, run_id=ids.run, tool=name_of("db"), call_seq=1)
    )
    schema = line_schema()
    assert is_valid(tool, schema)
    wrong: list[dict[str, Any]] = [
        {"tool": "free text"},
        {"tool": "db\n"},
        {"tool": None},
        {"message": "hello"},
        {"outcome": "ok"},
        {"call_seq": "1"},
        {"call_seq": True},
        {"call_seq": -1},
        {"session_id": None},
        {"run_id": "7"},
        {"event": "tool.finished"},
        {"event": "tool.invented"},
        {"phase": "thinking"},
        {"v": 2},
        {"v": True},
        {"ts": "yesterday"},
        {"chain": "0" * 63},
        {"duration_ms": 1.5},
    ]
    for change in wrong:
        assert not is_valid({**tool, **change}, schema), change
    for name in tool:
        assert not is_valid({k: v for k, v in tool.items() if k != name}, schema), name
    forked = _written(journal, SessionForked(session_id=ids.session, parent_id=ids.other_session))
    assert not is_valid({**forked, "run_id": ids.run}, schema)
    moved = _written(journal, WorkspaceDecided(verdict=WorkspaceVerdict.MOVED))
    assert not is_valid({**moved, "session_id": ids.session}, schema)


def test_a_reader_takes_events_and_fields_of_later_packages(
    tmp_path: Path, journal: Journal, ids: SimpleNamespace
) -> None:
    """The promise of `v`: within 1 there will be more of both, and old programs go on reading."""
    body = json.dumps(
        {
            "ts": "2026-01-02T03:04:05.000006Z",
            "event": "session.praised",
            "workspace_id": ids.workspace,
            "session_id": ids.session,
            "run_id": None,
            "phase": "afterwards",
            "duration_ms": None,
            "star_count": 5,
        },
        separators=(",", ":"),
    )
    line, head = seal(body.encode(), after=EMPTY)
    path = journal.path_for(ids.session)
    path.parent.mkdir(parents=True)
    path.write_bytes(line)
    (entry,) = read(path)
    assert isinstance(entry, Entry)
    assert (entry.event, entry.phase, entry.fields) == (
        "session.praised",
        "afterwards",
        {"star_count": 5},
    )
    written = journal.write(SessionRenamed(session_id=ids.session))
    assert written is not None
    assert written.seq == head.seq + 1
    assert journal.verify(ids.session).ok


def test_the_members_of_format_1_are_those_that_it_began_with() -> None:
    """Nothing of these may go or change its kind while `v` is 1; more may come."""
    schema = line_schema()
    assert schema["properties"].keys() == {
        *("v", "seq", "ts", "event", "workspace_id", "session_id", "run_id", "phase"),
        *("duration_ms", "chain"),
    }
    completed = schema["$defs"][RunCompleted.__name__]["properties"]
    assert completed["input_tokens"] == {"$ref": "#/$defs/count_or_null"}
    assert set(FIRST) <= set(schema["$defs"])
    for name, members in FIRST.items():
        assert set(members.split()) <= set(schema["$defs"][name]["properties"]), name


USAGE = "input_tokens output_tokens cached_input_tokens reasoning_tokens"
FAULT = "error_type http_status exception_types stack"
FIRST = {
    "JournalRepaired": "torn_bytes set_aside",
    "ProviderFailed": f"provider model attempt retryable {FAULT}",
    "ProviderRequested": "provider model attempt streaming message_count tool_count request_bytes",
    "ProviderResponded": f"provider model attempt http_status finish_reason {USAGE}",
    "RedactionTripped": "tripped_event reason",
    "RunCompleted": f"message_count tool_count {USAGE}",
    "RunFailed": f"{FAULT} {USAGE}",
    "RunRecovered": "error_type owner_pid unknown_tool_count",
    "RunRedone": "run_id",
    "RunStarted": "provider model retry_of message_bytes",
    "RunUndone": "run_id",
    "SessionArchived": "archived",
    "SessionCreated": "provider model imported message_count",
    "SessionDeleted": "deleted_session_id message_count run_count",
    "SessionForked": "parent_id parent_seq message_count",
    "SessionRenamed": "session_id",
    "SessionResumed": "provider model message_count",
    "StoreMigrated": "from_version to_version backed_up pruned_backup_count",
    "StoreOpened": "schema_version pid recovered_run_count pruned_backup_count",
    "StoreRestored": "schema_version session_count",
    "ToolFinished": "tool outcome call_seq call_index result_bytes error_type",
    "ToolStarted": "tool call_seq call_index replay argument_bytes",
    "WorkspaceDecided": "verdict previous_workspace_id",
}
