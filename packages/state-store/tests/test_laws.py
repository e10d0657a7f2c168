from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from state_store import (
    CursorInvalid,
    NewMessage,
    NewSession,
    RunNotPending,
    SessionBusy,
    SessionState,
    SessionWasDeleted,
    SqliteStore,
    ToolCall,
    Usage,
    new_id,
)
from state_store.cursor import decode_cursor, encode_cursor
from state_store.testing.turns import USAGE, assistant, user
from state_store.text import repair_text

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKSPACE_ID = "11111111-2222-4333-8444-555555555555"
# Any text that Python can hold, lone surrogates among it.
any_text = st.text(st.characters(), max_size=30)
valid_text = st.text(st.characters(codec="utf-8"), max_size=30)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | valid_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(valid_text, inner, max_size=3),
    max_leaves=6,
)
calls = st.builds(ToolCall, id=valid_text, name=valid_text, arguments=valid_text)
messages = st.builds(
    NewMessage,
    role=st.sampled_from(["system", "user", "assistant", "tool", "other"]),
    content=st.none() | valid_text,
    reasoning_content=st.none() | valid_text,
    tool_calls=st.none() | st.lists(calls, max_size=3).map(tuple),
    tool_call_id=st.none() | valid_text,
    name=st.none() | valid_text,
    parts=st.none()
    | st.lists(st.dictionaries(valid_text, json_values, max_size=3), max_size=3).map(tuple),
    provider_data=st.none() | valid_text,
    created_at=st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - the zone is beside them
)


@pytest.fixture(scope="module")
def store() -> Iterator[SqliteStore]:
    """Return one store for all examples; each takes a session of its own."""
    with closing(SqliteStore.in_memory(workspace_id=WORKSPACE_ID)) as opened:
        yield opened


@given(st.lists(messages, max_size=8))
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_loading_gives_back_what_was_saved(store: SqliteStore, history: list[NewMessage]) -> None:
    """Load ∘ save is the identity on valid text."""
    state = SessionState(id=new_id(), messages=tuple(history))
    store.save(state, timedelta(0))
    assert store.load(state.id).messages == state.messages
    for line in store.export_messages(state.id):
        assert json.loads(line)


@given(st.lists(messages, max_size=6), st.integers(1, 8))
@settings(deadline=None, max_examples=40)
def test_pages_concatenate_to_the_whole(
    store: SqliteStore, history: list[NewMessage], limit: int
) -> None:
    """Whatever the size of a page."""
    state = SessionState(id=new_id(), messages=tuple(history))
    store.save(state, timedelta(0))
    paged: list[Any] = []
    cursor = None
    while True:
        page = store.messages(state.id, limit=limit, cursor=cursor)
        paged += page.items
        if (cursor := page.next_cursor) is None:
            break
    assert tuple(paged) == store.messages(state.id).items


@given(any_text)
def test_repairing_is_idempotent_and_leaves_valid_text_alone(text: str) -> None:
    """What comes out can be encoded; what could be encoded comes out as the same object."""
    repaired = repair_text(text)
    repaired.encode()
    assert repair_text(repaired) is repaired
    try:
        text.encode()
    except UnicodeEncodeError:
        assert "\ufffd" in repaired or len(repaired) < len(text)
    else:
        assert repaired is text


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda raw: raw.decode("latin-1")))
def test_no_text_makes_a_cursor_crash(text: str) -> None:
    """It is a cursor, or it is refused."""
    try:
        decode_cursor("sessions", text, (str, str))
    except CursorInvalid:
        return
    raise AssertionError(f"{text!r} was taken for a cursor")


@given(valid_text, valid_text, st.integers(0, 2**63 - 1))
def test_a_cursor_carries_its_key(listing: str, key: str, number: int) -> None:
    """And is refused by any other listing or shape."""
    cursor = encode_cursor(listing, (key, number))
    assert decode_cursor(listing, cursor, (str, int)) == (key, number)
    for other, shape in ((f"{listing}x", (str, int)), (listing, (int, str)), (listing, (str,))):
        with pytest.raises(CursorInvalid):
            decode_cursor(other, cursor, shape)


