"""Any history a store can hold becomes a request that each service takes, the same every time."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import replace
from itertools import chain
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from chat_rules import openai_chat_problems
from generated_histories import MODEL, History
from messages_rules import anthropic_problems
from responses_rules import openai_responses_problems
from run_invariants import check_pairing
from run_scale import LONG_TIMEOUT_S, REPLAYED_HISTORIES, SEED, tell
from sessions_api import Message, ModelMessage, ModelRequest
from sessions_api.providers import anthropic_request, openai_request, responses_request
from sessions_api.runs.exchanges import Past, past_of, selected
from sessions_api.runs.replay import MISSING_RESULT, answers_of, context, paired, replay

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from state_store import Snapshot, SqliteStore

WIRES: dict[str, tuple[Callable[[ModelRequest], dict[str, Any]], Callable[[Any], list[str]]]] = {
    "chat": (openai_request.request_body, openai_chat_problems),
    "responses": (responses_request.request_body, openai_responses_problems),
    "messages": (anthropic_request.request_body, anthropic_problems),
}


def rows_of(store: SqliteStore, session_id: str) -> tuple[tuple[Message, ...], Snapshot]:
    """Return what is stored."""
    return store.messages(session_id, view="all").items, store.snapshot(session_id)


def check_bodies(messages: Sequence[ModelMessage]) -> None:
    """Check that each service takes *messages* and a question, and that they are written once."""
    asked = (*messages, ModelMessage(role="user", content="and now?"))
    request = ModelRequest(model=MODEL, system_prompt="s", messages=asked)
    for wire, (write, problems_of) in WIRES.items():
        body = write(request)
        assert problems_of(body) == [], wire
        assert write(request) == body


def check_each_original_once(messages: Sequence[Message], then: Snapshot) -> int:
    """Check that a live original is sent, or is in the range of one summary that is; never both.

    Returns how many summaries are sent.
    """
    runs = {run.id: run for run in then.runs}
    live = [
        one
        for one in messages
        if one.kind == "original"
        and one.undone_at is None
        and (
            one.run_id is None
            or (runs[one.run_id].status == "completed" and runs[one.run_id].undone_at is None)
        )
    ]
    sent = context(messages, then.runs, then.executions)
    assert len({one.seq for one in sent}) == len(sent)
    summaries = [one for one in sent if one.kind != "original"]
    itself = {one.seq for one in sent if one.kind == "original"}
    assert itself <= {one.seq for one in live}
    covered = Counter[int]()
    for original in live:
        covering = [
            one.seq
            for one in summaries
            if one.covers is not None and one.covers[0] <= original.seq <= one.covers[1]
        ]
        assert (original.seq in itself) + len(covering) == 1
        covered.update(covering)
    assert set(covered) == {one.seq for one in summaries}
    return len(summaries)


def check_made_up(messages: Sequence[Message], then: Snapshot, sent: Sequence[ModelMessage]) -> int:
    """Check that as many results are made up as calls have none, and each says that it is."""
    whole = context(messages, then.runs, then.executions)
    call_count = sum(len(one.tool_calls or ()) for one in whole if one.role != "tool")
    missing_count = call_count - len(answers_of(whole))
    made_up = [one for one in sent if one.role == "tool" and one.content == MISSING_RESULT]
    assert len(made_up) == missing_count
    assert len([one for one in sent if one.role == "tool"]) == call_count
    return missing_count


def check_own_results(messages: Sequence[Message], then: Snapshot) -> None:
    """Check that each call of a run is answered by the result that its row names, and no other."""
    whole = context(messages, then.runs, then.executions)
    answers = answers_of(whole)
    named = {(one.call_seq, one.call_index): one.result_seq for one in then.executions}
    for position, message in enumerate(whole):
        for index in range(len(message.tool_calls or ())):
            if message.role != "tool" and message.run_id is not None:
                assert whole[answers[position, index]].seq == named[message.seq, index]


def check_selection(past: Past, chance: Random) -> None:
    """Check that the last exchanges, and any others, are a legal conversation."""
    newest = selected(lambda exchanges: exchanges[-chance.randint(1, 4) :], past.exchanges)
    some = selected(
        lambda exchanges: [one for one in exchanges if chance.random() < 0.5], past.exchanges
    )
    for chosen in (newest, some):
        messages = Past.of(chosen).messages
        check_pairing(messages)
        assert paired(messages) == messages
        check_bodies(messages)


@pytest.mark.timeout(LONG_TIMEOUT_S)
def test_any_history_is_sent_as_each_service_wants_it() -> None:
    """Deterministic, idempotent, with nothing stored changed; selections of it too."""
    counted = Counter[str]()
    for number in range(REPLAYED_HISTORIES):
        chance = Random(f"{SEED} {number}")
        history = History(chance)
        with closing(history.store) as store:
            history.grow()
            messages, then = rows_of(store, history.session_id)
            sent = replay(messages, then.runs, then.executions)
            try:
                check_pairing(sent)
                assert paired(sent) == sent
                assert replay(messages, then.runs, then.executions) == sent
                summary_count = check_each_original_once(messages, then)
                missing_count = check_made_up(messages, then, sent)
                check_own_results(messages, then)
                past = past_of(context(messages, then.runs, then.executions))
                assert past.messages == sent
                assert tuple(chain.from_iterable(one.messages for one in past.exchanges)) == sent
                check_bodies(sent)
                if past.exchanges:
                    check_selection(past, chance)
                assert rows_of(store, history.session_id) == (messages, then)
                found = store.check_session(history.session_id)
                assert {one.kind for one in found} <= {"value"}  # of foreign data, no JSON
            except AssertionError as error:
                error.add_note(f"seed {SEED}, history {number}")
                raise
            counted.update(
                histories=1,
                messages=len(messages),
                sent=len(sent),
                summaries=summary_count,
                made_up=missing_count,
                several_summaries=summary_count > 1,
            )
    assert min(counted["made_up"], counted["summaries"], counted["several_summaries"]) > 0
    tell(f"{dict(counted)}")


def test_a_replayed_history_does_not_depend_on_other_objects() -> None:
    """Rows that are equal and not the same, read from another store, give an equal request."""
    for number in range(20):
        sent = []
        for _ in range(2):
            history = History(Random(f"{SEED} twice {number}"))
            with closing(history.store) as store:
                history.grow()
                messages, then = rows_of(store, history.session_id)
                again = [replace(one) for one in messages]
                sent.append(replay(again, then.runs, then.executions))
        assert sent[0] == sent[1], f"seed {SEED}, history {number}"
