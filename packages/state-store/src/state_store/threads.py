"""The asynchronous face of a synchronous core, by declaration.

One owned thread performs every call of one core object, in order, so that a connection never
meets a second thread and a transaction costs one hop, not one a statement. An asynchronous class
is then a list of `hop(Core.method)` lines with no logic of its own.

Cancellation: a call that has begun is never abandoned. The awaiting task first waits until the
call has ended, then the cancellation goes on; so a cancelled write may have been committed, and
no write goes on behind the back of a caller who believes it over. A call that still waits in the
queue is withdrawn.

Must not: hold a reference to an event loop; one core may be used from several loops in turn. Nor
import asyncio or an executor before they are needed: they are half of what importing a
synchronous store would cost, and whoever awaits has them already.
"""

from __future__ import annotations

import os
from functools import update_wrapper
from itertools import islice
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from concurrent.futures import Future

P = ParamSpec("P")
R = TypeVar("R")
Core = TypeVar("Core")
Core_co = TypeVar("Core_co", covariant=True)
ITEMS_PER_HOP = 500


class OwnedThread:
    """A thread that performs calls one after the other. Close it when its core is closed.

    Where it cannot work any more, after `close` or in a forked child, a call is performed at once
    by the caller, so that the core itself says what is wrong and nobody waits for ever.
    """

    def __init__(self, name: str) -> None:
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - see the module

        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._pid = os.getpid()
        self._closed = False

    async def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Perform one call in the thread and return what it returns or raise what it raises."""
        if self._closed or os.getpid() != self._pid:
            return function(*args, **kwargs)
        return await settled(self._executor.submit(function, *args, **kwargs))

    def close(self) -> None:
        """Let the thread end after the calls it has. Does not wait."""
        self._closed = True
        if os.getpid() == self._pid:  # a lock of the parent's executor may never be free here
            self._executor.shutdown(wait=False)


async def settled(future: Future[R]) -> R:
    """Await *future*; on cancellation wait for its end before the cancellation goes on."""
    import asyncio  # noqa: PLC0415 - see the module

    waiting = asyncio.wrap_future(future)
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        if not future.cancel():
            while not waiting.done():
                try:
                    await asyncio.wait((waiting,))
                except asyncio.CancelledError:
                    continue  # asked again; the call's end is still what we wait for
            waiting.exception()  # seen: the cancellation is what the caller gets
        raise


async def iterate(source: Iterator[R], thread: OwnedThread) -> AsyncIterator[R]:
    """Yield what *source* yields, read in *thread*, many items a hop."""
    while chunk := await thread.call(_take, source):
        for item in chunk:
            yield item


def _take(source: Iterator[R]) -> list[R]:
    return list(islice(source, ITEMS_PER_HOP))


class OnThread(Protocol[Core_co]):
    """What a declared class has: the core, and the thread that it lives in."""

    _thread: OwnedThread

    @property
    def _core(self) -> Core_co: ...


def hop(
    method: Callable[Concatenate[Core, P], R],
) -> Callable[Concatenate[OnThread[Core], P], Coroutine[Any, Any, R]]:
    """Declare the asynchronous namesake of *method*, with its signature and docstring."""

    async def hopped(self: OnThread[Core], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._thread.call(method, self._core, *args, **kwargs)

    update_wrapper(hopped, method)
    return hopped