class StoreAgainstDict(RuleBasedStateMachine):
    """Any order of steps leaves the store as a dict of lists says."""

    sessions: Bundle[str] = Bundle("sessions")

    def __init__(self) -> None:
        super().__init__()
        self.store = SqliteStore.in_memory(workspace_id=WORKSPACE_ID)
        self.contents: dict[str, list[str | None]] = {}
        self.tokens: dict[str, int] = {}
        self.pending: dict[str, str] = {}
        self.deleted: set[str] = set()

    def teardown(self) -> None:
        """Close the store of the example."""
        self.store.close()

    @initialize(target=sessions)
    def first_session(self) -> str:
        """Begin with one session."""
        return self.create()

    def create(self) -> str:
        """Create a session in both."""
        session_id = self.store.create_session().id
        self.contents[session_id], self.tokens[session_id] = [], 0
        return session_id

    @rule(target=sessions)
    def another_session(self) -> str:
        """Create one more."""
        return self.create()

    @rule(session_id=sessions, text=valid_text)
    def begin(self, session_id: str, text: str) -> None:
        """Begin a run, or be told that there is one."""
        run_id = new_id()
        if session_id in self.pending:
            with pytest.raises(SessionBusy):
                self.store.begin_run(session_id, user(text), run_id=run_id)
            return
        self.store.begin_run(session_id, user(text), run_id=run_id)
        self.pending[session_id] = run_id
        self.contents[session_id].append(text)

    @rule(session_id=sessions, text=valid_text, count=st.integers(0, 9))
    def complete(self, session_id: str, text: str, count: int) -> None:
        """Complete the run under way."""
        if run_id := self.pending.pop(session_id, None):
            usage = Usage(input_tokens=count, output_tokens=1)
            self.store.complete_run(run_id, assistant(text), usage=usage)
            self.contents[session_id].append(text)
            self.tokens[session_id] += count + 1
            with pytest.raises(RunNotPending):
                self.store.fail_run(run_id, "late", usage=USAGE)

    @rule(session_id=sessions)
    def fail(self, session_id: str) -> None:
        """Fail the run under way."""
        if run_id := self.pending.pop(session_id, None):
            self.store.fail_run(run_id, "provider.error", usage=Usage())

    @rule(session_id=sessions, text=valid_text)
    def save(self, session_id: str, text: str) -> None:
        """Append by saving the whole state."""
        state = self.store.load(session_id)
        longer = SessionState(
            id=session_id, settings=NewSession(), messages=(*state.messages, user(text))
        )
        if session_id in self.pending:
            with pytest.raises(SessionBusy):
                self.store.save(longer, timedelta(0))
            return
        self.store.save(longer, timedelta(0))
        self.contents[session_id].append(text)

    @rule(target=sessions, session_id=consumes(sessions))
    def delete(self, session_id: str) -> Any:
        """Delete a session, unless a run is under way."""
        if session_id in self.pending:
            with pytest.raises(SessionBusy):
                self.store.delete(session_id)
            return session_id
        assert self.store.delete(session_id).message_count == len(self.contents[session_id])
        del self.contents[session_id], self.tokens[session_id]
        self.deleted.add(session_id)
        return multiple()

    @invariant()
    def the_store_says_what_the_dict_says(self) -> None:
        """Contents, counts, totals and who is there."""
        listed = {one.id: one for one in self.store.list(limit=None).items}
        assert listed.keys() == self.contents.keys()
        for session_id, expected in self.contents.items():
            stored = [one.content for one in self.store.messages(session_id).items]
            assert stored == expected
            assert listed[session_id].message_count == len(expected)
            assert listed[session_id].total_tokens == self.tokens[session_id]
            assert (listed[session_id].status == "running") == (session_id in self.pending)
        for session_id in self.deleted:
            with pytest.raises(SessionWasDeleted):
                self.store.get_session(session_id)


TestStoreAgainstDict = StoreAgainstDict.TestCase
TestStoreAgainstDict.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, print_blob=True
)
