"""A conversation as people read it: messages in order, each call together with what became of it.

Owns what belongs together in Markdown and HTML alike. Invariant: every stored message is there
exactly once, whatever its role or kind; nothing is there that is not stored. Of messages at most
one exchange of calls is in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from state_store import to_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from state_store import Message, Run, Session, ToolCall, ToolExecution

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEntry:
    """A tool call: what was asked, how it ended, the message with its result if there is one."""

    call: ToolCall
    execution: ToolExecution | None
    result: Message | None

    @property
    def outcome(self) -> str:
        """How it ended, in words."""
        if self.execution is not None:
            return self.execution.outcome or "under way"
        return "no result" if self.result is None else "answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A message with its calls. `begins` is its run where that is another than that before."""

    message: Message
    calls: tuple[CallEntry, ...] = ()
    run: Run | None = None
    begins_run: bool = False


def entries(
    messages: Iterable[Message], runs: Iterable[Run], executions: Iterable[ToolExecution]
) -> Iterator[Entry]:
    """Yield *messages* in order; results that answer a call of the message before stand with it."""
    by_id = {run.id: run for run in runs}
    ended = {(one.call_seq, one.call_index): one for one in executions}
    before: str | None = None
    for message, results in _exchanges(messages):
        answers, left = _answers(message, results, ended)
        calls = tuple(
            CallEntry(
                call=call,
                execution=ended.get((message.seq, index)),
                result=answers.get(index),
            )
            for index, call in enumerate(message.tool_calls or ())
        )
        for number, one in enumerate((message, *left)):
            yield Entry(
                message=one,
                calls=() if number else calls,
                run=by_id.get(one.run_id or ""),
                begins_run=one.run_id is not None and one.run_id != before,
            )
            before = one.run_id


def run_facts(run: Run) -> list[tuple[str, str]]:
    """Return what is known about how a run went: names and words, in order."""
    usage = run.usage
    facts = [
        ("Status", run_status(run)),
        ("Model", " · ".join(one for one in (run.provider, run.model) if one) or UNKNOWN),
        ("Started", to_text(run.started_at)),
        ("Finished", time_of(run.finished_at)),
        ("Input tokens", _number(usage.input_tokens)),
        ("Output tokens", _number(usage.output_tokens)),
        ("Cost", UNKNOWN if run.cost is None else f"{run.cost:.6f} USD"),
    ]
    optional = [
        ("Cached input tokens", usage.cached_input_tokens),
        ("Reasoning tokens", usage.reasoning_tokens),
        ("Retry of", run.retry_of),
        ("Copied from", run.copied_from),
    ]
    return facts + [(name, str(value)) for name, value in optional if value is not None]


def run_status(run: Run) -> str:
    """Return how a run ended, in words."""
    status = run.status if run.error_type is None else f"{run.status}: {run.error_type}"
    if run.stale:
        status = "failed: interrupted"
    return status if run.undone_at is None else f"{status}, undone"


def session_facts(session: Session) -> list[tuple[str, str]]:
    """Return what is known about a session: names and words, in order."""
    facts: list[tuple[str, Any]] = [
        ("Session", session.id),
        ("Model", " · ".join(one for one in (session.provider, session.model_id) if one) or None),
        ("Endpoint", session.endpoint),
        ("Status", session.status),
        ("Created", to_text(session.created_at)),
        ("Last active", to_text(session.updated_at)),
        ("Archived", session.archived_at and to_text(session.archived_at)),
        ("Forked from", session.forked_from and " at ".join(map(str, session.forked_from))),
        ("Messages", session.message_count),
        ("Tokens", f"{session.total_tokens}{'' if session.usage_complete else ' or more'}"),
        ("Cost", None if session.cost is None else f"{session.cost:.6f} USD"),
        ("Inherited tokens", session.inherited_tokens or None),
    ]
    return [(name, str(value)) for name, value in facts if value is not None]


def message_marks(message: Message) -> list[str]:
    """Return what a reader has to know about a message beside what it says."""
    marks = []
    if message.kind != "original":
        covered = "" if message.covers is None else f" of {message.covers[0]}-{message.covers[1]}"
        marks.append(f"{message.kind}{covered}, not said by anybody")
    if message.undone_at is not None:
        marks.append("undone")
    if message.repaired:
        marks.append("repaired: it was not valid Unicode")
    return marks


def part_texts(message: Message) -> Iterator[tuple[str, str | None]]:
    """Yield kind and text of each part of a message that does not stand in its content."""
    for part in message.parts or ():
        kind, text = str(part.get("type", "part")), part.get("text")
        if isinstance(text, str):
            if message.content is None or text not in message.content:
                yield kind, text
        else:
            yield kind, None


def time_of(instant: datetime | None) -> str:
    """Return a time in words."""
    return UNKNOWN if instant is None else to_text(instant)


def _exchanges(messages: Iterable[Message]) -> Iterator[tuple[Message, list[Message]]]:
    """Yield each message with the results that follow it at once, if it asked for any."""
    asking: Message | None = None
    results: list[Message] = []
    for message in messages:
        if message.role == "tool" and asking is not None:
            results.append(message)
            continue
        if asking is not None:
            yield asking, results
        asking, results = (message, []) if message.tool_calls else (None, [])
        if asking is None:
            yield message, []
    if asking is not None:
        yield asking, results


def _answers(
    message: Message, results: list[Message], ended: Mapping[tuple[int, int], ToolExecution]
) -> tuple[dict[int, Message], list[Message]]:
    """Return which result answers which call of *message*, and those that answer none."""
    answers: dict[int, Message] = {}
    left = list(results)
    by_seq = {one.seq: one for one in results}
    calls = message.tool_calls or ()
    for index in range(len(calls)):
        execution = ended.get((message.seq, index))
        found = by_seq.get(execution.result_seq or 0) if execution is not None else None
        if found is not None and found in left:
            answers[index] = found
            left.remove(found)
    for index, call in enumerate(calls):
        if index not in answers and (message.seq, index) not in ended:
            fitting = next((one for one in left if one.tool_call_id == call.id), None)
            if fitting is not None:
                answers[index] = fitting
                left.remove(fitting)
    return answers, left


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"
