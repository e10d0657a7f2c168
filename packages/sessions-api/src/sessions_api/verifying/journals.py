"""A session's journal against its runs.

Owns the comparison of what was committed with what was told: that each run has its lines, its last
one at the place its row names, and that both say the same of usage, errors, tools and how long the
texts were. Invariants: what a crash or Ctrl-C can leave is no error: a line comes after its commit,
so one may be missing that was never written; a run that was copied or imported has no lines here.

A journal holds no content and no digest of it: a text changed to one of the same length, and times,
titles and settings, are changed without a trace here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import run_journal
from run_journal import EventName, ExpectedRun, FindingKind, Head, name_of
from sessions_api.verifying.report import Finding, of_journal
from sessions_api.verifying.told import ToldRun, told_runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from state_store import Message, Run, Snapshot, ToolExecution

# The owner of runs that came by an import: nobody has told of them here.
_NOBODY = "00000000-0000-0000-0000-000000000000"
_DATABASE_COUNTS = "The database is the truth: tinyagent sessions show has the run as it is stored."
_TAMPERED = f"One of the two was changed. Keep a copy of both. {_DATABASE_COUNTS}"
_CRASHED = f"A process that was killed in between leaves this. {_DATABASE_COUNTS}"
_TOKENS = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens")


def journal_findings(
    path: Path, then: Snapshot, messages: Sequence[Message], *, restored_at: str | None
) -> Iterator[Finding]:
    """Yield what is wrong with the journal at *path*, alone and against the session *then*.

    *restored_at* is when a backup last took the place of the database, None if never.
    """
    expected = [run for run in then.runs if run.copied_from is None and run.owner != _NOBODY]
    if not path.exists():
        if any(_has_lines(run) for run in expected):
            yield _missing(path, len(expected))
        return
    report = run_journal.verify(
        path,
        expected_runs=[
            ExpectedRun(
                run_id=run.id,
                status=run.status,
                head=None if run.journal_head is None else Head(*run.journal_head),
                lost_count=run.journal_lost_count,
            )
            for run in expected
        ],
    )
    told = told_runs(run_journal.read(path)) if report.line_count else {}
    known = {run.id: run for run in then.runs}
    for found in report.findings:
        explained = _explained(of_journal(found), found.kind, known, told, restored_at)
        if explained is not None:
            yield explained
    said = {message.seq: message for message in messages}
    for run in expected:
        executions = [one for one in then.executions if one.run_id == run.id]
        yield from _run(run, told.get(run.id), executions, said)


def _has_lines(run: Run) -> bool:
    """Say whether a line of *run* was written for certain."""
    return run.journal_head is not None


def _missing(path: Path, run_count: int) -> Finding:
    return Finding(
        severity="error",
        kind="journal_missing",
        object=str(path),
        message=f"the journal is missing; it told of {run_count} runs",
        hint=f"The conversation is not affected. {_DATABASE_COUNTS}",
    )


def _explained(
    finding: Finding,
    kind: FindingKind,
    known: Mapping[str, Run],
    told: Mapping[str, ToldRun],
    restored_at: str | None,
) -> Finding | None:
    """Return *finding* with what the database knows about it, None if it is none then."""
    run = known.get(finding.object)
    named = replace(finding, object=f"run {finding.object}") if finding.object in told else finding
    if kind is FindingKind.RUN_UNKNOWN:
        if run is not None:
            return None  # it came by an import, and is told of here from before
        last = told[finding.object].last_ts if finding.object in told else ""
        if restored_at is not None and last < restored_at:
            return replace(
                named,
                severity="warning",
                message="the journal tells of this run, the database is older: it was restored from"
                f" a backup at {restored_at}",
                hint="Nothing has to be done. What the run said is in the database that the backup"
                " replaced, which lies beside it.",
            )
        return named
    if run is None:
        return named
    named = replace(named, object=f"run {run.id}")
    if (
        kind is FindingKind.RUN_END_MISSING
        and run.error_type == "interrupted"
        and run.journal_head is None
    ):
        return replace(named, severity="warning", hint=_CRASHED)
    return named


def _run(
    run: Run,
    told: ToldRun | None,
    executions: Sequence[ToolExecution],
    said: Mapping[int, Message],
) -> Iterator[Finding]:
    def found(severity: Any, kind: str, message: str, hint: str = _TAMPERED) -> Finding:
        return Finding(
            severity=severity, kind=kind, object=f"run {run.id}", message=message, hint=hint
        )

    if run.stale:
        yield found(
            "notice",
            "run_left",
            "its process ended before it did, and nobody has noted that yet",
            "Nothing has to be done: the next program that writes here marks it as interrupted.",
        )
    if run.journal_lost_count:
        yield found(
            "notice",
            "lines_lost",
            f"{run.journal_lost_count} of its journal lines could not be written then",
            "The database counted them. If the disk was full or the journal could not be written"
            " to, see whether that is so still: tinyagent path",
        )
    if told is None or run.status == "pending":
        return
    whole = run.status == "completed" and not run.journal_lost_count
    if told.started is None and whole:
        yield found("error", "run_start_missing", "the journal does not tell that it began")
    if told.started is not None and run.journal_head is None and run.error_type != "interrupted":
        yield found("error", "head_missing", "it does not know where its journal stood")
    for name in _differences(run, told, executions, said, whole=whole):
        yield found("error", "run_differs", f"database and journal differ about {name}")
    if (run.undone_at is not None) != bool(told.undone):
        now = "undone" if run.undone_at is not None else "not undone"
        yield found(
            "warning", "undone_differs", f"it is {now}, and the journal tells otherwise", _CRASHED
        )


def _differences(
    run: Run,
    told: ToldRun,
    executions: Sequence[ToolExecution],
    said: Mapping[int, Message],
    *,
    whole: bool,
) -> Iterator[str]:
    """Yield what row and lines say different things of; *whole*: no line of it can be missing."""
    if told.started is not None:
        for name, stored in (("provider", run.provider), ("model", run.model)):
            if stored is not None and told.started.get(name) != name_of(stored):
                yield f"its {name}"
        if (told.started.get("retry_of") or run.retry_of) != run.retry_of:
            yield "what it retries"
        if _other_length(said.get(run.first_seq), told.started.get("message_bytes")):
            yield "the length of its input"
    if told.end is not None:
        event, fields = told.end
        if event != EventName.RUN_RECOVERED:
            if any(fields.get(name) != getattr(run.usage, name) for name in _TOKENS):
                yield "what it used"
            if event == EventName.RUN_FAILED and fields.get("error_type") != run.error_type:
                yield "why it failed"
        elif run.error_type != "interrupted":
            yield "why it failed"
    if whole and told.responded is not None:
        last = max((one.seq for one in said.values() if one.run_id == run.id), default=0)
        if _other_length(said.get(last), told.responded.get("response_bytes")):
            yield "the length of its answer"
    yield from _tools(told, executions, said, whole=whole)


def _tools(
    told: ToldRun,
    executions: Sequence[ToolExecution],
    said: Mapping[int, Message],
    *,
    whole: bool,
) -> Iterator[str]:
    stored = {(one.call_seq, one.call_index): one for one in executions}
    if unknown := told.tools_started.keys() - stored.keys():
        yield f"{len(unknown)} calls that the database does not have"
    for place, one in stored.items():
        began, ended = told.tools_started.get(place), told.tools_finished.get(place)
        call = f"call {place[1] + 1} of message {place[0]}"
        if began is None or ended is None:
            if whole:
                yield call
            continue
        if began.get("tool") != name_of(one.name) or began.get("replay") != one.replay:
            yield f"the tool of {call}"
        if ended.get("outcome") != one.outcome:
            yield f"how {call} ended"
        if one.result_seq is not None and _other_length(
            said.get(one.result_seq), ended.get("result_bytes")
        ):
            yield f"the length of the result of {call}"


def _other_length(message: Message | None, byte_count: Any) -> bool:
    """Say whether *message* is not as long as was told; a repaired text is another one."""
    if message is None or message.repaired or byte_count is None:
        return False
    return bool(len((message.content or "").encode()) != byte_count)
