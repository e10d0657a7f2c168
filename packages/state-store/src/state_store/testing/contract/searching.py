"""Search: what is there is found, as people write it, and nothing that is not there any more."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from state_store.clock import new_id
from state_store.errors import CursorInvalid, SessionNotFound
from state_store.records import NewMessage, NewSession, SessionState
from state_store.testing.contract.basis import Contract
from state_store.testing.contract.paging import all_items
from state_store.testing.turns import begin, calling, complete, result, turn, user

if TYPE_CHECKING:
    from state_store.protocol import SessionStore
    from state_store.records import Hit, SearchOrder

# What is stored, what is asked for, and whether that is found.
ASKED: tuple[tuple[str, str, bool], ...] = (
    ("Hello, World!", "hello", True),
    ("Hello, World!", "WORLD hello", True),
    ("Hello, World!", "wor", True),
    ("Hello, World!", "wor hello", False),
    ("Hello, World!", '"wor"', False),
    ("Hello, World!", "orld", False),
    ("the quick brown fox", '"quick brown"', True),
    ("the quick brown fox", '"brown quick"', False),
    ("the quick brown fox", '"quick bro', False),
    ("the file was not-found here", "not-found", True),
    ("found, but not here", "not-found", False),
    ("don't", "don't", True),
    ("Crème brûlée", "creme BRULEE", True),
    ("Creme brulee", "crème brûlée", True),
    ("cafe\u0301s", "cafés", True),
    ("STRASSE", "straße", True),
    ("日本語を検索する", "検索", True),
    ("日本語を検索する", "索", True),
    ("日本語を検索する", "語検", False),
    ("ひらがなとカタカナ", "がな", True),
    ("ひらがなとカタカナ", "かな", False),
    ("ガラス", "ｶﾞﾗｽ", True),
    ("か\u3099", "が", True),
    ("한국어 검색", "국어", True),
    ("한국어 검색", "국 검", True),
    ("中文搜索 works too", "搜 works", True),
    ("launch 🚀 now", "🚀", True),
    ("launch now", "🚀", False),
    ("שָׁלוֹם עולם", "שלום", True),
    ("مرحبا بالعالم", "مرحبا", True),
    ("Привет, мир", "ПРИВЕТ", True),
    ("a\0b", "b", True),
    ("x\x1b[31mred\x1b[0m", "31mred", True),
    ("a OR b", "or", True),
    ("only this", "NOT other", False),
    ("col: x", "col:x", True),
    ("100% of it", "100%", True),
    ("a\u2028b", "a b", True),
    ("w" * 70_000, "w" * 70_000, True),
    ("w" * 70_000, '"' + "w" * 69_999 + '"', False),
    ("w" * 70_000, "w" * 69_999, True),
)
WITHOUT_A_WORD = ("", " \t\n", '"', '""', "*", "?!", "\0", "\ufffd", "。、", "\ud800")
HOSTILE = (
    '"',
    "NEAR(",
    "a AND",
    "(",
    "text:",
    "^x",
    "-x",
    "{a b}:c",
    "x*y",
    "%",
    "a" * 5000,
    "\ud83d x",
)


def found(store: SessionStore, query: str, **options: Any) -> list[tuple[str, int | None]]:
    """Return session and seq of all hits, in order."""
    page = store.search(query, limit=None, **options)
    assert page.next_cursor is None
    return [(hit.session_id, hit.seq) for hit in page.items]


def saved(store: SessionStore, *texts: str, title: str | None = None) -> str:
    """Return the id of a session with these messages."""
    state = SessionState(
        id=new_id(),
        settings=NewSession(title=title),
        messages=tuple(user(text) for text in texts),
    )
    return store.save(state, timedelta(0)).id


def read_by_pages(
    store: SessionStore, query: str, *, order: SearchOrder = "newest", limit: int = 3
) -> list[Hit]:
    """Return all hits, some at a time."""
    return all_items(lambda cursor: store.search(query, limit=limit, cursor=cursor, order=order))


class SearchContract(Contract):
    """Whatever the store does to be quick, it finds what reading everything would find."""

    @pytest.mark.parametrize("prepared", [False, True], ids=["at once", "prepared"])
    def test_words_are_found_as_people_write_them(
        self, store: SessionStore, *, prepared: bool
    ) -> None:
        """Case, accents, phrases, beginnings, scripts without spaces, emoji, odd characters."""
        keys = [saved(store, "…", text, "…") for text, _, _ in ASKED]
        for _ in range(2 if prepared else 0):
            store.prepare_search()
        for key, (text, query, expected) in zip(keys, ASKED, strict=True):
            hits = found(store, query)
            assert ((key, 2) in hits) is expected, (text[:50], query[:50])
            assert found(store, query, session_id=key) == ([(key, 2)] if expected else [])

    def test_whatever_is_typed_is_no_syntax(self, store: SessionStore) -> None:
        """It finds or does not find; without a word in it, nothing."""
        saved(store, "a plain message: x y z")
        for query in WITHOUT_A_WORD:
            assert store.search(query).items == (), query
        for query in HOSTILE:
            for hit in store.search(query).items:
                assert "message" in hit.snippet

    def test_titles_messages_and_results_of_tools_are_found(self, store: SessionStore) -> None:
        """A title's hit has no seq; failed runs are found too."""
        session_id = store.create_session(NewSession(title="A needle of a title")).id
        run = begin(store, session_id, "where is the needle?")
        seq = store.start_tools(run.id, calling("a"), ["safe"]).seq
        seen = result("a", "here: needle")
        store.finish_tool(run.id, call_seq=seq, call_index=0, outcome="ok", message=seen)
        complete(store, run)
        broken = begin(store, session_id, "another needle")
        store.fail_run(broken.id, "cancelled", usage=broken.usage)
        hits = store.search("needle").items
        assert [(hit.seq, hit.role) for hit in hits] == [
            (None, None),
            (5, "user"),
            (3, "tool"),
            (1, "user"),
        ]
        assert hits[0].snippet == "A needle of a title"
        store.update_session(session_id, {"title": "renamed"})
        assert found(store, "needle of title") == []
        assert found(store, "renamed") == [(session_id, None)]

    def test_text_in_parts_is_found(self, store: SessionStore) -> None:
        """A message may have all its text there."""
        part = {"type": "text", "text": "in a part"}
        picture = {"type": "image_url", "image_url": {"url": "data:hidden"}}
        session_id = store.create_session().id
        store.begin_run(session_id, NewMessage(role="user", parts=(picture, part)), run_id=new_id())
        assert found(store, "in a part") == [(session_id, 1)]
        assert found(store, "hidden") == []

    def test_only_originals_are_found(self, store: SessionStore) -> None:
        """A summary stands for what is found itself."""
        session_id = store.create_session().id
        run = begin(store, session_id, "needle")
        summary = NewMessage(role="user", content="needle", kind="summary", covers=(1, 1))
        store.start_tools(run.id, summary, [])
        assert found(store, "needle") == [(session_id, 1)]

    def test_what_was_undone_is_not_found_until_it_is_done_again(self, store: SessionStore) -> None:
        """Indexed meanwhile or not; messages without a run too."""
        session_id = saved(store, "needle before")
        turn(store, session_id, "needle in a run")
        everything = [(session_id, 2), (session_id, 1)]
        for seqs in (everything[1:], []):
            store.undo(session_id)
            assert found(store, "needle") == seqs
            assert found(store, "needle", session_id=session_id) == seqs
            store.prepare_search()
        store.redo(session_id, 2)
        assert found(store, "needle") == everything

    @pytest.mark.parametrize("order", ["newest", "relevance"])
    def test_pages_concatenate_to_the_whole(self, store: SessionStore, order: SearchOrder) -> None:
        """In both orders, also when messages and sessions come and go in between."""
        for number in range(3):
            saved(store, *(f"needle {i} " + "hay " * (i % 5) for i in range(7)), title="needle")
            saved(store, f"other {number}")
        whole = store.search("needle", limit=None, order=order).items
        assert len(whole) == 24
        assert len(set(whole)) == 24
        for limit in (1, 5, 23, 24, 25):
            assert read_by_pages(store, "needle", order=order, limit=limit) == list(whole)
        first = store.search("needle", limit=10, order=order)
        saved(store, "needle, which came later", title="needle later")
        rest: list[Hit] = []
        cursor = first.next_cursor
        while cursor is not None:
            page = store.search("needle", limit=4, cursor=cursor, order=order)
            rest += page.items
            cursor = page.next_cursor
        assert [*first.items, *rest] == list(whole)

    def test_the_newest_come_first(self, store: SessionStore) -> None:
        """In the order in which they were stored, whatever times they carry."""
        old = NewMessage(role="user", content="needle", created_at=datetime(2001, 1, 1, tzinfo=UTC))
        first = saved(store, "needle")
        state = SessionState(id=new_id(), messages=(old, user("needle")))
        store.save(state, timedelta(0))
        hits = store.search("needle").items
        assert [(hit.session_id, hit.seq) for hit in hits] == [
            (state.id, 2),
            (state.id, 1),
            (first, 1),
        ]
        assert hits[1].created_at == old.created_at

    def test_by_relevance_what_says_it_often_and_briefly_comes_first(
        self, store: SessionStore
    ) -> None:
        """The same hits as by time."""
        often = saved(store, "needle needle needle hay")
        once = saved(store, "needle " + "hay " * 200)
        brief = saved(store, "needle")
        assert found(store, "needle", order="relevance") == [(often, 1), (brief, 1), (once, 1)]
        assert found(store, "needle") == [(brief, 1), (once, 1), (often, 1)]

    def test_a_search_can_be_held_to_a_session_or_to_archived_ones(
        self, store: SessionStore
    ) -> None:
        """By default all are searched, archived ones too."""
        kept, archived = (saved(store, "needle", title="needle") for _ in range(2))
        store.archive_session(archived, archived=True)
        # Of titles the highest id comes first, and within a millisecond that is either.
        titles: list[tuple[str, int | None]] = [(key, None) for key in (kept, archived)]
        everything = [*sorted(titles, reverse=True), (archived, 1), (kept, 1)]
        assert found(store, "needle") == everything
        assert found(store, "needle", archived=False) == [(kept, None), (kept, 1)]
        assert found(store, "needle", archived=True) == [(archived, None), (archived, 1)]
        assert found(store, "needle", session_id=kept) == [(kept, None), (kept, 1)]
        assert found(store, "needle", session_id=kept, archived=True) == []
        with pytest.raises(SessionNotFound):
            store.search("needle", session_id=new_id())

    def test_what_was_deleted_is_not_found(self, store: SessionStore) -> None:
        """At once, and neither is its title; others stay (C41)."""
        gone, kept = (saved(store, "needle", title="needle") for _ in range(2))
        store.prepare_search()
        assert store.delete(gone).erased
        assert found(store, "needle") == [(kept, None), (kept, 1)]
        state = store.prepare_search()
        assert state.message_count == 1

    def test_a_cursor_is_of_one_search(self, store: SessionStore) -> None:
        """Another query, order or scope refuses it, and so does another listing."""
        session_id = saved(store, *["needle"] * 5)
        cursor = store.search("needle", limit=2).next_cursor
        assert cursor is not None
        assert store.search("needle", limit=2, cursor=cursor).items
        attempts: list[dict[str, Any]] = [
            {"order": "relevance"},
            {"session_id": session_id},
            {"archived": False},
        ]
        for options in attempts:
            with pytest.raises(CursorInvalid):
                store.search("needle", cursor=cursor, **options)
        for query, bad in (("other", cursor), ("needle", "x"), ("needle", "")):
            with pytest.raises(CursorInvalid):
                store.search(query, cursor=bad)
        with pytest.raises(ValueError, match="limit"):
            store.search("needle", limit=0)
        with pytest.raises(ValueError, match="order"):
            store.search("needle", order="oldest")  # type: ignore[arg-type]  # on purpose

    def test_a_snippet_is_one_line_around_the_match(self, store: SessionStore) -> None:
        """Plain text of at most 160 characters, and where in it the words are."""
        text = "hay\n\t\x1b[1m" * 100 + "\u202eneedle\r\n  in\0a  stack" + "\nhay" * 100
        session_id = saved(store, text, "needle", "Needle, needle-point")
        long, short, twice = (
            next(hit for hit in store.search("need").items if hit.seq == seq) for seq in (1, 2, 3)
        )
        assert long.session_id == session_id
        assert len(long.snippet) <= 160
        assert long.snippet.startswith("…")
        assert long.snippet.endswith("…")
        assert "needle in a stack hay" in long.snippet
        assert long.snippet.isprintable()
        assert [long.snippet[first:end] for first, end in long.matches] == ["needle"]
        assert (short.snippet, short.matches) == ("needle", ((0, 6),))
        assert [twice.snippet[first:end] for first, end in twice.matches] == ["Needle", "needle"]

    def test_a_message_of_20_megabytes_is_found(self, store: SessionStore) -> None:
        """Beside others, by a word at its end."""
        text = "lorem ipsum dolor si" * 1_000_000 + " needle"
        session_id = saved(store, "hay", text, "hay needle hay")
        assert found(store, "needle") == [(session_id, 3), (session_id, 2)]
        store.prepare_search()
        hit = store.search("dolor needle").items[0]
        assert hit.seq == 2
        assert len(hit.snippet) <= 160

    def test_preparing_comes_to_an_end_and_says_how_far_it_is(self, store: SessionStore) -> None:
        """Or at least says how many messages there are; what is found does not depend on it."""
        session_id = saved(store, *(f"needle {number}" for number in range(300)))
        turn(store, session_id)
        expected = found(store, "needle")
        assert len(expected) == 300
        assert store.search_state().message_count == 302
        before = -1
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            state = store.prepare_search(slice_ms=1)
            assert state == store.search_state()
            assert found(store, "needle") == expected
            if state.complete or state.indexed_count <= before:
                break
            before = state.indexed_count
        assert found(store, "answer") == [(session_id, 302)]
