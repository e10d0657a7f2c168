"""An asynchronous store behind the synchronous face, so that one suite tests both.

Owns an event loop in a thread of its own. Invariant: a call returns what awaiting it returns and
raises what awaiting it raises; calls from several threads are tasks of the one loop, at the same
time. After `close` the loop is gone, and each further call gets a short-lived one, because a
closed store still has to answer that it is closed.

For tests. It knows nothing of any store: a result is awaited, iterated or returned as it is.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from state_store.protocol import SessionStore

R = TypeVar("R")
ITEMS_PER_CALL = 100


class SyncFace:
    """What *open_store* opens, with every method synchronous."""

    def __init__(self, open_store: Callable[[], Awaitable[Any]]) -> None:
        self._loop: asyncio.AbstractEventLoop | None = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            self._store = self._run(open_store())
        except BaseException:
            self._stop()
            raise

    @classmethod
    def over(cls, open_store: Callable[[], Awaitable[Any]]) -> SessionStore:
        """Return what *open_store* opens as the `SessionStore` that it is when it is awaited."""
        return cast("SessionStore", cls(open_store))

    def close(self) -> None:
        """Close the store, and with it the loop."""
        self._run(self._store.close())
        self._stop()

    def __getattr__(self, name: str) -> Any:
        """Return the store's attribute *name*; a method comes back synchronous."""
        found = getattr(self._store, name)
        return self._synchronous(found) if callable(found) else found

    def _synchronous(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            answer = method(*args, **kwargs)
            if isinstance(answer, AsyncIterator):
                return self._iterate(answer)
            return self._run(answer) if inspect.isawaitable(answer) else answer

        return call

    def _iterate(self, items: AsyncIterator[R]) -> Iterator[R]:
        async def take() -> list[R]:
            taken: list[R] = []
            async for item in items:
                taken.append(item)
                if len(taken) == ITEMS_PER_CALL:
                    break
            return taken

        while taken := self._run(take()):
            yield from taken

    def _run(self, awaitable: Awaitable[R]) -> R:
        async def awaited() -> R:
            return await awaitable

        if self._loop is None:
            return asyncio.run(awaited())
        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result()

    def _stop(self) -> None:
        if self._loop is not None:
            loop, self._loop = self._loop, None
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            loop.close()
