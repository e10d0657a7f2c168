"""What a provider is sent, computed from what is committed.

A pure function of the rows of one session: originals of completed runs that are not undone, and
messages without a run, in order; a summary in place of the range that it covers. Invariants: every
tool call is followed at once by exactly one result, in call order; nothing is orphaned; the same
rows give the same answer, and stored messages are never changed. Failed runs are not replayed.

Calls and results are paired by position: a result answers the nearest preceding unanswered call
with its id, because providers reuse ids and leave them empty. A call without a result gets one
that says so; a result without a call, or a second one, is left out (it stays stored and visible).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions_api.providers.base import ModelMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from state_store import Message, Run, ToolCall, ToolExecution

MISSING_RESULT = "Error: this call was interrupted and its result is unknown."


def replay(
    messages: Iterable[Message], runs: Iterable[Run], executions: Iterable[ToolExecution] = ()
) -> tuple[ModelMessage, ...]:
    """Return the request messages of the session that the arguments are all the rows of."""
    return paired(to_model(message) for message in context(messages, runs, executions))


def context(
    messages: Iterable[Message], runs: Iterable[Run], executions: Iterable[ToolExecution] = ()
) -> tuple[Message, ...]:
    """Return the stored messages that a request is made from, in its order."""
    known = {run.id: run for run in runs}
    counted: list[Message] = []
    undone: list[tuple[int, int | None]] = []  # (seq, the session's last seq at that time)
    for message in messages:
        run = None if message.run_id is None else known.get(message.run_id)
        marked = run or message
        if marked.undone_at is not None:
            undone.append((message.seq, marked.undone_after))
        elif message.run_id is None or (run is not None and run.status == "completed"):
            counted.append(message)
    return tuple(_with_summaries(_in_call_order(counted, executions), undone))


def _in_call_order(
    messages: Iterable[Message], executions: Iterable[ToolExecution]
) -> list[Message]:
    """Move results, stored as tools finished, into the order of their calls.

    The rows know which result is whose even where the provider's ids are empty or all the same.
    """
    place = {one.result_seq: (one.call_seq, one.call_index + 1) for one in executions}
    return sorted(messages, key=lambda message: place.get(message.seq, (message.seq, 0)))


def _with_summaries(
    messages: Sequence[Message], undone: Sequence[tuple[int, int | None]]
) -> list[Message]:
    """Put each stand-in where the first of *messages* that it covers was, and leave those out.

    The range may begin with a failed run, which is not among *messages*; one of which nothing is
    left has no stand-in either. Of stand-ins whose ranges overlap the latest one counts. One that
    covers a message of the *undone* counts only if that was undone before it was made: otherwise
    its text has what was taken back. One whose range lies across a call and its result, which a
    store's `summarize` refuses and a saved or imported history may have, does not count either:
    what is left of the pair would be answered by somebody else's result.
    """
    originals = [message for message in messages if message.kind == "original"]
    pairs = [
        (originals[call].seq, originals[result].seq)
        for (call, _), result in answers_of(originals).items()
    ]
    chosen: list[tuple[int, int, Message]] = []
    for message in reversed(messages):
        if message.kind != "original" and message.covers is not None:
            first, last = message.covers
            says_too_much = any(
                first <= seq <= last and (after is None or after >= message.seq)
                for seq, after in undone
            )
            overlaps = any(first <= end and start <= last for start, end, _ in chosen)
            if says_too_much or overlaps or _cuts(pairs, message.seq, first, last):
                continue
            chosen.append((first, last, message))
    kept: list[Message] = []
    placed: set[int] = set()
    for message in originals:
        covering = (one for first, last, one in chosen if first <= message.seq <= last)
        stand_in = next(covering, None)
        if stand_in is None:
            kept.append(message)
        elif stand_in.seq not in placed:
            placed.add(stand_in.seq)
            kept.append(stand_in)
    return kept


def _cuts(pairs: Iterable[tuple[int, int]], made_at: int, first: int, last: int) -> bool:
    """Say whether the range leaves a call or its result, both older than *made_at*, without it."""
    return any(
        result < made_at and (call < first <= result or call <= last < result)
        for call, result in pairs
    )


def to_model(message: Message) -> ModelMessage:
    """Return *message* as a request carries it."""
    return ModelMessage(
        role=message.role,
        content=message.content,
        reasoning_content=message.reasoning_content,
        tool_calls=message.tool_calls or None,
        tool_call_id=message.tool_call_id,
        name=message.name,
        parts=message.parts,
        provider_data=message.provider_data,
    )


def paired(messages: Iterable[ModelMessage]) -> tuple[ModelMessage, ...]:
    """Return *messages* with each assistant's calls answered at once, once, and in call order.

    Idempotent: a legal history comes back as it is.
    """
    kept = list(messages)
    answers = answers_of(kept)
    legal: list[ModelMessage] = []
    for position, message in enumerate(kept):
        if message.role == "tool":
            continue
        legal.append(message)
        for index, call in enumerate(message.tool_calls or ()):
            answer = answers.get((position, index))
            legal.append(missing_result(call) if answer is None else kept[answer])
    return tuple(legal)


def answers_of(messages: Iterable[ModelMessage | Message]) -> dict[tuple[int, int], int]:
    """Return where the result of each call that has one is: (position, index) to position."""
    answers: dict[tuple[int, int], int] = {}
    unanswered: list[tuple[int, int, str]] = []  # (position of the message, index, call id)
    for position, message in enumerate(messages):
        if message.role != "tool":
            for index, call in enumerate(message.tool_calls or ()):
                unanswered.append((position, index, call.id))
        else:
            fitting = [one for one in unanswered if one[2] == (message.tool_call_id or "")]
            if fitting:
                # Of the nearest message the first such call: results come in call order.
                answered = min(fitting, key=lambda one: (-one[0], one[1]))
                unanswered.remove(answered)
                answers[answered[:2]] = position
    return answers


def missing_result(call: ToolCall) -> ModelMessage:
    """Return the result that stands for one that never came."""
    return ModelMessage(
        role="tool", content=MISSING_RESULT, tool_call_id=call.id, name=call.name or None
    )


def is_made_up(message: ModelMessage) -> bool:
    """Say whether *message* is such a result: its text is the mark, for the model and for us."""
    return message.role == "tool" and message.content == MISSING_RESULT
