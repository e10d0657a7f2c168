"""`tinyagent sessions show` and `tinyagent runs`: what a session holds and how its runs ended."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from sessions_api.cli.opened import reading
from sessions_api.cli.options import JSON, PLACE, Call, command
from sessions_api.showing import figures
from sessions_api.showing.aftermath import aftermath
from sessions_api.showing.listing import handle, run_lines
from sessions_api.showing.liveness import shown_run, shown_session
from sessions_api.showing.terminal_text import Ink, one_line
from sessions_api.showing.transcript import transcript

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from state_store import Run, Session

Ref = Annotated[str, typer.Argument(metavar="REF", help="latest, id, last digits or exact title.")]


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


def add_to(app: typer.Typer, *, sessions: typer.Typer) -> None:
    """Add `runs` to the command line and `show` to `tinyagent sessions`."""
    command(sessions, "show", PLACE, JSON)(show_session)
    command(app, "runs", PLACE, JSON)(show_runs)


def show_session(call: Call, ref: Ref, *, view: ViewOption = View.ORIGINAL) -> None:
    """Show a session: its messages, its runs and what they used."""
    with reading(call) as opened:
        session = opened.sessions.get(ref)
        shown = shown_session(session, opened.sessions)
        messages = opened.sessions.messages(session.id, view=view.value).items
        runs = [shown_run(run) for run in opened.sessions.runs(session.id).items]
        executions = opened.sessions.tool_executions(session.id)
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
    screen = aftermath(runs, messages, executions, ink=out.ink, then=next_steps(session))
    if screen:
        out.lines([*screen, ""])
    out.lines(_summary(shown, runs, ink=out.ink))
    out.lines(transcript(messages, runs, ink=out.ink))
    if runs:
        out.lines(run_lines(runs, ink=out.ink))


def next_steps(session: Session) -> tuple[tuple[str, str], ...]:
    """Return what can be typed after a run that ended badly."""
    short = handle(session.id)
    return (
        (f"tinyagent --resume {short}", "go on from what was completed"),
        (f"tinyagent logs {short}", "how it went, step by step"),
    )


def _summary(session: Session, runs: Sequence[Run], *, ink: Ink) -> Iterator[str]:
    at_least = "" if session.usage_complete else " or more: not every run reported its usage"
    lost = sum(run.journal_lost_count for run in runs)
    facts = (
        ("Session", session.id),
        ("Title", one_line(session.title or figures.UNKNOWN)),
        ("Status", session.status + (" (archived)" if session.archived_at else "")),
        ("Model", one_line(f"{session.provider or '?'} / {session.model_id or '?'}")),
        ("Endpoint", one_line(session.endpoint or figures.UNKNOWN)),
        ("Messages", f"{session.message_count} in {figures.count(len(runs), 'run')}"),
        ("Tokens", f"{figures.tokens(session.total_tokens)}{at_least}"),
        ("Cost", figures.cost(session.cost)),
        ("Created", figures.at(session.created_at)),
        *((("Journal", f"{figures.count(lost, 'line')} could not be written"),) if lost else ()),
        ("Active", f"{figures.at(session.updated_at)} ({figures.ago(session.updated_at)})"),
    )
    for name, value in facts:
        yield f"{ink.bold(f'{name:<9}')} {value}"
    yield ""


def show_runs(call: Call, ref: Ref) -> None:
    """List the runs of a session in the order they began."""
    with reading(call) as opened:
        session_id = opened.sessions.get(ref).id
        runs = [shown_run(run) for run in opened.sessions.runs(session_id).items]
        executions = opened.sessions.tool_executions(session_id)
    out = call.out
    if call.json:
        from sessions_api.cli.json_shapes import runs_json  # noqa: PLC0415 - for --json alone

        out.record({"session_id": session_id, "runs": runs_json(runs, executions)})
    elif runs:
        out.lines(run_lines(runs, ink=out.ink))
    else:
        out.note("This session has no run yet.")
