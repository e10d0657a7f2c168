"""`tinyagent sessions export`: for other programs, for people, and to be imported again."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sessions_api.cli.completion.candidates import complete_sessions
from sessions_api.cli.failures import UsageInvalid
from sessions_api.cli.opened import reading
from sessions_api.cli.options import PLACE, Call, command
from sessions_api.private_file import write_private
from sessions_api.showing.terminal_text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from state_store import Progress


class Format(StrEnum):
    """Export formats."""

    JSONL = "jsonl"
    ARCHIVE = "archive"
    MARKDOWN = "markdown"
    HTML = "html"


OptionalRef = Annotated[
    str | None,
    typer.Argument(
        metavar="REF",
        help="latest, id, last digits or exact title.",
        autocompletion=complete_sessions,
    ),
]
All = Annotated[bool, typer.Option("--all", help="Every session of the workspace, as an archive.")]
FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--format",
        help="jsonl (the default): one message a line; archive: everything, to be imported again; "
        "markdown, html: to read.",
    ),
]
File = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write it here, for you alone, in place of what is there.",
    ),
]
Redact = Annotated[
    bool | None,
    typer.Option(
        "--redact/--no-redact", help="Mask secrets where they are found; html does that by itself."
    ),
]


def add_to(sessions: typer.Typer) -> None:
    """Add `export` to `tinyagent sessions`."""
    command(sessions, "export", PLACE)(export)


def export(
    call: Call,
    ref: OptionalRef = None,
    *,
    everything: All = False,
    form: FormatOption = None,
    output: File = None,
    redact: Redact = None,
) -> None:
    """Write a session, or all, to standard output or to a file."""
    _require_sense(ref, form, everything=everything)
    with reading(call) as opened:
        from sessions_api.sessions import Sessions  # noqa: PLC0415 - not for --help

        sessions = Sessions(opened.state, secrets=lambda: _configured_secrets(call))
        if ref is None:
            chunks = sessions.export_all(redact=redact)
        else:
            session_id = sessions.get(ref).id
            chunks = sessions.export(session_id, (form or Format.JSONL).value, redact=redact)
        if output is None or output == "-":
            call.out.chunks(chunks)
            return
        path = Path(output)
        with call.out.progress() as progress:
            write_private(path, _told(chunks, progress))
        call.out.note(f"Written: {one_line(str(path))}")


def _require_sense(ref: str | None, form: Format | None, *, everything: bool) -> None:
    if everything and ref is not None:
        raise UsageInvalid("REF and --all exclude each other.", hint="Leave one of them out.")
    if ref is None and not everything:
        raise UsageInvalid(
            "No session is named.", hint="Name one, or all: sessions export REF | --all"
        )
    if everything and form not in {None, Format.ARCHIVE}:
        raise UsageInvalid(
            f"--all writes an archive, and not {form}.",
            hint="Leave --format out, or export one session after the other.",
        )


def _told(chunks: Iterable[bytes], progress: Progress) -> Iterator[bytes]:
    for number, chunk in enumerate(chunks, 1):
        progress("exporting", number, 0)  # nobody knows how much it is going to be
        yield chunk


def _configured_secrets(call: Call) -> tuple[str, ...]:
    """Return the key of the configuration; what the environment has is masked anyway."""
    from sessions_api.errors import SettingsInvalid  # noqa: PLC0415 - for masking alone
    from sessions_api.settings import Settings  # noqa: PLC0415 - costs 0.3 s
    from workspace_identity import resolve_state_home  # noqa: PLC0415 - for masking alone

    try:
        key = Settings.load(resolve_state_home()).api_key
    except SettingsInvalid as error:
        call.out.note(one_line(f"{error} A key in it is not known, and masked by its form alone."))
        return ()
    return () if key is None else (key.get_secret_value(),)
