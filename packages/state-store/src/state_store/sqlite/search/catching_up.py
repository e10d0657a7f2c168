"""Keeping the index in step with the database: what is new goes in, what was deleted goes out.

Invariant: indexing ends with the message in which its share of the slice is over, at least one goes
in, and nobody is waited for who is indexing already. Every deletion is seen to at some time,
whatever crashes: the index counts the tombstones that it has seen to, after the words are out of
its bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from state_store.sqlite.search.index import Index
    from state_store.sqlite.search.truth import Truth

Timer = Callable[[], float]
IDS_A_READ = 5_000
ADDING_SHARE = 0.75  # of a slice; the rest is for the commit, in which FTS5 merges


def add_new(index: Index, truth: Truth, *, last_id: int, slice_s: float, timer: Timer) -> None:
    """Index what is not in yet, oldest first, until all is or the slice is over.

    *last_id* is an id up to which the database had all messages before this call.
    """
    end = timer() + ADDING_SHARE * slice_s
    if index.progress.indexed_to >= last_id:
        return
    with index.changing():
        indexed_to = index.progress.indexed_to  # another process may have had the lock meanwhile
        for key, text in truth.texts_after(indexed_to):
            if text is not None:
                index.add(key, text)
            indexed_to = key
            if timer() >= end:
                break
        else:
            indexed_to = max(indexed_to, last_id)  # the last ones were deleted
        index.note_indexed(indexed_to)


def remove_deleted(index: Index, truth: Truth, *, wait_ms: int) -> None:
    """Take out what is not in the database any more, down to the bytes of the files."""
    tombstone_count = truth.source().tombstone_count
    if index.progress.tombstone_count == tombstone_count:
        return
    with index.changing(wait_ms=wait_ms):
        gone: list[int] = []
        after = 0
        while ids := index.ids(after, IDS_A_READ):
            present = truth.present(ids)
            gone += [key for key in ids if key not in present]
            after = ids[-1]
        if gone:
            index.remove(gone)
    # Before this the words are in the log still, so that a crash here has it all done again.
    index.empty_log(wait_ms=wait_ms)
    with index.changing(wait_ms=wait_ms):
        index.note_erased(tombstone_count)
