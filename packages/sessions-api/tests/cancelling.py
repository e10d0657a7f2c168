"""A task that is cancelled while it waits for the n-th time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator


class CancelledAt:
    """A coroutine whose task is cancelled while it waits for the times in *places*, from 1."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], *places: int) -> None:
        self._steps = coroutine.__await__()
        self._places = places
        self.waited = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        error: BaseException | None = None
        while True:
            try:
                future = next(self._steps) if error is None else self._steps.throw(error)
            except StopIteration as end:
                return end.value
            self.waited += 1
            if self.waited in self._places:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()  # it lands in what the task waits for next
            try:
                yield future
            except BaseException as raised:  # noqa: BLE001 - it belongs to the coroutine
                error = raised
            else:
                error = None
