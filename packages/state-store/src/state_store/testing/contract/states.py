"""Whole sessions as values: saving over what is stored, and loading."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from state_store.clock import new_id
from state_store.errors import HistoryConflict, SessionBusy
from state_store.records import NewMessage, NewSession, SessionState, ToolCall
from state_store.testing.contract.basis import Contract
from state_store.testing.turns import assistant, begin, contents, session_with_turn, turn, user

if TYPE_CHECKING:
    from state_store.protocol import SessionStore

LONG_COUNT = 25_001
ZERO = timedelta(0)
# No JSON that a parser and a writer would give back like this.
PROVIDER_DATA = '{ "sig":"A/+=\\u00e9é",  "n": 1.10, "big": 9007199254740993, "a":1, "a":2 }\n'
MESSAGES = (
    NewMessage(role="system", content="be brief"),
    NewMessage(role="user", content="look", parts=({"type": "image", "data": "…", "n": [1, 2]},)),
    NewMessage(
        role="assistant",
        reasoning_content="hm",
        tool_calls=(ToolCall(id="c1", name="look", arguments='{"a":1.0}'),),
        provider_data=PROVIDER_DATA,
    ),
    NewMessage(role="tool", content="seen", tool_call_id="c1", name="look"),
    NewMessage(role="assistant", content="", tool_calls=()),
    NewMessage(role="someone-new", content="kept as it is"),
)


def new_state(messages: tuple[NewMessage, ...], **settings: str) -> SessionState:
    """Return a state under a new id."""
    return SessionState(id=new_id(), settings=NewSession(**settings), messages=messages)  # type: ignore[arg-type]  # text fields only


def without_times(state: SessionState) -> SessionState:
    """Return *state* as it would be without a clock."""
    timeless = tuple(replace(message, created_at=None) for message in state.messages)
    return replace(state, messages=timeless, created_at=None)


class StatesContract(Contract):
    """What is loaded is what was saved, and saving changes nothing that is stored."""

    def test_a_saved_state_is_loaded_as_it_was(self, store: SessionStore) -> None:
        """Every field of every message, and the settings."""
        state = replace(
            new_state(MESSAGES),
            settings=NewSession(
                title="t",
                title_source="user",
                provider="p",
                model_config={},
                parameters={"a": 1},
                metadata={"b": [None]},
            ),
        )
        session = store.save(state, timedelta(seconds=1.5))
        assert (session.id, session.duration_ms, session.status) == (state.id, 1500, "idle")
        assert session.message_count == len(MESSAGES)
        assert without_times(store.load(state.id)) == state

    def test_a_saved_message_is_marked_as_no_runs(self, store: SessionStore) -> None:
        """It has a place and a time, and no run."""
        state = new_state(MESSAGES)
        store.save(state, ZERO)
        stored = store.messages(state.id).items
        assert [one.seq for one in stored] == list(range(1, len(MESSAGES) + 1))
        assert {one.run_id for one in stored} == {None}
        assert store.runs(state.id).items == ()
        assert all(one.created_at is not None for one in stored)

    def test_provider_data_comes_back_byte_for_byte(self, store: SessionStore) -> None:
        """Spaces, escapes, number forms and double keys included (C38)."""
        session_id = store.create_session().id
        run = begin(store, session_id)
        message = replace(assistant(), provider_data=PROVIDER_DATA)
        store.complete_run(run.id, message, usage=run.usage)
        assert store.messages(session_id).items[-1].provider_data == PROVIDER_DATA
        assert store.load(session_id).messages[-1].provider_data == PROVIDER_DATA

    def test_saving_the_same_state_again_adds_nothing(self, store: SessionStore) -> None:
        """The duration is replaced, not added."""
        state = new_state(MESSAGES)
        store.save(state, timedelta(seconds=1))
        stored = store.messages(state.id)
        session = store.save(store.load(state.id), timedelta(seconds=3))
        assert store.messages(state.id) == stored
        assert (session.message_count, session.duration_ms) == (len(MESSAGES), 3000)

    def test_saving_a_longer_state_appends_the_rest(self, store: SessionStore) -> None:
        """Also to messages that runs have made."""
        session_id = session_with_turn(store)
        loaded = store.load(session_id)
        longer = replace(loaded, messages=(*loaded.messages, user("more"), assistant("fine")))
        session = store.save(longer, ZERO)
        assert contents(store, session_id) == ["question", "answer", "more", "fine"]
        assert session.message_count == 4
        turn(store, session_id, "and on")
        assert contents(store, session_id)[-2:] == ["and on", "answer"]

    @pytest.mark.parametrize(
        ("change", "seq"),
        [
            (lambda messages: messages[:-1], 6),
            (lambda _: (), 1),
            (lambda messages: (user("other"), *messages[1:]), 1),
            (lambda messages: (*messages[:3], replace(messages[3], content="x"), *messages[4:]), 4),
            (lambda messages: (*messages[:2], replace(messages[2], provider_data="{}")), 3),
            (lambda messages: (*messages[1:], user("new")), 1),
        ],
        ids=[
            "last lacks",
            "all lack",
            "first changed",
            "result changed",
            "data changed",
            "shifted",
        ],
    )
    def test_a_state_that_contradicts_what_is_stored_writes_nothing(
        self, store: SessionStore, change: object, seq: int
    ) -> None:
        """It says at which message, and even its settings are not taken."""
        state = new_state(MESSAGES, title="before")
        store.save(state, timedelta(seconds=1))
        before = store.get_session(state.id), store.messages(state.id)
        assert callable(change)
        contradicting = replace(
            state, messages=change(MESSAGES), settings=NewSession(title="after")
        )
        with pytest.raises(HistoryConflict) as conflict:
            store.save(contradicting, timedelta(seconds=2))
        assert (conflict.value.session_id, conflict.value.seq) == (state.id, seq)
        assert (store.get_session(state.id), store.messages(state.id)) == before

    def test_a_save_that_fails_in_the_middle_writes_nothing(self, store: SessionStore) -> None:
        """Neither the session nor the messages before the bad one."""
        bad = NewMessage(role="user", parts=({"n": float("nan")},))
        state = new_state((user(), assistant(), bad))
        with pytest.raises(ValueError, match="JSON"):
            store.save(state, ZERO)
        assert store.list().items == ()

    def test_saving_without_a_title_keeps_the_title(self, store: SessionStore) -> None:
        """A state that knows no title takes none away."""
        session = store.create_session(NewSession(title="mine", title_source="user"))
        saved = store.save(SessionState(id=session.id, messages=(user(),)), ZERO)
        assert (saved.title, saved.title_source) == ("mine", "user")

    def test_a_state_is_not_saved_over_a_run_under_way(self, store: SessionStore) -> None:
        """Two writers of one session never mix."""
        session_id = store.create_session().id
        begin(store, session_id)
        loaded = store.load(session_id)
        with pytest.raises(SessionBusy):
            store.save(replace(loaded, messages=(*loaded.messages, user("x"))), ZERO)
        assert contents(store, session_id) == ["question"]

    def test_imported_messages_keep_their_own_times(self, store: SessionStore) -> None:
        """Missing ones stay missing; order is the state's order; zones become UTC."""
        imported_at = datetime(2026, 5, 6, tzinfo=UTC)
        late = datetime(2025, 6, 1, 12, tzinfo=timezone(timedelta(hours=5, minutes=30)))
        early = datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC)
        state = replace(
            new_state(
                (
                    replace(user("a"), created_at=late, imported_at=imported_at),
                    replace(assistant("b"), created_at=None, imported_at=imported_at),
                    replace(user("c"), created_at=early, imported_at=imported_at),
                )
            ),
            created_at=early,
        )
        session = store.save(state, ZERO)
        assert session.created_at == early
        stored = store.messages(state.id).items
        assert [one.content for one in stored] == ["a", "b", "c"]
        assert [one.created_at for one in stored] == [late, None, early]
        assert {one.imported_at for one in stored} == {imported_at}
        assert stored[0].created_at is not None
        assert stored[0].created_at.utcoffset() == ZERO

    def test_a_summary_is_beside_the_originals_and_never_among_them(
        self, store: SessionStore
    ) -> None:
        """The view "all" has it, with the range it covers; the default and the count do not."""
        summary = NewMessage(role="system", content="in short", kind="summary", covers=(1, 2))
        derived = NewMessage(role="user", content="derived", kind="derived")
        state = new_state((user("a"), assistant("b"), summary, derived))
        session = store.save(state, ZERO)
        assert session.message_count == 2
        assert contents(store, state.id) == ["a", "b"]
        assert [one.content for one in store.last_messages(state.id, 5)] == ["a", "b"]
        everything = store.messages(state.id, view="all").items
        assert [one.kind for one in everything] == ["original", "original", "summary", "derived"]
        assert everything[2].covers == (1, 2)
        assert [one.content for one in store.load(state.id).messages] == ["a", "b"]
        assert store.save(store.load(state.id), ZERO).message_count == 2

    def test_the_messages_of_failed_runs_are_loaded_too(self, store: SessionStore) -> None:
        """An original is an original, however its run ended."""
        session_id = store.create_session().id
        run = begin(store, session_id, "asked in vain")
        store.fail_run(run.id, "cancelled", usage=run.usage)
        assert [one.content for one in store.load(session_id).messages] == ["asked in vain"]

    def test_25001_messages_come_back_as_25001(self, store: SessionStore) -> None:
        """No cap hides anywhere: saving, loading, reading, exporting."""
        state = new_state(tuple(user(str(number)) for number in range(LONG_COUNT)))
        assert store.save(state, ZERO).message_count == LONG_COUNT
        expected = [str(number) for number in range(LONG_COUNT)]
        assert [one.content for one in store.load(state.id).messages] == expected
        assert len(store.messages(state.id).items) == LONG_COUNT
        assert sum(1 for _ in store.export_messages(state.id)) == LONG_COUNT
