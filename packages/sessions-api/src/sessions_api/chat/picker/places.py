"""Where the picker's sessions lie, and what is done to one there: this workspace, or another.

Invariants: a place is opened for writing only to carry out a change that a person asked for, so
that choosing works where nothing can be written; a workspace that cannot be read is counted, and
hides no other.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sessions_api.sessions import Sessions
from sessions_api.showing.liveness import shown_session
from sessions_api.state import open_state, read_state
from state_store import StateStoreError
from workspace_identity import WorkspaceIdentityError, list_workspaces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from state_store import Message, SessionSummary

FIRST_PAGE = 100  # more than a screen holds, and read in a millisecond
_PAGE = 500


class Place(Protocol):
    """A workspace with sessions. `root` is None for the one that the chat is in."""

    @property
    def directory(self) -> Path:
        """Where it is."""

    @property
    def root(self) -> Path | None:
        """The directory of another workspace."""

    def pages(self) -> Iterator[list[SessionSummary]]:
        """Yield its sessions, newest activity first."""

    def last_messages(self, session_id: str, count: int) -> tuple[Message, ...]:
        """Return what was said last."""

    def rename(self, session_id: str, title: str) -> None:
        """Give a session a title."""

    def delete(self, session_id: str) -> None:
        """Delete a session for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """A workspace that is opened anew for each thing that is done in it."""

    directory: Path
    workspace_id: str | None = None  # the one that must be found there
    root: Path | None = None

    def pages(self) -> Iterator[list[SessionSummary]]:
        """Yield its sessions, newest activity first; none when another workspace is found there."""
        with closing(read_state(self.directory)) as state:
            if self.workspace_id in {None, state.workspace_id}:
                yield from pages_of(Sessions(state))

    def last_messages(self, session_id: str, count: int) -> tuple[Message, ...]:
        """Return what was said last."""
        with closing(read_state(self.directory)) as state:
            return state.store.last_messages(session_id, count)

    def rename(self, session_id: str, title: str) -> None:
        """Give a session a title."""
        with closing(open_state(self.directory)) as state:
            Sessions(state).rename(session_id, title)

    def delete(self, session_id: str) -> None:
        """Delete a session for good."""
        with closing(open_state(self.directory)) as state:
            Sessions(state).delete(session_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWorkspace:
    """The workspace that a chat has open: what is done in it, the chat's agent does."""

    sessions: Sessions
    directory: Path
    root: None = None

    def pages(self) -> Iterator[list[SessionSummary]]:
        """Yield its sessions, newest activity first."""
        return pages_of(self.sessions)

    def last_messages(self, session_id: str, count: int) -> tuple[Message, ...]:
        """Return what was said last."""
        return Workspace(directory=self.directory).last_messages(session_id, count)

    def rename(self, session_id: str, title: str) -> None:
        """Give a session a title."""
        self.sessions.rename(session_id, title)

    def delete(self, session_id: str) -> None:
        """Delete a session for good."""
        self.sessions.delete(session_id)


def pages_of(sessions: Sessions) -> Iterator[list[SessionSummary]]:
    """Yield the sessions that are not archived, newest activity first, a small page first."""
    page = sessions.list(FIRST_PAGE)
    while True:
        yield [shown_session(one, sessions) for one in page.items]
        if page.next_cursor is None:
            return
        page = sessions.list(_PAGE, page.next_cursor)


@dataclass(slots=True, kw_only=True)
class Arrivals:
    """Sessions as they are read: of *here*, then of all other workspaces if *everywhere*.

    `unreadable_count` counts the workspaces that could not be read.
    """

    here: Place
    everywhere: bool = False
    unreadable_count: int = 0

    def __iter__(self) -> Iterator[tuple[Place, list[SessionSummary]]]:
        """Yield pages with their place; the workspace seen last comes first."""
        for page in self.here.pages():
            yield self.here, page
        if self.everywhere:
            yield from self._elsewhere()

    def _elsewhere(self) -> Iterator[tuple[Place, list[SessionSummary]]]:
        here = getattr(self.here, "directory", None)
        for record in list_workspaces():
            if record.path is None or (
                here is not None and record.path.resolve() == here.resolve()
            ):
                continue
            place = Workspace(directory=record.path, workspace_id=record.id, root=record.path)
            try:
                for page in place.pages():
                    yield place, page
            except (StateStoreError, WorkspaceIdentityError, OSError):
                self.unreadable_count += 1
