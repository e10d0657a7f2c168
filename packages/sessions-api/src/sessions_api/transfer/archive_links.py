"""What the lines of a session say about one another.

Owns the references between runs, tool executions and messages. A session that a run protocol can
have made is complete: its messages are 1, 2, 3 …; every run begins with a user's message of its own
and is not interrupted by another one; a completed one ends with an answer; every call and result
that an execution names is there. Invariant: what a salvage of a damaged database can leave behind
is a `loss`, and a store takes it as one; what no store can hold is `Unfit`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions_api.transfer.strict_json import Unfit

if TYPE_CHECKING:
    from collections.abc import Callable

    from state_store import Message, Run, ToolExecution


class Links:
    """References that were made, and those that were found to lead somewhere.

    Give it the runs, then the executions, then the messages, each in order, and `close` it. `loss`
    says what is missing, as soon as anything is; *note* is told so too, the first time.
    """

    def __init__(self, note: Callable[[str], None] = lambda _: None) -> None:
        self._note = note
        self.loss: str | None = None
        self.run_count = self.execution_count = self.message_count = 0
        self._runs: dict[str, Run] = {}
        self._first_seqs: dict[int, str] = {}
        self._calls: dict[int, list[ToolExecution]] = {}
        self._result_seqs: set[int] = set()
        self._last_place = (0, -1)
        self._last_seq = 0
        self._first_seq: int | None = None
        self._begun: set[str] = set()
        self._under_way: str | None = None
        self._last_role: str | None = None

    def run(self, run: Run) -> None:
        """Take in the next run."""
        if run.id in self._runs:
            raise Unfit("a run with this id was there before")
        if run.first_seq <= self._last_seq:
            raise Unfit("first_seq must be greater than that of the run before")
        if (run.status == "failed") != (run.error_type is not None):
            raise Unfit("a run has an error_type if it failed, and only then")
        if (run.status == "pending") != (run.finished_at is None):
            raise Unfit("a run has a finished_at unless it is pending")
        self.run_count += 1
        self._runs[run.id] = run
        self._first_seqs[run.first_seq] = run.id
        self._last_seq = run.first_seq

    def execution(self, execution: ToolExecution) -> None:
        """Take in the next tool execution."""
        place = (execution.call_seq, execution.call_index)
        if execution.run_id not in self._runs:
            raise Unfit("run_id names no run of this session")
        if place <= self._last_place:
            raise Unfit("it is out of order, or there twice")
        if execution.outcome is not None and execution.finished_at is None:
            raise Unfit("it has an outcome and no finished_at")
        if execution.result_seq is not None:
            if execution.result_seq in self._result_seqs:
                self._lose("result_seq names the result of another call")
            self._result_seqs.add(execution.result_seq)
        self.execution_count += 1
        self._last_place = place
        self._calls.setdefault(execution.call_seq, []).append(execution)

    def message(self, message: Message) -> None:
        """Take in the next message."""
        if self._first_seq is None:
            self._first_seq, self._last_seq = message.seq, 0
        if message.seq <= self._last_seq:
            raise Unfit("seq must be greater than that of the message before")
        if message.seq != self._last_seq + 1:
            self._lose("messages before it are missing")
        self.message_count += 1
        self._last_seq = message.seq
        if message.kind == "original":
            if message.covers is not None:
                raise Unfit("covers belongs to a summary alone")
            self._follow(message)
        else:
            self._require_possible_summary(message)
        if message.seq in self._result_seqs:
            if message.role != "tool":
                self._lose("a tool execution names it as its result, and it is none")
            self._result_seqs.discard(message.seq)
        for execution in self._calls.pop(message.seq, ()):
            if (message.role, message.run_id) != ("assistant", execution.run_id):
                self._lose("a tool execution of another run names its call")
            if execution.call_index >= len(message.tool_calls or ()):
                self._lose("a tool execution names a call that it does not have")

    def close(self) -> None:
        """Make sure that nothing is left open."""
        self._end_run()
        if self._begun != self._runs.keys():
            self._lose("the first message of a run is missing")
        if self._calls or self._result_seqs:
            self._lose("a message that a tool execution names is missing")

    def _follow(self, message: Message) -> None:
        """Follow the runs through the originals."""
        if message.run_id is not None and message.run_id not in self._runs:
            raise Unfit("run_id names no run of this session")
        if message.run_id != self._under_way:
            self._end_run()
            self._under_way = message.run_id
            if message.run_id in self._begun:
                self._lose("messages of another run stand between it and its run")
            if message.run_id is not None:
                if (message.seq, message.role) != (self._runs[message.run_id].first_seq, "user"):
                    self._lose("a run begins with a user's message, which its first_seq names")
                self._begun.add(message.run_id)
        if message.run_id is not None and message.undone_at is not None:
            raise Unfit("undone_at belongs to its run")
        self._last_role = message.role

    def _end_run(self) -> None:
        if self._under_way is None:
            return
        is_answered = self._last_role == "assistant"
        if self._runs[self._under_way].status == "completed" and not is_answered:
            self._lose("a completed run before it ends without an answer")

    def _require_possible_summary(self, message: Message) -> None:
        if message.run_id is not None:
            raise Unfit("a summary belongs to no run")
        if message.covers is not None:
            first, last = message.covers
            if not 0 < first <= last:
                raise Unfit("covers must be a range")
            if first > message.seq or last < (self._first_seq or 0):
                self._lose("covers must be a range of messages before it")

    def _lose(self, what: str) -> None:
        if self.loss is None:
            self.loss = what
            self._note(what)
