"""`agent.sessions`: list, create, resume, inspect, delete, messages and runs of a workspace.

Owns the meaning of these, over the store and not around it; the asynchronous face is a list of
declarations. Invariant: the active session is the one that `run` goes on with; whatever is asked
of "no reference" is asked of it. Methods that write return after commit and survive process kill
and power loss; none needs a provider.
"""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from sessions_api.errors import NoActiveSession
from sessions_api.references import resolve_session
from sessions_api.runs.replay import context
from state_store import (
    Deleted,
    Message,
    NewSession,
    OwnedThread,
    Page,
    Run,
    Session,
    SessionNotFound,
    SessionState,
    SessionSummary,
    ToolExecution,
    hop,
    iterate,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from sessions_api.state import WorkspaceState

View = Literal["original", "context", "all"]


class Sessions:
    """The sessions of one workspace. Thread-safe where the store is; does not cross a fork."""

    def __init__(self, state: WorkspaceState, *, defaults: NewSession | None = None) -> None:
        self._state = state
        self._store = state.store
        self._story = state.story
        self._defaults = defaults or NewSession()
        self._active: Session | None = None
        self._entered_at = 0.0
        self._used = False

    @property
    def active(self) -> Session | None:
        """The session that the next run goes on with, as this agent last saw it, or None."""
        return self._active

    def create(
        self,
        title: str | None = None,
        *,
        system_prompt: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Session:
        """Create an empty session and make it active. What is left out comes from the agent."""
        defaults = self._defaults
        session = self._store.create_session(
            NewSession(
                title=title,
                title_source="auto" if title is None else "user",
                provider=defaults.provider,
                endpoint=defaults.endpoint,
                model_id=defaults.model_id,
                system_prompt=defaults.system_prompt if system_prompt is None else system_prompt,
                parameters=defaults.parameters if parameters is None else parameters,
                metadata=metadata,
            )
        )
        if self._story is not None:
            self._story.created(session)
        self._enter(session)
        return session

    def resume(self, ref: str = "latest") -> Session:
        """Make the session that *ref* names active: "latest", id, last digits, or exact title.

        ReferenceNotFound or ReferenceAmbiguous otherwise; the active session then stays.
        """
        session = self.get(ref)
        self._enter(session)
        if self._story is not None:
            self._story.resumed(session)
        return session

    def leave(self) -> None:
        """Make no session active, so that the next run starts a new one.

        The session that was active is closed and the time it took is booked, if a run used it.
        """
        active, self._active = self._active, None
        if active is not None and self._used:
            spent = timedelta(seconds=time.monotonic() - self._entered_at)
            with suppress(SessionNotFound):  # deleted elsewhere meanwhile
                self._store.close_session(active.id, spent=spent)
        self._used = False

    def used(self, session_id: str) -> Session:
        """Make the session that a run has begun in active and return it. Runs call this."""
        session = self._store.get_session(session_id)
        self._enter(session)
        self._used = True
        return session

    def changed(self, session_id: str) -> None:
        """Take over how a run left its session, if that is still active. Runs call this."""
        if self._active is not None and self._active.id == session_id:
            self._active = self._store.get_session(session_id)

    def _enter(self, session: Session) -> None:
        if self._active is None or self._active.id != session.id:
            self.leave()
            self._entered_at = time.monotonic()
        self._active = session

    def list(
        self, limit: int | None = 20, cursor: str | None = None, *, archived: bool = False
    ) -> Page[SessionSummary]:
        """List sessions, newest activity first, at most *limit*; None means all.

        Costs the same however many messages there are. CursorInvalid for a foreign cursor.
        """
        return self._store.list(limit=limit, cursor=cursor, archived=archived)

    def get(self, ref: str | None = None) -> Session:
        """Return the session that *ref* names, or the active one."""
        return self._store.get_session(self._id_of(ref))

    def messages(
        self,
        ref: str | None = None,
        *,
        view: View = "original",
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Message]:
        """Return messages in order of seq, at most *limit*; None means all.

        "original": every original, those of failed runs included, those of undone runs not.
        "context": those that would be sent to the provider now. "all": everything stored.
        """
        session_id = self._id_of(ref)
        if view == "context":
            # It is computed from all that is stored, so it comes as one page.
            return Page(
                items=context(
                    self._store.messages(session_id, view="all").items,
                    self._store.runs(session_id).items,
                    self._store.tool_executions(session_id),
                )
            )
        return self._store.messages(session_id, view=view, limit=limit, cursor=cursor)

    def runs(
        self, ref: str | None = None, *, limit: int | None = None, cursor: str | None = None
    ) -> Page[Run]:
        """Return the runs in the order they began, at most *limit*; `stale` marks dead ones."""
        return self._store.runs(self._id_of(ref), limit=limit, cursor=cursor)

    def tool_executions(self, ref: str | None = None) -> tuple[ToolExecution, ...]:
        """Return what became of each tool call, in call order."""
        return self._store.tool_executions(self._id_of(ref))

    def delete(self, ref: str) -> Deleted:
        """Delete a session for good: rows and journal; a tombstone without content stays.

        SessionBusy while a live process runs it. A journal that cannot be removed then stays and is
        named in the agent's `notices`.
        """
        session_id = self._id_of(ref)
        deleted = self._state.delete(session_id)
        if self._active is not None and self._active.id == session_id:
            self._active = None
        return deleted

    def rename(self, ref: str, title: str) -> Session:
        """Give the session a title, which no automatic one replaces."""
        session = self._store.update_session(self._id_of(ref), {"title": title})
        if self._story is not None:
            self._story.renamed(session)
        return self._seen(session)

    def archive(self, ref: str) -> Session:
        """Take the session out of the usual list."""
        return self._archive(ref, archived=True)

    def unarchive(self, ref: str) -> Session:
        """Put an archived session back into the usual list."""
        return self._archive(ref, archived=False)

    def export(self, ref: str | None = None, format: Literal["jsonl"] = "jsonl") -> Iterator[bytes]:  # noqa: A002 - the contract's name
        """Stream the originals as JSON lines, each with its newline, in constant memory."""
        if format != "jsonl":
            raise ValueError(f"there is no export format {format!r}; use 'jsonl'")
        return self._store.export_messages(self._id_of(ref))

    def save(self, state: SessionState, duration: timedelta) -> Session:
        """Create or extend a whole session; HistoryConflict when *state* contradicts it."""
        return self._store.save(state, duration)

    def load(self, ref: str | None = None) -> SessionState:
        """Return a session's settings and originals as one value."""
        return self._store.load(self._id_of(ref))

    def _archive(self, ref: str, *, archived: bool) -> Session:
        session = self._store.archive_session(self._id_of(ref), archived=archived)
        if self._story is not None:
            self._story.archived(session)
        return self._seen(session)

    def _seen(self, session: Session) -> Session:
        if self._active is not None and self._active.id == session.id:
            self._active = session
        return session

    def _id_of(self, ref: str | None) -> str:
        if ref is not None:
            return resolve_session(self._store, ref).id
        if self._active is None:
            raise NoActiveSession
        return self._active.id


class AsyncSessions:
    """`Sessions` for a running event loop: the same names and meanings, with `await`."""

    def __init__(self, core: Sessions, thread: OwnedThread) -> None:
        self._core = core
        self._thread = thread

    @property
    def active(self) -> Session | None:
        """The session that the next run goes on with, as this agent last saw it, or None."""
        return self._core.active

    create = hop(Sessions.create)
    resume = hop(Sessions.resume)
    list = hop(Sessions.list)
    get = hop(Sessions.get)
    messages = hop(Sessions.messages)
    runs = hop(Sessions.runs)
    tool_executions = hop(Sessions.tool_executions)
    delete = hop(Sessions.delete)
    rename = hop(Sessions.rename)
    archive = hop(Sessions.archive)
    unarchive = hop(Sessions.unarchive)
    leave = hop(Sessions.leave)
    save = hop(Sessions.save)
    load = hop(Sessions.load)

    async def export(
        self,
        ref: str | None = None,
        format: Literal["jsonl"] = "jsonl",  # noqa: A002 - the contract's name
    ) -> AsyncIterator[bytes]:
        """Stream the originals as JSON lines, each with its newline; one hop for many lines."""
        lines = await self._thread.call(self._core.export, ref, format)
        async for line in iterate(lines, self._thread):
            yield line
