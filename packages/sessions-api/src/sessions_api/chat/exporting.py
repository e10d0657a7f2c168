"""`/export [FILE] [--format F]`: a session in a file, in the workspace's own place by default.

Invariant: a file is for its owner alone, and what cannot be written whole is not written.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from sessions_api.private_file import write_private
from sessions_api.showing.listing import handle
from sessions_api.showing.terminal_text import one_line
from sessions_api.transfer.exporting import ExportFormat

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessions_api.sessions import Sessions
    from state_store import Session

_ENDINGS: dict[ExportFormat, str] = {
    "jsonl": "jsonl",
    "archive": "archive.jsonl",
    "markdown": "md",
    "html": "html",
}
_USAGE = f"/export FILE, with --format {'|'.join(get_args(ExportFormat))} if you like"


def export_to_file(
    sessions: Sessions, session: Session, typed: str, exports_dir: Callable[[], Path | None]
) -> str:
    """Write *session* as was *typed* behind /export, and return what to say about it."""
    words = _words(typed)
    form: ExportFormat = "jsonl"
    if "--format" in words:
        place = words.index("--format")
        found = next((one for one in _ENDINGS if words[place + 1 : place + 2] == [one]), None)
        if found is None:
            return f"Name the file and the format: {_USAGE}"
        form = found
        del words[place : place + 2]
    if words:
        # A name may hold spaces: what is left of the line is one.
        path = Path(os.path.expanduser(" ".join(words)))  # noqa: PTH111 - a name may begin with "~" and no user
    else:
        folder = exports_dir()
        if folder is None:
            return f"Name the file: {_USAGE}"
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"{handle(session.id)}.{_ENDINGS[form]}"
    write_private(path, sessions.export(session.id, form))
    return f"Written: {one_line(str(path))}"


def _words(typed: str) -> list[str]:
    try:
        return shlex.split(typed)
    except ValueError:  # a quote that is not closed is part of a name
        return typed.split()
