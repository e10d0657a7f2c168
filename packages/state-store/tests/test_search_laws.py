from __future__ import annotations

import json
import os
import unicodedata
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from state_store import NewSession, SessionState, SqliteStore, new_id, to_text, utc_now
from state_store.sqlite.beside import search_of
from state_store.sqlite.search import searching
from state_store.sqlite.search.query import Query
from state_store.sqlite.search.searching import Search
from state_store.sqlite.search.snippet import MAX_LENGTH, snippet
from state_store.sqlite.search.words import decomposed, iter_words, joined_words, rough
from state_store.testing.turns import user

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORKSPACE_ID = "11111111-2222-4333-8444-555555555555"
# What each character of a small alphabet is to the model: a part of a word, a word, or nothing.
PARTS = {char: char.lower() for char in "aAbBñN1жЖء"} | {
    "é": "e",
    "É": "e",
    "ñ": "n",
    "ß": "ss",
    "İ": "i",
    "\u0301": "",
    "\u0640": "",
}
ALONE = {char: char for char in "日本かがカ한国🚀々"} | {"ｶ": "カ", "㐀": "㐀", "𠀀": "𠀀"}
NOTHING = " \t\n\0\x1b.,-*_:()^'™。・\u200f\u200d\ufeff"
alphabet = st.sampled_from([*PARTS, *ALONE, *NOTHING, *"  abab"])
small_text = st.text(alphabet, max_size=14)
any_text = st.text(st.characters(codec="utf-8"), max_size=30)
queries = st.lists(
    st.one_of(st.text(alphabet, max_size=3), st.text(alphabet, max_size=5).map('"{}"'.format)),
    max_size=3,
).map(" ".join)
LONG = os.environ.get("STATE_STORE_LONG") == "1"
few = settings(
    deadline=None,
    max_examples=300 if LONG else 10,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def model_words(text: str) -> list[str]:
    """Return the words of a text over the alphabet, one character after the other."""
    words: list[str] = []
    word, has_letter = "", False
    for char in [*text, " "]:
        if char in PARTS and (char != "\u0301" or has_letter):
            word, has_letter = word + PARTS[char], True
            continue
        if word:
            words.append(word)
        word, has_letter = "", False
        if char in ALONE:
            words.append(ALONE[char])
    return words


def model_query(text: str) -> list[tuple[list[str], bool]]:
    """Return the phrases asked for, and whether the last word may go on."""
    pieces = [
        (piece, number % 2 == 0)
        for number, part in enumerate(text.split('"'))
        for piece in ([part] if number % 2 else part.split())
    ]
    phrases = [(model_words(piece), goes_on) for piece, goes_on in pieces if model_words(piece)]
    return [(words, last and at == len(phrases) - 1) for at, (words, last) in enumerate(phrases)]


def model_finds(query: str, text: str) -> bool:
    """Say whether *query* finds *text*, by trying every place."""
    words = model_words(text)
    phrases = model_query(query)

    def is_at(at: int, phrase: list[str], *, goes_on: bool) -> bool:
        there = words[at : at + len(phrase)]
        if len(there) < len(phrase):
            return False
        if goes_on:
            return there[:-1] == phrase[:-1] and there[-1].startswith(phrase[-1])
        return there == phrase

    return bool(phrases) and all(
        any(is_at(at, phrase, goes_on=goes_on) for at in range(len(words)))
        for phrase, goes_on in phrases
    )


def rows_by_hand(store: SqliteStore) -> list[tuple[str, int | None, str]]:
    """Return title and messages that can be found, in the order of hits, past all search code."""
    with store._database.read() as connection:
        titles = connection.execute(
            "SELECT id, NULL, title FROM sessions WHERE title IS NOT NULL ORDER BY id DESC"
        ).fetchall()
        messages = connection.execute(
            "SELECT session_id, seq, content FROM messages WHERE undone_at IS NULL ORDER BY id DESC"
        ).fetchall()
    return [*titles, *messages]  # type: ignore[list-item]  # columns of these types


@pytest.fixture(params=["absent", "partial", "stale", "damaged", "complete", "in memory"])
def store(
    request: pytest.FixtureRequest, path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SqliteStore]:
    """Return a store whose index is brought into this state before each search, and asked."""
    monkeypatch.setattr(searching, "READ_FIRST", 0)
    if request.param == "in memory":
        opened = SqliteStore.in_memory(workspace_id=WORKSPACE_ID)
    else:
        opened = SqliteStore.open(path, workspace_id=WORKSPACE_ID)
    if request.param == "partial":
        # A message is all that is indexed at a time, and searching does not index.
        monkeypatch.setattr(opened._search, "catch_up", lambda **_: None)
    with closing(opened):
        opened.state_of_index = request.param  # type: ignore[attr-defined]  # the test's word
        yield opened


def bring_into_state(store: SqliteStore, number: int) -> None:
    """Bring the index into its state: there, not there, half done, of another database, broken."""
    state = store.state_of_index  # type: ignore[attr-defined]  # see the fixture
    index = search_of(store._database.path)
    if state == "absent":
        assert store._search._file is not None
        assert store._search._file.discard()
    elif state == "complete":
        assert store.prepare_search(slice_ms=60_000).complete
    elif state == "partial":
        Search.catch_up(store._search, create=True, slice_ms=0)
    elif state == "stale" and number % 3 == 0:
        assert store.prepare_search(slice_ms=60_000).complete
        with store._database.write() as connection:
            connection.execute("UPDATE store SET generation = ?", (new_id(),))
    elif state == "damaged" and number % 3 == 0 and store.prepare_search().complete:
        content = bytearray(index.read_bytes())
        for at in range(100 + number % 7, len(content), 97):
            content[at] ^= 0x5A
        index.write_bytes(content)


@given(
    conversations=st.lists(
        st.tuples(st.none() | small_text, st.lists(small_text, min_size=1, max_size=4)),
        min_size=2,
        max_size=4,
    ),
    deleted=st.booleans(),
    undone=st.integers(0, 5),
    query=queries,
    limit=st.integers(1, 4),
)
@few
def test_a_search_finds_what_the_model_finds(
    store: SqliteStore,
    conversations: list[tuple[str | None, list[str]]],
    undone: int,
    query: str,
    limit: int,
    *,
    deleted: bool,
) -> None:
    """Whatever the texts, the query and the state of the index."""
    for session in store.list(limit=None).items:
        store.delete(session.id)
    for number, (title, texts) in enumerate(conversations):
        messages = tuple(user(text) for text in texts)
        state = SessionState(id=new_id(), settings=NewSession(title=title), messages=messages)
        store.save(state, timedelta(0))
        bring_into_state(store, number)
    if deleted:
        store.delete(store.list().items[-1].id)
    with store._database.write() as connection:
        connection.execute(
            "UPDATE messages SET undone_at = ? WHERE id ="
            " (SELECT id FROM messages ORDER BY id LIMIT 1 OFFSET ?)",
            (to_text(utc_now()), undone),
        )
    bring_into_state(store, undone)
    expected = [row[:2] for row in rows_by_hand(store) if model_finds(query, row[2])]
    hits = store.search(query, limit=None).items
    assert [(hit.session_id, hit.seq) for hit in hits] == expected
    ranked = store.search(query, limit=None, order="relevance").items
    assert sorted(ranked, key=hits.index) == list(hits)
    cursor, number = None, 0
    for number in range(len(hits) + 1):
        page = store.search(query, limit=limit, cursor=cursor)
        assert page.items == hits[number * limit : (number + 1) * limit]
        cursor = page.next_cursor
        bring_into_state(store, number)
        if cursor is None:
            break
    assert (number + 1) * limit >= len(hits)


@given(any_text, any_text)
@settings(deadline=None, max_examples=400)
def test_words_of_any_text_are_words_again_and_are_in_their_places(text: str, other: str) -> None:
    """Folding twice is folding once; each word is where it is said to be; none is passed over."""
    joined = joined_words(text)
    words = joined.split()
    assert joined_words(joined) == joined
    assert joined == (f" {' '.join(words)} " if words else "")
    placed = list(iter_words(text))
    assert [word for word, _, _ in placed] == words
    for word, first, end in placed:
        assert word in joined_words(text[first:end]).split()
        assert decomposed(word) in rough(text)
        assert all(not char.isascii() or char.isalnum() for char in word)
    if not other[:1].strip() or other.isascii():
        assert joined_words(f"{text} {other}").split() == [*words, *joined_words(other).split()]


@given(any_text, st.integers(0, 20), st.integers(1, 10))
@settings(deadline=None, max_examples=300)
def test_a_text_is_found_by_any_part_of_it(text: str, skipped: int, taken: int) -> None:
    """By words of it in quotes; in any normal form and case."""
    words = joined_words(text).split()[skipped : skipped + taken]
    quoted = '"{}"'.format(" ".join(words))
    for form in (unicodedata.normalize(name, text) for name in ("NFC", "NFD")):
        assert not words or Query.parse(quoted).matches(form)


@given(any_text, any_text)
@settings(deadline=None, max_examples=300)
def test_a_snippet_is_a_printable_line_that_shows_a_match(before: str, text: str) -> None:
    """Of at most so many characters; what is said to match is what was asked for."""
    words = joined_words(text).split()
    query = Query.parse('"{}"'.format(words[0] if words else ""))
    line, matches = snippet(before * 20 + f" {text}" * 20, query)
    assert len(line) <= MAX_LENGTH
    assert "\n" not in line
    assert bool(matches) is bool(words)
    for first, end in matches:
        assert 0 <= first < end <= len(line)
    if matches and len(words[0]) < 20:
        assert words[0] in joined_words(line[matches[0][0] : matches[0][1]]).split()
    assert json.dumps(line)
