from __future__ import annotations

import json
import re
from dataclasses import MISSING, FrozenInstanceError, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from largest import UUID, largest
from run_journal import (
    ErrorType,
    Event,
    EventInvalid,
    EventName,
    FinishReason,
    Journal,
    Name,
    ProviderResponded,
    RunFailed,
    RunStarted,
    SessionArchived,
    SessionRenamed,
    StoreMigrated,
    ToolFinished,
    ToolOutcome,
    ToolStarted,
    WorkspaceDecided,
    WorkspaceVerdict,
    name_of,
)
from run_journal.events import EVENT_CLASSES
from run_journal.lines import GENESIS, MAX_LINE_BYTES, Head, body_of, seal

if TYPE_CHECKING:
    from types import SimpleNamespace

PLAIN = re.compile(r"[A-Za-z0-9_.:/-]{1,64}|<invalid>")


@pytest.mark.parametrize("cls", sorted(EVENT_CLASSES, key=repr))
def test_the_largest_line_of_every_event_stays_under_4096_bytes(cls: type[Event]) -> None:
    """However full an event is, its line is one write of at most 4 KB."""
    body = body_of(
        largest(cls),
        moment=datetime(2026, 1, 2, tzinfo=UTC),
        workspace_id=UUID,
        duration_ms=2**63 - 1,
    )
    line, _ = seal(body.encode("ascii"), after=Head(10**17, GENESIS))
    assert len(line) <= MAX_LINE_BYTES
    assert json.loads(line)["event"]


def test_every_event_name_has_exactly_one_class() -> None:
    """The closed list of names and the closed list of classes are the same list."""
    names = [cls.EVENT for cls in EVENT_CLASSES if cls is not WorkspaceDecided]
    names += [WorkspaceDecided(verdict=verdict).name for verdict in WorkspaceVerdict]
    assert sorted(names) == sorted(EventName)


def test_no_field_of_any_event_takes_free_text() -> None:
    """A sentence is refused by every field, or, in a name, replaced by `<invalid>`."""
    for cls in EVENT_CLASSES:
        good = {f.name: getattr(largest(cls), f.name) for f in fields(cls)}
        for field in fields(cls):
            for bad in ("my password is hunter2", b"x", 1.5, ["x"], {"a": 1}, object()):
                kind = field.metadata["kind"]
                if kind == "name" or (kind == "FinishReason" and isinstance(bad, str)):
                    kept = getattr(cls(**{**good, field.name: bad}), field.name)
                    assert kept == ("<invalid>" if kind == "name" else "other")
                    continue
                with pytest.raises(EventInvalid) as caught:
                    cls(**{**good, field.name: bad})
                assert (caught.value.event, caught.value.field) == (cls.__name__, field.name)
                assert "hunter2" not in str(caught.value)


def test_every_field_has_a_rule_and_required_fields_have_no_default() -> None:
    """A field without a rule would be an open door."""
    for cls in EVENT_CLASSES:
        for field in fields(cls):
            assert callable(field.metadata["rule"])
        assert all(f.default is MISSING for f in fields(cls) if f.name == "error_type") or (
            cls.__name__ in {"ToolFinished", "RunRecovered"}
        )


@given(st.text())
def test_a_model_or_tool_name_is_an_identifier_or_invalid(name: str) -> None:
    """C26, C27: whatever text a model invents, NUL and lone surrogates included."""
    event = ToolStarted(session_id=UUID, run_id=UUID, tool=Name(name))
    assert PLAIN.fullmatch(event.tool)
    assert event.tool in {name, "<invalid>"}


@pytest.mark.parametrize(
    "name", ["caf\udce9", "\ud83d", "a\x00b", "good\n", "\u2028", "", "x" * 65, "Ünïcode", "ﬁ"]
)
def test_text_that_is_no_identifier_becomes_invalid(name: str) -> None:
    """C26, C27: surrogates, NUL, a trailing newline and letters beyond ASCII do not pass."""
    assert RunStarted(session_id=UUID, run_id=UUID, model=Name(name)).model == "<invalid>"


@pytest.mark.parametrize("bad", ["", "x", UUID.upper(), UUID + "\n", "{" + UUID + "}", None, 7])
def test_an_id_that_is_no_canonical_uuid_is_refused(bad: Any) -> None:
    """Ids are the only values that come from outside unread, so they are read here."""
    with pytest.raises(EventInvalid, match="session_id must be a UUID"):
        SessionRenamed(session_id=bad)


@pytest.mark.parametrize("bad", [True, -1, 1.0, "1", 2**63])
def test_a_count_is_an_integer_in_range(bad: Any) -> None:
    """A boolean is no count, nor is what a database could not hold."""
    with pytest.raises(EventInvalid):
        StoreMigrated(from_version=bad, to_version=1)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("stop", "stop"),
        ("MAX_TOKENS", "max_tokens"),
        ("CorrectHorseBatteryStaple", "other"),
        ("a sentence", "other"),
        ("", "other"),
        (7, "other"),
        (None, None),
    ],
)
def test_a_finish_reason_is_one_that_is_known_or_other(said: Any, kept: str | None) -> None:
    """It is a word of the service's answer, which may say anything; none of it gets in."""
    reason = None if said is None else FinishReason(said)
    about: dict[str, Any] = {"session_id": UUID, "run_id": UUID}
    event = ProviderResponded(provider=name_of("p"), finish_reason=reason, **about)
    assert event.finish_reason == kept


@pytest.mark.parametrize("bad", [0, 1, "true", None])
def test_a_flag_is_a_boolean(bad: Any) -> None:
    """An integer is no flag."""
    with pytest.raises(EventInvalid):
        SessionArchived(session_id=UUID, archived=bad)


def test_a_word_of_a_closed_set_may_be_given_as_text_and_becomes_the_member() -> None:
    """What a database row holds as text fits, another text does not."""
    event = RunFailed(session_id=UUID, run_id=UUID, error_type="provider.auth")  # type: ignore[arg-type] # text on purpose
    assert event.error_type is ErrorType.PROVIDER_AUTH
    with pytest.raises(EventInvalid, match="error_type must be one of"):
        RunFailed(session_id=UUID, run_id=UUID, error_type="oh no: key=abc")  # type: ignore[arg-type] # text on purpose


def test_an_event_cannot_be_changed_after_its_check() -> None:
    """Frozen and slotted: no second way in."""
    event = ToolFinished(session_id=UUID, run_id=UUID, tool=name_of("t"), outcome=ToolOutcome.OK)
    with pytest.raises(FrozenInstanceError):
        event.tool = Name("free text")  # type: ignore[misc] # that is the point
    assert not hasattr(event, "__dict__")


def test_a_journal_refuses_what_is_none_of_its_events(
    journal: Journal, ids: SimpleNamespace
) -> None:
    """Neither a dict, nor an abstract base, nor a subclass with fields of its own."""

    class Chatty(SessionRenamed):
        """A subclass that would smuggle text."""

    for bad in ({"event": "x"}, Event(), Chatty(session_id=ids.session), "text"):
        with pytest.raises(EventInvalid):
            journal.write(bad)  # type: ignore[arg-type] # that is the point
    for duration_ms in (-1, 1.5, True, "3"):
        with pytest.raises(EventInvalid):
            journal.write(SessionRenamed(session_id=ids.session), duration_ms=duration_ms)  # type: ignore[arg-type] # that is the point
