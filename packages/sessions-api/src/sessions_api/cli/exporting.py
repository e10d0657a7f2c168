"""`tinyagent sessions export`: a session's messages for other programs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sessions_api.cli.inspecting import Ref  # noqa: TC001 - Typer reads it
from sessions_api.cli.opened import reading
from sessions_api.cli.options import PLACE, Call, command
from sessions_api.private_file import write_private
from sessions_api.showing.terminal_text import one_line


class Format(StrEnum):
    """Export formats."""

    JSONL = "jsonl"


FormatOption = Annotated[Format, typer.Option("--format", help="jsonl: one message a line.")]
File = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write it here, for you alone."),
]


def add_to(sessions: typer.Typer) -> None:
    """Add `export` to `tinyagent sessions`."""
    command(sessions, "export", PLACE)(export)


def export(call: Call, ref: Ref, *, form: FormatOption = Format.JSONL, output: File = None) -> None:
    """Write a session to standard output or to a file."""
    with reading(call) as opened:
        session_id = opened.sessions.get(ref).id
        chunks = opened.sessions.export(session_id, format=form.value)
        if output is None or output == "-":
            call.out.chunks(chunks)
        else:
            path = Path(output)
            write_private(path, chunks)
            call.out.note(f"Written: {one_line(str(path))}")
