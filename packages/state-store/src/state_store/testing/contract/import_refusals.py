"""What cannot be imported: the record and the field are named, and nothing is written."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from state_store.clock import new_id
from state_store.errors import ImportInvalid
from state_store.records import ToolCall, Usage
from state_store.testing.contract.basis import Contract
from state_store.testing.contract.branches import with_a_tool
from state_store.testing.turns import (
    assistant,
    source,
    source_messages,
    user,
)

if TYPE_CHECKING:
    from state_store.protocol import SessionStore

from state_store.testing.contract.importing import brought_in, source_run, whole

# An instant that Python can hold where it is, and not in UTC.
BEFORE_ALL = datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))


class ImportRefusalsContract(Contract):
    """An import that cannot be is refused with the first thing that is wrong with it."""

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("role", None),
            ("content", 7),
            ("kind", "odd"),
            ("covers", (1, 1)),
            ("seq", "1"),
            ("tool_calls", [ToolCall(id="a", name="b", arguments="{}")]),
            ("tool_calls", (ToolCall(id=None, name="b", arguments="{}"),)),  # type: ignore[arg-type]  # that is the point
            ("parts", ({"n": float("nan")},)),
            ("extra", "[1]"),
            ("extra", '{"role": "user"}'),
            ("extra", '{"a":\n1}'),
            ("extra", '{"a": NaN}'),
            ("created_at", datetime(2026, 1, 1)),  # noqa: DTZ001 - that is the point
            ("created_at", BEFORE_ALL),
            ("undone_after", -1),
            ("undone_after", 2),
            ("run_id", "of no run"),
            ("repaired", 1),
        ],
    )
    def test_a_message_that_cannot_be_is_named_and_nothing_is_written(
        self, store: SessionStore, field: str, value: object
    ) -> None:
        """By its number in the source and the field."""
        before = store.list().items
        good, bad = source_messages(user(), assistant())
        changed: Any = {field: value}
        with pytest.raises(ImportInvalid) as refused:
            store.import_session(source(), messages=(good, replace(bad, **changed)), digest="d")
        assert (refused.value.record, refused.value.number) == ("message", 2)
        assert refused.value.field == field
        assert store.list().items == before
        assert store.import_session(source(), messages=(good,), digest="d").outcome == "new"

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("id", ""),
            ("first_seq", 2),
            ("first_seq", 9),
            ("status", "odd"),
            ("error_type", "x"),
            ("finished_at", None),
            ("usage", Usage(input_tokens=-1)),
            ("usage", Usage(input_tokens=1 << 60)),
            ("cost", float("inf")),
            ("cost", 10**400),
            ("started_at", BEFORE_ALL),
            ("undone_after", 2),
            ("copied_from", "x"),
        ],
    )
    def test_a_run_that_cannot_be_is_named(
        self, store: SessionStore, field: str, value: object
    ) -> None:
        """So is one that does not belong to its messages."""
        session_id = new_id()
        run = source_run(session_id, seq=1)
        messages = source_messages(user(), assistant(), run_id=run.id)
        changed: Any = {field: value}
        with pytest.raises(ImportInvalid) as refused:
            store.import_session(
                source(session_id), messages=messages, runs=(replace(run, **changed),), digest="d"
            )
        assert (refused.value.record, refused.value.number) == ("run", 1)
        assert refused.value.field in {field, "first_seq"}
        assert store.list().items == ()

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("run_id", "x"),
            ("call_seq", 1),
            ("call_index", 2),
            ("result_seq", 1),
            ("result_seq", 4),
            ("replay", "x"),
        ],
    )
    def test_an_execution_that_points_nowhere_is_named(
        self, store: SessionStore, field: str, value: object
    ) -> None:
        """Its run, its call and its result have to be there, and the result is of no other call."""
        session_id = store.create_session().id
        with_a_tool(store, session_id)
        session, messages, runs, (one, other) = whole(store, session_id)
        changed: Any = {field: value}
        with pytest.raises(ImportInvalid) as refused:
            brought_in(store, (session, messages, runs, (one, replace(other, **changed))))
        assert (refused.value.record, refused.value.number) == ("execution", 2)
        assert refused.value.field == field
        assert len(store.list().items) == 1

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("status", "odd"),
            ("title", 7),
            ("created_at", None),
            ("created_at", BEFORE_ALL),
            ("metadata", {"x": {1}}),
        ],
    )
    def test_a_session_that_cannot_be_is_named(
        self, store: SessionStore, field: str, value: object
    ) -> None:
        """Before a message is read."""
        changed: Any = {field: value}
        with pytest.raises(ImportInvalid) as refused:
            store.import_session(replace(source(), **changed), messages=(), digest="d")
        assert (refused.value.record, refused.value.field) == ("session", field)

    @pytest.mark.parametrize("record", [None, "text", 7])
    def test_what_is_no_record_ends_no_import_early(
        self, store: SessionStore, record: object
    ) -> None:
        """Not even nothing at all."""
        given: Any = (*source_messages(user()), record)
        with pytest.raises(ImportInvalid) as refused:
            store.import_session(source(), messages=given, digest="d")
        assert (refused.value.number, refused.value.field) == (2, "type")
        assert store.list().items == ()
