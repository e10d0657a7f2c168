"""`workspace_tools`: a model may list and read the files of a workspace, and write when asked.

Owns what the model is told: the descriptions, the notes in brackets, and errors in words that it
can act on; nothing that the operating system says fails a run. Looking is "safe" to repeat after a
crash, writing is "unsafe". Type hints are plain on purpose: limits are checked here, so that
making the tools does not import pydantic.

Must not: open, list or name anything; `walk`, `opening` and `listing` do, inside their bounds.
"""

from __future__ import annotations

import codecs
import errno
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sessions_api.errors import ToolDefinitionInvalid
from sessions_api.runs.tools import Tool, tool
from sessions_api.workspace_files.forbidden import MARKER_DIR, Forbidden, identity
from sessions_api.workspace_files.listing import MAX_SCANNED, Listing
from sessions_api.workspace_files.names import named, shown_briefly
from sessions_api.workspace_files.opening import Part, read_part, replace
from sessions_api.workspace_files.walk import PathRefused, Root, Walk, is_supported
from workspace_identity import (
    StateHomeUnusable,
    UnsafeWorkspace,
    WorkspaceMissing,
    resolve_state_home,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT_S = 60.0  # a network filesystem that does not answer must not hold a run for ever
MAX_READ_BYTES = 200_000
MIN_READ_BYTES = 4  # the longest character: less would not get on
MAX_ENTRIES = 1_000
MAX_LISTED_DEPTH = 16


def workspace_tools(
    root: str | os.PathLike[str],
    *,
    writes: bool = False,
    state_home: str | os.PathLike[str] | None = None,
) -> tuple[Tool, ...]:
    """Return `list_files`, `read_file` and, only with *writes*, `write_file` for an agent.

    They reach nothing outside the directory *root*, by whatever path, link or race, and nothing of
    `.tinyagent/` or of a state home: *state_home* if the agent was given one, the one that
    TINYAGENT_STATE_HOME names, and `~/.tinyagent`. Files are read and directories listed in
    bounded parts; a write replaces the whole file and survives power loss when the tool returns.

    Any number of threads may call them; they keep no descriptor open between calls. Raises
    ToolDefinitionInvalid on a system that cannot open files relative to a directory,
    WorkspaceMissing when *root* is no directory, UnsafeWorkspace when it is, or lies in, a state
    home or a marker directory.
    """
    if not is_supported():
        raise ToolDefinitionInvalid(
            "Workspace tools cannot be offered on this system: it cannot open files relative to an"
            " open directory (openat), so nothing would keep them inside of the workspace.",
            hint="Leave workspace_tools out, or give the agent tools of your own.",
        )
    files = _Files(_root(root, state_home))
    reading = tool(replay="safe", timeout_s=TIMEOUT_S)
    writing = tool(replay="unsafe", timeout_s=TIMEOUT_S)
    tools = (reading(files.list_files), reading(files.read_file))
    return (*tools, writing(files.write_file)) if writes else tools


@dataclass(frozen=True, slots=True)
class _Files:
    root: Root

    def list_files(self, path: str = ".", depth: int = 1, offset: int = 0, limit: int = 500) -> str:
        r"""List a directory of the workspace, sorted, one entry a line.

        Lines are "dir PATH", "file BYTES PATH", "link PATH" or "other PATH". Paths are relative
        to the workspace; unprintable characters in them appear as \xNN and backslashes doubled,
        and can be given back like that. With depth 2 or more the content of directories follows
        them. A long listing is cut: go on with the offset that its last line names.
        """
        _require_not_negative(offset)
        limit = max(1, min(limit, MAX_ENTRIES))
        with _os_errors_in_words(path), Walk(self.root) as walk:
            walk.into(path)
            listing = Listing(walk=walk, depth=max(1, min(depth, MAX_LISTED_DEPTH)))
            lines, has_more = listing.page(offset=offset, limit=limit)
        if not lines:
            lines.append("[nothing more]" if offset else "[empty]")
        if has_more:
            lines.append(f"[cut; there is more: go on with offset={offset + len(lines)}]")
        if listing.is_cut:
            lines.append(f"[incomplete: more than {MAX_SCANNED} entries; list a part of it]")
        if listing.unreadable_count:
            lines.append(f"[{listing.unreadable_count} directories could not be read]")
        return "\n".join(lines)

    def read_file(self, path: str, offset: int = 0, limit: int = 50_000) -> str:
        """Read a text file of the workspace; the path is relative to the workspace.

        offset and limit count bytes. A long file is cut: the last line says so, and with which
        offset to go on. Binary files are not shown.
        """
        _require_not_negative(offset)
        limit = max(MIN_READ_BYTES, min(limit, MAX_READ_BYTES))
        with _os_errors_in_words(path), Walk(self.root) as walk:
            part = read_part(walk, walk.beside(path), offset=offset, limit=limit)
        return _text_of(part, offset)

    def write_file(self, path: str, content: str) -> str:
        """Write a text file of the workspace, all of it, in place of what it held before.

        The path is relative to the workspace; directories that are missing are made.
        """
        try:
            encoded = content.encode()
        except UnicodeEncodeError:
            raise PathRefused("the content is no valid Unicode text.") from None
        with _os_errors_in_words(path), Walk(self.root) as walk:
            was_there = replace(walk, walk.beside(path, create=True), encoded)
        done = "replaced" if was_there else "created"
        return f"{done} {_quoted(path)}, {len(encoded)} bytes"


def _root(path: str | os.PathLike[str], state_home: str | os.PathLike[str] | None) -> Root:
    real = Path(os.path.realpath(path))
    homes = {resolve_state_home(state_home), resolve_state_home()}
    with suppress(StateHomeUnusable):  # no home directory, so nothing in it
        homes.add(resolve_state_home(f"~/{MARKER_DIR}"))
    forbidden = Forbidden(homes=tuple(sorted(map(str, homes))))
    try:
        status = real.stat()
        above = {identity(one.stat()) for one in (real, *real.parents)}
        is_inside_home = bool(above & forbidden.existing_homes())
        os.scandir(real).close()
    except (OSError, ValueError) as error:
        raise WorkspaceMissing(
            f"Cannot use {shown_briefly(str(real))} as a workspace: "
            f"{getattr(error, 'strerror', None) or 'it is no path'}.",
            hint="Name a directory that exists and that you can read.",
            path=real,
        ) from error
    if is_inside_home or forbidden.has_path(str(real)):
        hazard = "it is, or lies in, a state home or a marker directory"
        raise UnsafeWorkspace(
            f"Cannot use {shown_briefly(str(real))} as a workspace: {hazard}.",
            hint="Name a project directory.",
            path=real,
            hazard=hazard,
        )
    return Root(path=str(real), identity=identity(status), forbidden=forbidden)


def _require_not_negative(offset: int) -> None:
    if offset < 0:
        raise PathRefused("offset must be 0 or more.")


def _quoted(path: str) -> str:
    return shown_briefly(named(path))


def _text_of(part: Part, offset: int) -> str:
    if not part.content:
        return f"[nothing there: the file ends at byte {part.size}]" if offset else "[empty file]"
    # A part may begin and end inside a character; the rest of the first belongs to the part before.
    skipped = 0
    while offset and skipped < min(3, len(part.content)) and part.content[skipped] & 0xC0 == 0x80:  # noqa: PLR2004 - RFC 3629, section 3: how a byte that continues a character begins
        skipped += 1
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(part.content[skipped:], final=part.is_last)
    except UnicodeDecodeError:
        return f"[not shown: no UTF-8 text but binary, {part.size} bytes]"
    if "\0" in text:
        return f"[not shown: no text but binary, {part.size} bytes]"
    if part.is_last and not offset:
        return text
    end = offset + len(part.content) - len(decoder.getstate()[0])
    shown = f"bytes {offset + skipped} to {end} of {part.size}"
    if part.is_last:
        return f"{text}\n[{shown}: the end of the file]"
    return f"{text}\n[cut here; {shown}: read on with offset={end}]"


_IN_WORDS = {
    errno.ENOENT: "does not exist; list_files shows what there is",
    errno.ENOTDIR: "is, or leads through, something that is no directory",
    errno.EISDIR: "is a directory, not a file",
    errno.ELOOP: "is a symbolic link that was only just put there; try again",
    errno.EACCES: "may not be used by this user",
    errno.EPERM: "may not be used by this user",
    errno.EROFS: "is on a filesystem that is read-only",
    errno.ENOSPC: "was not written: the disk is full",
    errno.EDQUOT: "was not written: the quota is used up",
    errno.ENAMETOOLONG: "has a name that is too long",
    errno.EMFILE: "cannot be used now: too many files are open; try again",
}


@contextmanager
def _os_errors_in_words(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        said = _IN_WORDS.get(error.errno or 0) or f"cannot be used: {error.strerror or error}"
        raise PathRefused(f"{_quoted(path)} {said}.") from None
