"""The asynchronous face of `SqliteStore`: the same names and meanings, with `await`.

A list of declarations and no logic: every method is the synchronous one, performed in the one
thread that owns the connection. What a cancellation means is written in `state_store.threads`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from state_store.sqlite.store import SqliteStore
from state_store.threads import OwnedThread, hop, iterate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from state_store.records import Run
    from state_store.upkeep import Upgrade


class AsyncSqliteStore:
    """`SqliteStore` for a running event loop; usable from several loops in turn."""

    def __init__(self, core: SqliteStore, thread: OwnedThread) -> None:
        self._core = core
        self._thread = thread

    @classmethod
    async def open(cls, path: Path, *, workspace_id: str, **options: Any) -> Self:
        """Open the database at *path*; see `SqliteStore.open` for the *options*."""
        return await cls._made(SqliteStore.open, path, workspace_id=workspace_id, **options)

    @classmethod
    async def in_memory(cls, *, workspace_id: str, **options: Any) -> Self:
        """Make a store that keeps nothing once it is closed; see `SqliteStore.in_memory`."""
        return await cls._made(SqliteStore.in_memory, workspace_id=workspace_id, **options)

    @classmethod
    async def _made(cls, make: Callable[..., SqliteStore], *args: Any, **options: Any) -> Self:
        thread = OwnedThread("state-store")
        made: list[SqliteStore] = []
        try:
            await thread.call(lambda: made.append(make(*args, **options)))
        except BaseException:
            for core in made:  # it was opened all the same when only the waiting was cancelled
                await thread.call(core.close)
            thread.close()
            raise
        return cls(made[0], thread)

    @property
    def recovered(self) -> tuple[Run, ...]:
        """The runs of dead processes that opening it made failed/interrupted."""
        return self._core.recovered

    @property
    def upgraded(self) -> Upgrade | None:
        """The upgrade of the schema that opening it made, None if it made none."""
        return self._core.upgraded

    create_session = hop(SqliteStore.create_session)
    get_session = hop(SqliteStore.get_session)
    find_sessions = hop(SqliteStore.find_sessions)
    list = hop(SqliteStore.list)
    update_session = hop(SqliteStore.update_session)
    close_session = hop(SqliteStore.close_session)
    archive_session = hop(SqliteStore.archive_session)
    delete = hop(SqliteStore.delete)
    unerased = hop(SqliteStore.unerased)
    mark_erased = hop(SqliteStore.mark_erased)
    totals = hop(SqliteStore.totals)
    fork_session = hop(SqliteStore.fork_session)
    undo = hop(SqliteStore.undo)
    redo = hop(SqliteStore.redo)
    summarize = hop(SqliteStore.summarize)
    import_session = hop(SqliteStore.import_session)
    begin_run = hop(SqliteStore.begin_run)
    start_tools = hop(SqliteStore.start_tools)
    finish_tool = hop(SqliteStore.finish_tool)
    complete_run = hop(SqliteStore.complete_run)
    fail_run = hop(SqliteStore.fail_run)
    find_runs = hop(SqliteStore.find_runs)
    get_run = hop(SqliteStore.get_run)
    recover = hop(SqliteStore.recover)
    messages = hop(SqliteStore.messages)
    last_messages = hop(SqliteStore.last_messages)
    runs = hop(SqliteStore.runs)
    tool_executions = hop(SqliteStore.tool_executions)
    snapshot = hop(SqliteStore.snapshot)
    save = hop(SqliteStore.save)
    load = hop(SqliteStore.load)
    search = hop(SqliteStore.search)
    prepare_search = hop(SqliteStore.prepare_search)
    search_state = hop(SqliteStore.search_state)
    check_session = hop(SqliteStore.check_session)

    async def export_messages(self, session_id: str) -> AsyncIterator[bytes]:
        """Stream the originals as JSON lines, a page's worth for each hop."""
        lines = await self._thread.call(self._core.export_messages, session_id)
        async for line in iterate(lines, self._thread):
            yield line

    async def close(self) -> None:
        """Close the store and let its thread end. Doing it twice does nothing."""
        await self._thread.call(self._core.close)
        self._thread.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
