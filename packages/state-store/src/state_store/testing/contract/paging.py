"""Pages: every row once, in order, whatever happens between two pages."""

from __future__ import annotations

import base64
import json
import sys
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from state_store.errors import CursorInvalid
from state_store.testing.clocks import SteppingClock
from state_store.testing.contract.basis import Contract, OpenStore
from state_store.testing.turns import session_with_turn, turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from state_store.protocol import SessionStore
    from state_store.records import Page

SESSION_COUNT = 200
MALFORMED = {
    "empty": "",
    "no base64": "not a cursor!",
    "no ascii": "é",
    "no JSON": base64.urlsafe_b64encode(b"{").decode(),
    "no list": base64.urlsafe_b64encode(b"{}").decode(),
    "deep": base64.urlsafe_b64encode(b"[" * 9000).decode(),
    "lone surrogate": base64.urlsafe_b64encode(b'["sessions","\\ud800","x"]').decode(),
    "other shape": base64.urlsafe_b64encode(b'["sessions",1,2]').decode(),
    "too short": base64.urlsafe_b64encode(b'["sessions"]').decode(),
}


def all_items(read: Callable[[str | None], Page[Any]]) -> list[Any]:
    """Return the items of all pages that *read* gives, one cursor after the other."""
    items: list[Any] = []
    cursor = None
    while True:
        page = read(cursor)
        items += page.items
        if (cursor := page.next_cursor) is None:
            return items
        assert page.items, "a page with a next one is not empty"


def page_reader(
    store: SessionStore, listing: str, session_id: str, *, limit: int | None = 2
) -> Callable[[str | None], Page[Any]]:
    """Return what reads the page of *listing* after a cursor."""
    readers: dict[str, Callable[[str | None], Page[Any]]] = {
        "sessions": lambda cursor: store.list(limit=limit, cursor=cursor),
        "archived": lambda cursor: store.list(limit=limit, cursor=cursor, archived=True),
        "messages": lambda cursor: store.messages(session_id, limit=limit, cursor=cursor),
        "all messages": lambda cursor: store.messages(
            session_id, view="all", limit=limit, cursor=cursor
        ),
        "runs": lambda cursor: store.runs(session_id, limit=limit, cursor=cursor),
    }
    return readers[listing]


def filled(store: SessionStore) -> str:
    """Fill every listing with more than one page of two; return the session with the runs."""
    session_id = session_with_turn(store)
    for _ in range(4):
        turn(store, session_id)
        store.create_session()
        store.archive_session(store.create_session().id, archived=True)
    return session_id


LISTINGS = ["sessions", "archived", "messages", "all messages", "runs"]


