"""The type checker and the constructor both refuse a free text.

Every `type: ignore` below is a claim that mypy checks: were the text let through, `--strict` would
call the comment unused. The constructor is asked at run time, by the test around it.
"""

from __future__ import annotations

from dataclasses import fields

import pytest

from run_journal import (
    ErrorType,
    EventInvalid,
    Journal,
    JournalRepaired,
    ProviderFailed,
    ProviderRequested,
    RedactionTripped,
    RunFailed,
    SessionArchived,
    SessionRenamed,
    StoreOpened,
    ToolFinished,
    ToolOutcome,
    ToolStarted,
    WorkspaceDecided,
)
from run_journal.events import EVENT_CLASSES

S = "019b7d2e-0000-7000-8000-000000000001"
R = "019b7d2e-0000-7000-8000-00000000000a"
OK = ToolOutcome.OK
BROKEN = ErrorType.INTERNAL
TEXT = "my password is hunter2"


def test_a_free_text_fits_no_field_of_any_kind() -> None:
    """A word of a closed set, a count, a status, a flag, a stack, types, a phase, a whole event."""
    with pytest.raises(EventInvalid):
        RunFailed(session_id=S, run_id=R, error_type=TEXT)  # type: ignore[arg-type] # the claim
    with pytest.raises(EventInvalid):
        ToolFinished(session_id=S, run_id=R, tool="t", outcome=TEXT)  # type: ignore[arg-type] # the claim
    with pytest.raises(EventInvalid):
        ToolStarted(session_id=S, run_id=R, tool="t", replay=TEXT)  # type: ignore[arg-type] # the claim
    with pytest.raises(EventInvalid):
        WorkspaceDecided(verdict=TEXT)  # type: ignore[arg-type] # the claim
    with pytest.raises(EventInvalid):
        RedactionTripped(tripped_event=TEXT, reason=TEXT)  # type: ignore[arg-type] # the claim
    with pytest.raises(EventInvalid):
        StoreOpened(pid=TEXT)  # type: ignore[arg-type] # the claim
    with pytest.raises(EventInvalid):
        RunFailed(session_id=S, run_id=R, error_type=BROKEN, http_status=TEXT)  # type: ignore[arg-type] # the claim
    with pytest.raises(EventInvalid):
        SessionArchived(session_id=S, archived=TEXT)  # type: ignore[arg-type] # the claim
    with pytest.raises(EventInvalid):
        ProviderRequested(session_id=S, run_id=R, provider="p", streaming=TEXT)  # type: ignore[arg-type] # the claim
    with pytest.raises(EventInvalid):
        ToolFinished(session_id=S, run_id=R, tool="t", outcome=OK, stack=TEXT)  # type: ignore[arg-type] # the claim
    with pytest.raises(EventInvalid):
        ToolFinished(session_id=S, run_id=R, tool="t", outcome=OK, exception_types=TEXT)  # type: ignore[arg-type] # the claim
    with pytest.raises(EventInvalid):
        SessionRenamed(session_id=S, phase=TEXT)  # type: ignore[arg-type] # the claim
    with pytest.raises(TypeError):
        SessionRenamed(session_id=S, message=TEXT)  # type: ignore[call-arg] # no field takes it


def test_a_journal_takes_events_and_no_text(journal: Journal) -> None:
    """Neither a sentence nor a dict nor a text beside the event."""
    with pytest.raises(EventInvalid):
        journal.write(TEXT)  # type: ignore[arg-type] # the claim
    with pytest.raises(EventInvalid):
        journal.write({"event": TEXT})  # type: ignore[arg-type] # the claim
    with pytest.raises(EventInvalid):
        journal.write(SessionRenamed(session_id=S), duration_ms=TEXT)  # type: ignore[arg-type] # the claim
    assert list(journal.directory.parent.parent.rglob("*.jsonl")) == []


def test_fields_that_are_texts_to_the_type_checker_are_ids_and_names_alone() -> None:
    """An id is refused when it is none; a name that a model made up becomes `<invalid>`."""
    kinds = {
        field.metadata["kind"]
        for cls in EVENT_CLASSES
        for field in fields(cls)
        if str(field.type) in {"str", "str | None"}
    }
    assert kinds == {"uuid", "name", "identifier", "FinishReason"}
    with pytest.raises(EventInvalid):
        SessionRenamed(session_id=TEXT)
    with pytest.raises(EventInvalid):
        JournalRepaired(torn_bytes=1, set_aside=TEXT)
    assert ToolStarted(session_id=S, run_id=R, tool=TEXT).tool == "<invalid>"
    types = ProviderFailed(
        session_id=S,
        run_id=R,
        provider=TEXT,
        error_type=BROKEN,
        exception_types=(TEXT, "ValueError"),
    )
    assert (types.provider, types.exception_types) == ("<invalid>", ("<invalid>", "ValueError"))
