"""An export for a running event loop: many pieces a hop, and no more of them than fit.

Invariant: what waits in memory is bounded by its bytes, not by its number: one message can be as
large as a thousand others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from state_store import OwnedThread

_BYTES_PER_HOP = 256 * 1024


async def pieces_from(source: Iterator[bytes], thread: OwnedThread) -> AsyncIterator[bytes]:
    """Yield what *source* yields, read in *thread*."""
    while taken := await thread.call(_take, source):
        for piece in taken:
            yield piece


def _take(source: Iterator[bytes]) -> list[bytes]:
    taken: list[bytes] = []
    byte_count = 0
    for piece in source:
        taken.append(piece)
        byte_count += len(piece)
        if byte_count >= _BYTES_PER_HOP:
            break
    return taken
