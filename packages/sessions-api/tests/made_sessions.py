"""Sessions that hypothesis makes: whatever a store can hold, made by the store's own methods."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from state_store import (
    NewMessage,
    NewSession,
    SessionState,
    SqliteStore,
    StateStoreError,
    ToolCall,
    Usage,
    new_id,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_LETTERS = st.characters(codec="utf-8")
TEXTS = st.one_of(
    st.text(_LETTERS, max_size=12),
    st.sampled_from(("", "\x00", "\u2028\u2029\x85", "\r\n", "😀", '"}\n{"', "\\u0000", " ", "{}")),
)
MAYBE = st.none() | TEXTS
NUMBERS = (
    st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from((1.10, -0.0, 1e308, 5e-324, 2**53 + 1))
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=3)
# Text that has to come back byte for byte: number formats, double names, spaces.
EXACT = st.sampled_from(
    (
        '{"b":1,"a":[{"signature":"S1"}]}',
        '{ "a" : 1.0e2, "é" : "\\u00e9", "a" : 1e400 }',
        "[1.10, 123456789012345678901234567890]",
        '"text"',
        "not JSON at all",
        "",
    )
)
EXTRA = st.sampled_from(
    (
        '{"refusal":null}',
        '{"n":1.10,"n":1e400,"é":"\\u00e9"}',
        '{ "spaced" : 1 }',
        "{}",
        '{"seq":1,"type":"x","kind":"y"}',
        '{"annotations":[{"a":[1.0,1]}],"audio":{"id":""}}',
    )
)
_FIRST = datetime(1970, 1, 2, tzinfo=UTC)
TIMES = st.integers(0, 4 * 10**15).map(lambda us: _FIRST + timedelta(microseconds=us))
CALLS = st.lists(
    st.builds(ToolCall, id=st.sampled_from(("", "c1", "c2")), name=TEXTS, arguments=EXACT | TEXTS),
    min_size=1,
    max_size=3,
).map(tuple)
ROLES = st.sampled_from(("system", "developer", "user", "assistant", "tool", "oracle", "")) | TEXTS
SAVED = st.builds(
    NewMessage,
    role=ROLES,
    content=MAYBE,
    reasoning_content=MAYBE,
    tool_calls=st.none() | CALLS | st.just(()),
    tool_call_id=MAYBE,
    name=MAYBE,
    parts=st.none() | st.lists(OBJECTS, max_size=2).map(tuple),
    provider_data=st.none() | EXACT,
    created_at=st.none() | TIMES,
    extra=st.none() | EXTRA,
)
SETTINGS = st.builds(
    NewSession,
    title=MAYBE,
    title_source=st.sampled_from(("auto", "user")),
    provider=MAYBE,
    endpoint=MAYBE,
    model_id=MAYBE,
    model_config=OBJECTS,
    system_prompt=MAYBE,
    parameters=OBJECTS,
    show_reasoning=st.booleans(),
    metadata=OBJECTS,
)
COUNTS = st.none() | st.integers(0, 2**40 - 1)
USAGES = st.builds(
    Usage,
    input_tokens=COUNTS,
    output_tokens=COUNTS,
    cached_input_tokens=COUNTS,
    reasoning_tokens=COUNTS,
)
COSTS = st.none() | st.floats(0, 1e6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A run: its tools, and in which order they end; `error_type` None for a completed one."""

    question: NewMessage
    calls: tuple[ToolCall, ...]
    answers: tuple[str, ...]
    order: Callable[[list[int]], None]
    left_count: int
    error_type: str | None
    usage: Usage
    cost: float | None


TURNS = st.builds(
    Turn,
    question=SAVED.map(lambda one: NewMessage(role="user", content=one.content, parts=one.parts)),
    calls=st.just(()) | CALLS,
    answers=st.tuples(TEXTS, TEXTS, TEXTS),
    order=st.randoms(use_true_random=False).map(lambda random: random.shuffle),
    left_count=st.integers(0, 2),
    error_type=st.none() | st.sampled_from(("provider.timeout", "interrupted", "weird é")),
    usage=USAGES,
    cost=COSTS,
)
STEPS = st.lists(
    TURNS | st.sampled_from(("undo", "redo", "summary", "archive", "close", "fork")), max_size=5
)
PLANS = st.tuples(SETTINGS, st.lists(SAVED, max_size=4).map(tuple), STEPS)


def make(store: SqliteStore, plan: tuple[NewSession, tuple[NewMessage, ...], list[Any]]) -> None:
    """Make the session of *plan* in *store*, and its forks."""
    given, saved, steps = plan
    session_id = new_id()
    store.save(SessionState(id=session_id, settings=given, messages=saved), timedelta(seconds=3))
    for step in steps:
        if isinstance(step, Turn):
            _take(store, session_id, step)
            continue
        with contextlib.suppress(StateStoreError, ValueError):  # there may be nothing to undo
            if step == "undo":
                store.undo(session_id)
            elif step == "redo":
                store.redo(session_id)
            elif step == "summary":
                last = store.snapshot(session_id).last_seq
                store.summarize(session_id, "in short", through=last)
            elif step == "archive":
                store.archive_session(session_id, archived=True)
            elif step == "close":
                store.close_session(session_id, spent=timedelta(milliseconds=5))
            else:
                store.fork_session(session_id, title="a fork")


def _take(store: SqliteStore, session_id: str, turn: Turn) -> None:
    run, _ = store.begin_run(session_id, turn.question, run_id=new_id(), provider="p", model="m")
    if turn.calls:
        asked = NewMessage(role="assistant", tool_calls=turn.calls, provider_data="{ }")
        seq = store.start_tools(run.id, asked, ["unsafe"] * len(turn.calls)).seq
        order = list(range(len(turn.calls)))
        turn.order(order)
        for index in order[turn.left_count if turn.error_type else 0 :]:
            store.finish_tool(
                run.id,
                call_seq=seq,
                call_index=index,
                outcome="ok",
                message=NewMessage(
                    role="tool",
                    content=turn.answers[index],
                    tool_call_id=turn.calls[index].id,
                    name=turn.calls[index].name,
                ),
            )
    if turn.error_type is None:
        answer = NewMessage(role="assistant", content="answer", extra='{"refusal":null}')
        store.complete_run(run.id, answer, usage=turn.usage, cost=turn.cost)
    else:
        store.fail_run(run.id, turn.error_type, usage=turn.usage, cost=turn.cost)
