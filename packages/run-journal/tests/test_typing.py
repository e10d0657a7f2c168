"""The type checker and the constructor both refuse a free text.

Every `type: ignore` below is a claim that mypy checks: were the text let through, `--strict` would
call the comment unused. The constructor is asked at run time, by the test around it. A field's type
is one of `REFUSED`, and each of these has its claim, so no field of any event is left out.
"""

from __future__ import annotations

from dataclasses import fields

import pytest

from run_journal import (
    CodeName,
    ErrorType,
    EventInvalid,
    FinishReason,
    Frame,
    Id,
    Identifier,
    Journal,
    JournalRepaired,
    Name,
    ProviderFailed,
    ProviderRequested,
    ProviderResponded,
    RedactionTripped,
    RunFailed,
    SessionArchived,
    SessionRenamed,
    StoreOpened,
    ToolFinished,
    ToolOutcome,
    ToolStarted,
    WorkspaceDecided,
    id_of,
    identifier_of,
    name_of,
)
from run_journal.events import EVENT_CLASSES

S = id_of("019b7d2e-0000-7000-8000-000000000001")
R = id_of("019b7d2e-0000-7000-8000-00000000000a")
T = name_of("t")
OK = ToolOutcome.OK
BROKEN = ErrorType.INTERNAL
TEXT = "my password is hunter2"
WORD = "hunter2"  # one that no rule of a name would refuse: here the type checker is all there is
REFUSED = {
    *("Id", "Name", "Identifier", "tuple[Name, ...]", "Stack", "int", "bool", "Phase"),
    *("ErrorType", "ToolOutcome", "ReplayPolicy", "WorkspaceVerdict", "EventName", "TripReason"),
    "FinishReason",
}


def test_a_field_is_of_a_type_that_takes_no_text() -> None:
    """`str` is none of them; each has its claim below."""
    types = {str(one.type).removesuffix(" | None") for cls in EVENT_CLASSES for one in fields(cls)}
    assert types == REFUSED
    assert {str(one.type) for one in fields(Frame)} == {"CodeName", "int"}


def test_a_free_text_fits_no_field_of_any_kind() -> None:
    """A word of a closed set, a count, a status, a flag, a stack, types, a phase, a whole event."""
    with pytest.raises(EventInvalid):
        RunFailed(session_id=S, run_id=R, error_type=TEXT)  # type: ignore[arg-type] # the claim
    with pytest.raises(EventInvalid):
        ToolFinished(session_id=S, run_id=R, tool=T, outcome=TEXT)  # type: ignore[arg-type] # the claim
    with pytest.raises(EventInvalid):
        ToolStarted(session_id=S, run_id=R, tool=T, replay=TEXT)  # type: ignore[arg-type] # the claim
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
        ProviderRequested(session_id=S, run_id=R, provider=T, streaming=TEXT)  # type: ignore[arg-type] # the claim
    with pytest.raises(EventInvalid):
        ToolFinished(session_id=S, run_id=R, tool=T, outcome=OK, stack=TEXT)  # type: ignore[arg-type] # the claim
    with pytest.raises(EventInvalid):
        ToolFinished(session_id=S, run_id=R, tool=T, outcome=OK, exception_types=TEXT)  # type: ignore[arg-type] # the claim
    with pytest.raises(EventInvalid):
        SessionRenamed(session_id=S, phase=TEXT)  # type: ignore[arg-type] # the claim
    with pytest.raises(EventInvalid):
        SessionRenamed(session_id=TEXT)  # type: ignore[arg-type] # the claim
    with pytest.raises(EventInvalid):
        JournalRepaired(torn_bytes=1, set_aside=TEXT)  # type: ignore[arg-type] # the claim
    with pytest.raises(TypeError):
        SessionRenamed(session_id=S, message=TEXT)  # type: ignore[call-arg] # no field takes it


def test_a_text_in_a_name_is_refused_by_the_type_checker_and_made_invalid() -> None:
    """A name may be a model's invention, so that a bad one is no error when a program runs."""
    told = ToolStarted(session_id=S, run_id=R, tool=TEXT)  # type: ignore[arg-type] # the claim
    assert told.tool == "<invalid>"
    types = RunFailed(session_id=S, run_id=R, error_type=BROKEN, exception_types=(TEXT, "KeyError"))  # type: ignore[arg-type] # the claim
    assert types.exception_types == ("<invalid>", "KeyError")
    ended = ProviderResponded(session_id=S, run_id=R, provider=T, finish_reason=TEXT)  # type: ignore[arg-type] # the claim
    assert ended.finish_reason is FinishReason.OTHER
    frame = Frame(module=TEXT, function=TEXT, line=1)  # type: ignore[arg-type] # the claim
    assert (frame.module, frame.function) == ("<invalid>", "<invalid>")
    with pytest.raises(EventInvalid):
        ProviderFailed(session_id=S, run_id=R, provider=WORD, error_type=WORD)  # type: ignore[arg-type] # the claim


def test_one_kind_of_text_is_not_taken_for_another() -> None:
    """An id is no name, and whoever claims a type meets the constructor."""
    with pytest.raises(EventInvalid):
        SessionRenamed(session_id=T)  # type: ignore[arg-type] # the claim
    with pytest.raises(EventInvalid):
        SessionRenamed(session_id=Id(TEXT))
    with pytest.raises(EventInvalid):
        JournalRepaired(torn_bytes=1, set_aside=Identifier(TEXT))
    assert ToolStarted(session_id=S, run_id=R, tool=Name(TEXT)).tool == "<invalid>"
    assert Frame(module=CodeName(TEXT), function=CodeName("f"), line=1).module == "<invalid>"


def test_what_makes_a_text_fit_checks_it() -> None:
    """The value itself as plain text, or an error that does not repeat it."""

    class Loud(str):
        """A text that says something else later."""

        __slots__ = ()

        def __str__(self) -> str:
            return TEXT

    assert (type(id_of(Loud(S))), id_of(Loud(S))) == (str, S)
    assert (type(name_of(Loud("t"))), identifier_of("a/b:c")) == (str, "a/b:c")
    assert [name_of(bad) for bad in (TEXT, None, 7, b"t", "")] == ["<invalid>"] * 5
    for make, rule in ((id_of, "a UUID"), (identifier_of, "an identifier")):
        with pytest.raises(EventInvalid, match=rule) as caught:
            make(TEXT)
        assert "hunter2" not in str(caught.value)


def test_a_journal_takes_events_and_no_text(journal: Journal) -> None:
    """Neither a sentence nor a dict nor a text beside the event."""
    with pytest.raises(EventInvalid):
        journal.write(TEXT)  # type: ignore[arg-type] # the claim
    with pytest.raises(EventInvalid):
        journal.write({"event": TEXT})  # type: ignore[arg-type] # the claim
    with pytest.raises(EventInvalid):
        journal.write(SessionRenamed(session_id=S), duration_ms=TEXT)  # type: ignore[arg-type] # the claim
    assert list(journal.directory.parent.parent.rglob("*.jsonl")) == []
