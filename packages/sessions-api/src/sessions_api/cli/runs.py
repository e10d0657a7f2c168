"""`tinyagent runs`: the runs of a session, and one of them from its input to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sessions_api.cli.completion.candidates import complete_runs
from sessions_api.cli.inspecting import Ref  # noqa: TC001 - Typer reads it
from sessions_api.cli.opened import reading
from sessions_api.cli.options import JSON, PLACE, Call, command
from sessions_api.showing import figures
from sessions_api.showing.listing import run_lines
from sessions_api.showing.liveness import shown_run
from sessions_api.showing.terminal_text import Ink, one_line
from sessions_api.showing.transcript import transcript

if TYPE_CHECKING:
    from collections.abc import Iterator

    from state_store import Run, ToolExecution

RunRef = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="latest, whole id or its last digits (4 or more).",
        autocompletion=complete_runs,
    ),
]


def add_to(runs: typer.Typer) -> None:
    """Add `list` and `show` to `tinyagent runs`."""
    command(runs, "list", PLACE, JSON)(list_runs)
    command(runs, "show", PLACE, JSON)(show_run)


def list_runs(call: Call, ref: Ref) -> None:
    """List the runs of a session in the order they began; also: runs REF."""
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


def show_run(call: Call, run: RunRef) -> None:
    """Show one run: its messages, its tools and how it ended."""
    from sessions_api.references import resolve_run  # noqa: PLC0415 - not for --help

    with reading(call) as opened:
        found = shown_run(resolve_run(opened.state.store, run))
        stored = opened.sessions.messages(found.session_id, view="all").items
        messages = [one for one in stored if one.run_id == found.id]
        executions = [
            one
            for one in opened.sessions.tool_executions(found.session_id)
            if one.run_id == found.id
        ]
    out = call.out
    if call.json:
        from sessions_api.cli.json_shapes import (  # noqa: PLC0415 - for --json alone
            as_json,
            runs_json,
        )

        (shown,) = runs_json([found], executions)
        out.record({"session_id": found.session_id, "run": shown, "messages": as_json(messages)})
        return
    out.lines(_facts(found, executions, ink=out.ink))
    out.lines(transcript(messages, [found], ink=out.ink))


def _facts(run: Run, executions: list[ToolExecution], *, ink: Ink) -> Iterator[str]:
    ended = f"{run.status}: {run.error_type}" if run.error_type else run.status
    usage = run.usage
    facts = [
        ("Run", run.id),
        ("Session", run.session_id),
        ("Status", ended + (", undone" if run.undone_at else "")),
        ("Model", one_line(f"{run.provider or '?'} / {run.model or '?'}")),
        ("Started", figures.at(run.started_at)),
        ("Ended", figures.at(run.finished_at)),
        (
            "Tokens",
            f"{figures.tokens(usage.input_tokens)} in, {figures.tokens(usage.output_tokens)} out",
        ),
        ("Cost", figures.cost(run.cost)),
        *((("Retry of", run.retry_of),) if run.retry_of else ()),
        *((("Copy of", run.copied_from),) if run.copied_from else ()),
    ]
    facts += [
        ("Tool" if number == 0 else "", f"{one_line(one.name)}: {one.outcome or 'unknown'}")
        for number, one in enumerate(executions)
    ]
    for name, value in facts:
        yield f"{ink.bold(f'{name:<9}')} {value}"
    yield ""
