"""`tinyagent sessions show`: what a session holds, how its runs ended and what they used."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from sessions_api.cli.completion.candidates import complete_sessions
from sessions_api.cli.opened import reading
from sessions_api.cli.options import JSON, PLACE, Call, command
from sessions_api.showing import figures
from sessions_api.showing.aftermath import aftermath
from sessions_api.showing.listing import handle, run_lines
from sessions_api.showing.liveness import shown_run, shown_session
from sessions_api.showing.terminal_text import Ink, one_line
from sessions_api.showing.transcript import transcript
from sessions_api.showing.usage import usage_facts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from state_store import Run, Session, Totals

Ref = Annotated[
    str,
    typer.Argument(
        metavar="REF",
        help="latest, id, last digits or exact title.",
        autocompletion=complete_sessions,
    ),
]


class View(StrEnum):
    """Which messages `show` shows."""

    ORIGINAL = "original"
    CONTEXT = "context"
    ALL = "all"


ViewOption = Annotated[
    View,
    typer.Option(
        "--view",
        help="original: every message that was written; context: what would be sent now; "
        "all: summaries and undone runs too.",
    ),
]


def add_to(sessions: typer.Typer) -> None:
    """Add `show` to `tinyagent sessions`."""
    command(sessions, "show", PLACE, JSON)(show_session)


def show_session(call: Call, ref: Ref, *, view: ViewOption = View.ORIGINAL) -> None:
    """Show a session: its messages, its runs and what they used."""
    with reading(call) as opened:
        session = opened.sessions.get(ref)
        shown = shown_session(session, opened.sessions)
        messages = opened.sessions.messages(session.id, view=view.value).items
        runs = [shown_run(run) for run in opened.sessions.runs(session.id).items]
        executions = opened.sessions.tool_executions(session.id)
        totals = opened.sessions.totals(session.id)
        workspace_id = opened.state.workspace_id
    out = call.out
    if call.json:
        from sessions_api.cli.json_shapes import (  # noqa: PLC0415 - for --json alone
            as_json,
            runs_json,
            session_json,
        )

        out.record(
            {
                "session": session_json(shown, workspace_id=workspace_id),
                "messages": as_json(messages),
                "runs": runs_json(runs, executions),
            }
        )
        return
    then = next_steps(session, runs[-1]) if runs else ()
    screen = aftermath(runs, messages, executions, ink=out.ink, then=then)
    if screen:
        out.lines([*screen, ""])
    out.lines(_summary(shown, runs, totals, ink=out.ink))
    out.lines(transcript(messages, runs, ink=out.ink))
    if runs:
        out.lines(run_lines(runs, ink=out.ink))


def _parent(forked_from: tuple[str, int]) -> str:
    session_id, seq = forked_from
    return f"{handle(session_id)}, through message {seq}"


def next_steps(session: Session, run: Run) -> tuple[tuple[str, str], ...]:
    """Return what can be typed after a run that ended badly."""
    short = handle(session.id)
    return (
        (f"tinyagent --resume {short}", "go on from what was completed"),
        (f"tinyagent runs retry {handle(run.id)}", "try the failed run again"),
        (f"tinyagent logs {short}", "how it went, step by step"),
    )


def _summary(session: Session, runs: Sequence[Run], totals: Totals, *, ink: Ink) -> Iterator[str]:
    lost = sum(run.journal_lost_count for run in runs)
    facts = (
        ("Session", session.id),
        ("Title", one_line(session.title or figures.UNKNOWN)),
        *((("Forked", f"from {_parent(session.forked_from)}"),) if session.forked_from else ()),
        ("Status", session.status + (" (archived)" if session.archived_at else "")),
        ("Model", one_line(f"{session.provider or '?'} / {session.model_id or '?'}")),
        ("Endpoint", one_line(session.endpoint or figures.UNKNOWN)),
        ("Messages", f"{session.message_count} in {figures.count(len(runs), 'run')}"),
        *usage_facts(totals),
        ("Created", figures.at(session.created_at)),
        *((("Journal", f"{figures.count(lost, 'line')} could not be written"),) if lost else ()),
        ("Active", f"{figures.at(session.updated_at)} ({figures.ago(session.updated_at)})"),
    )
    for name, value in facts:
        yield f"{ink.bold(f'{name:<9}')} {value}"
    yield ""
