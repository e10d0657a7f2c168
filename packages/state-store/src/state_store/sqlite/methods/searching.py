"""Finding text, and keeping what makes that quick; see `state_store.sqlite.search`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from state_store.sqlite import sessions
from state_store.sqlite.methods.basis import StoreBasis
from state_store.sqlite.search import SLICE_MS

if TYPE_CHECKING:
    from state_store.records import Hit, Page, SearchOrder, SearchState


class SearchMethods(StoreBasis):
    """The methods that search all sessions or one."""

    def search(
        self,
        query: str,
        *,
        limit: int | None = 20,
        cursor: str | None = None,
        order: SearchOrder = "newest",
        session_id: str | None = None,
        archived: bool | None = None,
    ) -> Page[Hit]:
        """Find titles and messages. See `SessionStore`."""
        if session_id is not None:
            with self._database.read() as connection:
                sessions.require(connection, session_id)
        return self._search.page(
            query,
            limit=limit,
            cursor=cursor,
            order=order,
            session_id=session_id,
            archived=archived,
        )

    def prepare_search(self, *, slice_ms: int = SLICE_MS) -> SearchState:
        """Bring the search index on for a while. See `SessionStore`."""
        self._search.catch_up(create=True, slice_ms=slice_ms)
        return self._search.state()

    def search_state(self) -> SearchState:
        """Return how far the search index has got. See `SessionStore`."""
        return self._search.state()
