"""`agent.sessions` for a running event loop: the same names and meanings, with `await`.

A list of declarations over `Sessions`, without logic of its own. All calls of one agent are
performed in its own thread, one after the other. A call that is cancelled in the queue does
nothing; one that has begun is waited for, so that a cancelled write may be committed and none goes
on unseen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions_api.sessions import Sessions
from sessions_api.transfer.pieces import pieces_from
from state_store import OwnedThread, Session, hop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sessions_api.transfer.exporting import ExportFormat


class AsyncSessions:
    """`Sessions` for a running event loop: the same names and meanings, with `await`.

    Cancelled, a call that has begun is waited for: a write may be committed, and is never half so.
    """

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
    show_reasoning = hop(Sessions.show_reasoning)
    fork = hop(Sessions.fork)
    undo = hop(Sessions.undo)
    redo = hop(Sessions.redo)
    summarize = hop(Sessions.summarize)
    search = hop(Sessions.search)
    totals = hop(Sessions.totals)
    workspace_totals = hop(Sessions.workspace_totals)
    save = hop(Sessions.save)
    load = hop(Sessions.load)
    import_ = hop(Sessions.import_)
    verify = hop(Sessions.verify)
    verify_all = hop(Sessions.verify_all)

    async def export(
        self,
        ref: str | None = None,
        format: ExportFormat = "jsonl",  # noqa: A002 - the contract's name
        *,
        redact: bool | None = None,
    ) -> AsyncIterator[bytes]:
        """Stream a session as it is when the first piece is read; see `Sessions.export`."""
        pieces = await self._thread.call(self._core.export, ref, format, redact=redact)
        async for piece in pieces_from(pieces, self._thread):
            yield piece

    async def export_all(self, *, redact: bool | None = None) -> AsyncIterator[bytes]:
        """Stream one archive of every session of the workspace, archived ones too."""
        pieces = await self._thread.call(self._core.export_all, redact=redact)
        async for piece in pieces_from(pieces, self._thread):
            yield piece
