"""What is true of every run, checked from rows alone, whatever was done to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from generated_runs import ASYNC_KINDS, EXPECTED, Course
from sessions_api import RunFailed, RunFinished, RunResult, ToolFinished, ToolStarted
from sessions_api.runs.replay import replay
from state_store import StateStoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessions_api import Message, ModelMessage, Run, ToolExecution
    from state_store import SqliteStore

LEAVING = {"cancel", "leave", "strike"}  # an asynchronous tool is then cancelled, and awaited


def check_pairing(messages: Sequence[ModelMessage]) -> None:
    """Check that every call is followed at once by its one result, in call order."""
    due: list[str] = []
    for message in messages:
        if message.role == "tool":
            assert due, "a result without a call"
            assert (message.tool_call_id or "") == due.pop(0)
            continue
        assert not due, "a call without a result"
        due = [call.id for call in message.tool_calls or ()]
    assert not due


def check_session(store: SqliteStore, session_id: str) -> None:
    """Check the session as a whole: its counts, its status, its replay, nothing left open."""
    session = store.get_session(session_id)
    messages = store.messages(session_id, view="all").items
    runs = store.runs(session_id).items
    executions = store.tool_executions(session_id)
    assert not store._database._connection.in_transaction
    assert {run.status for run in runs} <= {"completed", "failed"}
    assert None not in {one.outcome for one in executions}
    assert [message.seq for message in messages] == list(range(1, len(messages) + 1))
    assert session.message_count == len(messages)
    usages = [(run.usage.input_tokens or 0) + (run.usage.output_tokens or 0) for run in runs]
    assert session.total_tokens == sum(usages)
    ended = {"completed": {"idle", "closed"}, "failed": {"failed"}}
    assert session.status in ended[runs[-1].status]
    replayed = replay(messages, runs, executions)
    check_pairing(replayed)
    answered = {run.id for run in runs if run.status == "completed"}
    assert len(replayed) == sum(message.run_id in answered for message in messages)


def check_run(
    course: Course,
    run: Run | None,
    messages: Sequence[Message],
    executions: Sequence[ToolExecution],
    seen: tuple[Sequence[Any], Any],
    *,
    struck: bool,
) -> None:
    """Check one run's rows against its course, and against what its caller was told and got."""
    told, outcome = seen
    if run is None:
        assert not messages
        assert not told
        assert struck or course.fault in {"cancel", "leave"}
        return
    _check_messages(course, run, messages)
    _check_executions(course, run, messages, executions)
    _check_ending(course, run, struck=struck)
    contents = [message.content for message in messages if message.role == "tool"]
    for event in told:
        if isinstance(event, ToolFinished):
            assert event.content in contents
        if isinstance(event, ToolStarted):
            assert (event.index, event.call.name) in {
                (one.call_index, one.name) for one in executions
            }
        if isinstance(event, RunFinished):
            assert run.status == "completed"
    if isinstance(outcome, RunResult):
        assert (run.id, run.status) == (outcome.run_id, "completed")
        assert outcome.messages == tuple(messages)
    if isinstance(outcome, RunFailed):
        assert run.status == "failed", run
        assert outcome.saved == "input" or outcome.error_type == run.error_type
    assert not isinstance(outcome, StateStoreError), "an error of the store means: nothing stored"


def _check_messages(course: Course, run: Run, messages: Sequence[Message]) -> None:
    """Check that the rows are a beginning of what was to happen, whole if and only if completed."""
    rest = list(messages)
    first = rest.pop(0)
    assert (first.role, first.content, first.seq) == ("user", course.text, run.first_seq)
    for number, kinds in enumerate(course.rounds):
        if not rest:
            assert run.status == "failed", run
            return
        asking = rest.pop(0)
        assert (asking.role, asking.tool_calls) == ("assistant", course.calls(number))
        results = rest[: len(kinds)]
        del rest[: len(kinds)]
        assert {message.role for message in results} <= {"tool"}
        if len(results) < len(kinds):
            assert not rest
            assert run.status == "failed", run
            return
    assert [message.content for message in rest] == ["answer"] * (run.status == "completed")


def _check_executions(
    course: Course, run: Run, messages: Sequence[Message], executions: Sequence[ToolExecution]
) -> None:
    """Check that each call of a stored message has its row, and what is told of how it ended."""
    asking = [message.seq for message in messages if message.tool_calls]
    places = [
        (seq, index, number, kind)
        for number, seq in enumerate(asking)
        for index, kind in enumerate(course.rounds[number])
    ]
    assert [(one.call_seq, one.call_index) for one in executions] == [one[:2] for one in places]
    results = {message.seq: message for message in messages if message.role == "tool"}
    assert {one.result_seq for one in executions} - {None} == set(results)
    for one, (_, index, number, kind) in zip(executions, places, strict=True):
        assert one.finished_at is not None
        if one.result_seq is not None:
            assert one.outcome == EXPECTED[kind]
            continue
        assert run.status == "failed", run
        began = (number, index) in course.began
        possible = {EXPECTED[kind]}
        if not began or kind in ASYNC_KINDS:
            possible.add("cancelled")
        twice = course.second is not None  # then nobody waits for it
        if not began or kind not in ASYNC_KINDS or course.fault not in LEAVING or twice:
            possible.add("unknown")
        assert one.outcome in possible


def _check_ending(course: Course, run: Run, *, struck: bool) -> None:
    """Check that the error type is that of the course or of its fault, and of nothing else."""
    allowed = {course.outcome}
    if course.fault in {"cancel", "leave", "strike", "close", "ctrl-c in sqlite"}:
        allowed.add("cancelled")
    elif struck:
        allowed.add(course.sqlite_error)
    assert run.error_type in allowed
    if course.fault in {"strike", "close"}:
        assert run.error_type == "cancelled"
    assert (run.status == "completed") is (run.error_type is None)
