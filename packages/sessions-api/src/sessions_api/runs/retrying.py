"""Which run may be tried again, and with what.

Owns the refusals of `retry`: only a failed run is tried again, and a tool that is unsafe to run
twice is not run twice unless the caller says so. All tries at one input count together: what an
earlier one has done is done, whichever of them is retried. Invariant: the input goes in again
exactly as it is stored; a note for the model is added to it, visibly, only when the caller gave
one.

Must not: begin the run (whoever does asks `require_safe` again: until then another process may try
the same), or change anything but a dead owner's pending run, which it recovers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sessions_api.errors import RetryRefused, UnsafeRetry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessions_api.state import WorkspaceState
    from state_store import Message, Run, SqliteStore, ToolExecution

Parts = tuple["Mapping[str, Any]", ...]
_WHY = {
    "completed": (
        "it is completed",
        "Only a failed run can; to ask again, send the message again.",
    ),
    "pending": ("it is under way", "Wait for its end, or stop it where it runs."),
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """A failed run and its input."""

    run: Run
    message: Message

    def input_with(self, note: str | None) -> tuple[str, Parts | None]:
        """Return the input's text and parts, and *note* at the end of both."""
        text, parts = self.message.content or "", self.message.parts
        if note is None:
            return text, parts
        if parts:
            said = any(part.get("type") == "text" for part in parts)
            kept = [{"type": "text", "text": text}] if text and not said else []
            parts = (*kept, *parts, {"type": "text", "text": note})
        return f"{text}\n\n{note}" if text else note, parts


def attempt_at(state: WorkspaceState, run_id: str, *, allow_unsafe: bool) -> Attempt:
    """Return the run that is to be tried again.

    RunNotFound when there is none, RetryRefused when it has not failed, UnsafeRetry when an unsafe
    tool had started in it or in another try at the same input, unless *allow_unsafe*.
    """
    store = state.store
    run = store.get_run(run_id)
    if run.stale:
        store.recover()
        state.tell_recovered()
        run = store.get_run(run_id)
    if run.status != "failed":
        why, hint = _WHY[run.status]
        raise RetryRefused(
            run_id=run.id, session_id=run.session_id, status=run.status, why=why, hint=hint
        )
    if not allow_unsafe:
        require_safe(store, run)
    return Attempt(run, _input_of(store, run))


def require_safe(store: SqliteStore, run: Run) -> None:
    """Raise UnsafeRetry if an unsafe tool had started in *run* or in another try at its input."""
    if started := _unsafe_tools(store, run):
        raise UnsafeRetry(
            run_id=run.id, session_id=run.session_id, status=run.status, executions=started
        )


def _unsafe_tools(store: SqliteStore, run: Run) -> tuple[ToolExecution, ...]:
    """Return the unsafe tools that started in any try at the input of *run*.

    Those that were cancelled too: a coroutine that was stopped half-way has done the first half.
    """
    runs = {one.id: one for one in store.runs(run.session_id).items}

    def first_try(one: Run) -> str:
        while one.retry_of is not None and one.retry_of in runs:
            one = runs[one.retry_of]
        return one.id

    tries = {one.id for one in runs.values() if first_try(one) == first_try(run)}
    executions = store.tool_executions(run.session_id)
    return tuple(one for one in executions if one.run_id in tries and one.replay == "unsafe")


def _input_of(store: SqliteStore, run: Run) -> Message:
    for message in store.messages(run.session_id, view="all").items:
        if message.run_id == run.id and message.role == "user":
            return message
    raise RetryRefused(
        run_id=run.id,
        session_id=run.session_id,
        status=run.status,
        why="its message is not in the database any more",
        hint="Send the message again.",
    )
