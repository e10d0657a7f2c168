"""`tinyagent logs`: the run journal of a session, damage included.

Invariant: journals are readable when the database is not: by file, by whole id, or by the last
digits of the session id that stands in a file's first line.
"""

from __future__ import annotations

import json
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sessions_api.cli.completion.candidates import complete_sessions
from sessions_api.cli.opened import reading
from sessions_api.cli.options import JSON, PLACE, Call, command
from sessions_api.cli.output import SCHEMA_VERSION, Output, json_text
from sessions_api.cli.signals import INTERRUPTED
from sessions_api.showing import figures
from sessions_api.showing.terminal_text import one_line, safe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from run_journal import Damage, Entry
    from state_store import StateStoreError

RefOrFile = Annotated[
    str,
    typer.Argument(
        metavar="REF|FILE",
        help="A session, or the path of a journal file.",
        autocompletion=complete_sessions,
    ),
]
Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
]
_LISTED_COUNT = 5
_SHORTEST_SUFFIX = 4


def add_to(app: typer.Typer) -> None:
    """Add `logs` to the command line."""
    command(app, "logs", PLACE, JSON)(show_journal)


def show_journal(call: Call, what: RefOrFile, *, follow: Follow = False) -> None:
    """Show the run journal: what was done, when, how it ended; never what was said."""
    from run_journal import Entry, read  # noqa: PLC0415 - not for --help

    path = _path_of(call, what)
    if follow:
        _follow(call, path)
        return
    items = read(path)
    if call.json:
        _write_json(call.out, path, items)
        return
    damage_count = 0
    for item in items:
        if isinstance(item, Entry):
            call.out.lines([_line(item)])
        else:
            damage_count += 1
            call.out.lines([call.out.ink.alarm(_damaged(item))])
    if damage_count:
        places = figures.count(damage_count, "damaged place")
        call.out.note(f"{places} in {one_line(str(path))}; the rest is whole.")


def _follow(call: Call, path: Path) -> None:
    """Show lines as they come; under --json an object a line, since nothing closes a list.

    It ends when the journal is gone, or by Ctrl-C, which is how one leaves and no failure.
    """
    from run_journal import Entry, follow  # noqa: PLC0415 - not for --help

    out = call.out
    try:
        for item in follow(path):
            if call.json:
                begin = json_text({"schema_version": SCHEMA_VERSION})
                out.chunks([f'{begin[:-1]}, "line": '.encode(), _json_line(item), b"}\n"])
            else:
                shown = _line(item) if isinstance(item, Entry) else out.ink.alarm(_damaged(item))
                out.lines([shown])
            out.flush()
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _path_of(call: Call, what: str) -> Path:
    from state_store import StateStoreError  # noqa: PLC0415 - not for --help

    if "/" in what or what.endswith(".jsonl"):
        return Path(what)
    try:
        with reading(call) as opened:
            session_id = opened.sessions.get(what).id
            # A session that was found lies in a workspace that has paths.
            journal_dir = opened.state.paths.journal_dir if opened.state.paths else Path()
        return _session_path(journal_dir, session_id)
    except StateStoreError as error:
        return _without_database(call, what, error)


def _session_path(journal_dir: Path, session_id: str) -> Path:
    from run_journal import session_file_name  # noqa: PLC0415 - not for --help

    return journal_dir / session_file_name(session_id)


def _without_database(call: Call, what: str, error: StateStoreError) -> Path:
    """Find a journal when the database cannot say which session *what* is."""
    from workspace_identity import inspect_workspace  # noqa: PLC0415 - not for --help

    paths = inspect_workspace(call.workspace).paths
    if paths is None:
        raise error
    by_id = _session_path(paths.journal_dir, what)
    if by_id.is_file():
        return by_id
    sessions = dict(_first_lines(paths.journal_dir))
    fitting = [
        session_id
        for session_id in sessions
        if len(what) >= _SHORTEST_SUFFIX and session_id.endswith(what)
    ]
    call.out.note(f"{one_line(str(error))} Its journals are read without it.")
    if len(fitting) == 1:
        return sessions[fitting[0]]
    for session_id in list(sessions)[:_LISTED_COUNT]:
        call.out.note(f"There is: tinyagent logs {session_id}")
    raise error


def _first_lines(journal_dir: Path) -> Iterator[tuple[str, Path]]:
    """Yield the session of each journal, as its first good line says, newest file first."""
    from run_journal import Entry, RunJournalError, read  # noqa: PLC0415 - not for --help

    files = sorted(journal_dir.glob("*.jsonl"), key=lambda file: -file.stat().st_mtime_ns)
    for file in files:
        try:
            first = next((item for item in read(file) if isinstance(item, Entry)), None)
        except RunJournalError:
            continue
        if first is not None and first.session_id is not None:
            yield first.session_id, file


def _damaged(item: Damage) -> str:
    return f"DAMAGED {item.kind}: {figures.count(item.byte_count, 'byte')} at {item.offset}"


def _line(item: Entry) -> str:
    facts = {
        name: value for name, value in item.fields.items() if value is not None and name != "stack"
    }
    if item.run_id is not None:
        facts = {"run": item.run_id[-8:], **facts}
    if item.duration_ms is not None:
        facts["ms"] = item.duration_ms
    told = "  ".join(f"{name}={_value(value)}" for name, value in facts.items())
    return f"{item.ts}  {safe(item.event):<18}  {safe(told)}".rstrip()


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _write_json(out: Output, path: Path, items: Iterator[Entry | Damage]) -> None:
    """Write one object, a line of the journal at a time: it may be long."""
    first = list(islice(items, 1))  # a file that cannot be read fails before anything is written
    begin = json_text({"schema_version": SCHEMA_VERSION, "file": str(path)})
    out.chunks([f'{begin[:-1]}, "lines": ['.encode()])
    for place, item in enumerate(chain(first, items)):
        out.chunks([b",\n" if place else b"\n", _json_line(item)])
    out.chunks([b"]}\n"])


def _json_line(item: Entry | Damage) -> bytes:
    from run_journal import Damage  # noqa: PLC0415 - not for --help

    if not isinstance(item, Damage):
        return item.line
    damage = {"kind": item.kind, "offset": item.offset, "byte_count": item.byte_count}
    return json_text({"damage": damage}).encode()