class PagingContract(Contract):
    """Pages concatenate to the whole."""

    @pytest.mark.parametrize("listing", LISTINGS)
    def test_pages_of_any_size_make_up_the_whole(self, store: SessionStore, listing: str) -> None:
        """The last page says that it is the last; None is everything, with no hidden cap."""
        session_id = filled(store)
        whole = page_reader(store, listing, session_id, limit=None)(None)
        assert whole.next_cursor is None
        count = len(whole.items)
        assert count >= 4
        for limit in (1, 2, count - 1, count, count + 1, sys.maxsize):
            read = page_reader(store, listing, session_id, limit=limit)
            assert all_items(read) == list(whole.items), limit
            assert len(read(None).items) == min(limit, count)
            assert (read(None).next_cursor is None) == (limit >= count)

    def test_sessions_that_share_one_time_come_once_each(self, open_store: OpenStore) -> None:
        """200 sessions of one instant, in pages of 1 to 201 (C19)."""
        with closing(open_store(clock=SteppingClock(step=timedelta(0)))) as store:
            ids = {store.create_session().id for _ in range(SESSION_COUNT)}
            assert len({one.updated_at for one in store.list(limit=None).items}) == 1
            for limit in (1, 20, 199, 200, 201):
                read = page_reader(store, "sessions", "", limit=limit)
                found = [one.id for one in all_items(read)]
                assert len(found) == SESSION_COUNT, limit
                assert set(found) == ids, limit

    def test_what_comes_or_goes_between_pages_moves_nothing_else(
        self, open_store: OpenStore
    ) -> None:
        """Newer sessions are not on later pages, deleted ones are gone, the rest comes once."""
        with closing(open_store(clock=SteppingClock())) as store:
            ids = [store.create_session().id for _ in range(9)][::-1]
            first = store.list(limit=3)
            assert [one.id for one in first.items] == ids[:3]
            store.create_session()
            store.delete(ids[2])  # the row that the cursor stands on
            store.delete(ids[4])
            second = store.list(limit=3, cursor=first.next_cursor)
            assert [one.id for one in second.items] == [ids[3], ids[5], ids[6]]
            assert second.next_cursor is not None
            store.delete(ids[8])
            third = store.list(limit=3, cursor=second.next_cursor)
            assert [one.id for one in third.items] == [ids[7]]
            assert third.next_cursor is None

    def test_messages_that_come_between_pages_are_on_the_later_ones(
        self, store: SessionStore
    ) -> None:
        """Reading on reads what was added meanwhile."""
        session_id = session_with_turn(store)
        page = store.messages(session_id, limit=1)
        turn(store, session_id, "more")
        rest = store.messages(session_id, cursor=page.next_cursor).items
        assert [one.content for one in rest] == ["answer", "more", "answer"]

    def test_a_cursor_of_another_listing_is_refused(self, store: SessionStore) -> None:
        """Of another kind, another view, another session; never read as "from the start"."""
        session_id = filled(store)
        cursors = {
            listing: page_reader(store, listing, session_id)(None).next_cursor
            for listing in LISTINGS
        }
        assert None not in cursors.values()
        for listing in LISTINGS:
            for other in LISTINGS:
                if listing != other:
                    with pytest.raises(CursorInvalid):
                        page_reader(store, listing, session_id)(cursors[other])
        other_session = session_with_turn(store)
        for listing in ("messages", "all messages", "runs"):
            with pytest.raises(CursorInvalid):
                page_reader(store, listing, other_session)(cursors[listing])

    def test_text_that_is_no_cursor_is_refused(self, store: SessionStore) -> None:
        """With a typed error that says nothing but that."""
        session_id = session_with_turn(store)
        for listing in LISTINGS:
            for name, cursor in MALFORMED.items():
                with pytest.raises(CursorInvalid):
                    pytest.fail(f"{name}: {page_reader(store, listing, session_id)(cursor)!r}")

    def test_a_cursor_that_was_cut_or_extended_is_refused(self, store: SessionStore) -> None:
        """A copy that lost its last characters does not lead somewhere else."""
        session_id = filled(store)
        for listing in LISTINGS:
            read = page_reader(store, listing, session_id)
            cursor = read(None).next_cursor
            assert cursor is not None
            for damaged in (cursor[:-4], cursor + "AAAA", cursor[4:]):
                with pytest.raises(CursorInvalid):
                    read(damaged)

    @pytest.mark.parametrize("listing", ["messages", "runs"])
    def test_a_forged_number_is_refused_or_leads_to_the_end(
        self, store: SessionStore, listing: str
    ) -> None:
        """However large it is."""
        session_id = filled(store)
        cursor = page_reader(store, listing, session_id)(None).next_cursor
        assert cursor is not None
        payload = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        payload[-1] = 10**30
        forged = base64.urlsafe_b64encode(json.dumps(payload).encode()).rstrip(b"=").decode()
        with pytest.raises(CursorInvalid):
            page_reader(store, listing, session_id)(forged)

    @pytest.mark.parametrize("limit", [0, -1, -20])
    def test_a_limit_below_one_is_refused(self, store: SessionStore, limit: int) -> None:
        """Zero is no way to say "all", and neither is a negative number."""
        session_id = session_with_turn(store)
        for listing in LISTINGS:
            with pytest.raises(ValueError, match="limit"):
                page_reader(store, listing, session_id, limit=limit)(None)

    def test_a_list_has_twenty_rows_unless_told_otherwise(self, store: SessionStore) -> None:
        """The default of `list` alone; messages and runs come whole."""
        for _ in range(21):
            store.create_session()
        page = store.list()
        assert len(page.items) == 20
        assert page.next_cursor is not None

    def test_the_last_messages_come_in_order(self, store: SessionStore) -> None:
        """At most as many as there are; a count below one is refused."""
        session_id = filled(store)
        whole = store.messages(session_id).items
        for count in (1, 3, len(whole), len(whole) + 1):
            assert store.last_messages(session_id, count) == whole[-count:]
        for count in (0, -1):
            with pytest.raises(ValueError, match="limit"):
                store.last_messages(session_id, count)
