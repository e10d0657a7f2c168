"""Measure full-text search: how long indexing takes, how large the index is, how quick words are.

    uv run python benchmarks/search.py
    uv run python benchmarks/search.py --messages 1000000

Messages of 20 to 120 words of a vocabulary in which few words are frequent and most are rare, a
tenth of them in Chinese characters, in sessions of 500. Each query is asked several times, a first
page of 20; shown is the median. "scan" asks a store that has no index and may make none, and
"unindexed 10 %" one whose index lacks the newest tenth. At the end one session is deleted, which
has to merge the whole index so that its words are gone from the bytes.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from state_store import NewMessage, SessionState, SqliteStore, new_id
from state_store.sqlite.beside import search_of

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKSPACE_ID = "11111111-2222-4333-8444-555555555555"
SESSION_LENGTH = 500
VOCABULARY_SIZE = 50_000
RARE = "zyzzyva"
LETTERS = "etaoinshrdlu"
QUERIES = {
    "rare word": RARE,
    "common word": "{0}",
    "common words": "{0} {1} {2}",
    "common phrase": '"{1} {0}"',
    "one letter": "z",
    "CJK character": "漢",
    "CJK word": "漢字",
    "nothing": "absentword",
}


def main() -> None:
    """Fill a store, index it, ask it, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "state.sqlite3"
        with closing(SqliteStore.open(path, workspace_id=WORKSPACE_ID)) as store:
            fill(store, options.messages)
            size = path.stat().st_size
            print(f"{options.messages:,} messages, database {size / 1e6:,.0f} MB")
            with closing(SqliteStore.open(path, workspace_id=WORKSPACE_ID, writing=False)) as one:
                ask(one, "scan", min(options.rounds, 2))
            longest = index(store, options.messages * 9 // 10)
            with closing(SqliteStore.open(path, workspace_id=WORKSPACE_ID, writing=False)) as one:
                ask(one, "unindexed 10 %", options.rounds)
            longest = max(longest, index(store, options.messages))
            size = search_of(path).stat().st_size
            print(f"index {size / 1e6:,.0f} MB, longest slice {longest * 1000:.0f} ms")
            ask(store, "indexed", options.rounds)
            session_id = store.list(limit=1).items[0].id
            began = time.perf_counter()
            store.delete(session_id)
            print(f"delete a session of {SESSION_LENGTH}: {time.perf_counter() - began:.2f} s")


def fill(store: SqliteStore, count: int) -> None:
    """Save so many messages, the same ones each time."""
    source = random.Random(20261130)  # noqa: S311 - the same text in each run
    texts = messages(source, vocabulary())
    for number in range(0, count, SESSION_LENGTH):
        history = [NewMessage(role="user", content=next(texts)) for _ in range(SESSION_LENGTH)]
        if number == 0:
            history[0] = NewMessage(role="user", content=f"once and no more: {RARE}")
        store.save(SessionState(id=new_id(), messages=tuple(history)), timedelta(0))


def vocabulary() -> list[str]:
    """Return words of up to eight letters, the same ones each time."""
    source = random.Random(1)  # noqa: S311 - the same
    return [
        "".join(source.choices(LETTERS, k=source.randint(3, 8))) for _ in range(VOCABULARY_SIZE)
    ]


def messages(source: random.Random, words: list[str]) -> Iterator[str]:
    """Yield texts without end."""
    han = "漢字日本語文章検索中国人大学生活動物理化学期間" * 4
    while True:
        length = source.randint(20, 120)
        if source.random() < 0.1:  # noqa: PLR2004 - a tenth, as the module says
            start = source.randrange(len(han) // 2)
            yield han[start : start + length // 2] + str(source.randrange(VOCABULARY_SIZE))
        else:
            # Few words are frequent: their number is a power of chance.
            numbers = (int(len(words) ** source.random()) - 1 for _ in range(length))
            yield " ".join(words[number] for number in numbers)


def index(store: SqliteStore, until: int) -> float:
    """Index up to so many messages; print how long it took and return the longest slice."""
    longest = 0.0
    began = time.perf_counter()
    indexed = 0
    while indexed < until:
        before = time.perf_counter()
        indexed = store.prepare_search().indexed_count
        longest = max(longest, time.perf_counter() - before)
    print(f"indexed to {indexed:,} in {time.perf_counter() - began:.1f} s")
    return longest


def ask(store: SqliteStore, name: str, rounds: int) -> None:
    """Print how long each query takes."""
    frequent = vocabulary()[:3]
    for words, pattern in QUERIES.items():
        query = pattern.format(*frequent)
        for order in ("newest", "relevance"):
            times = []
            count = 0
            for _ in range(rounds):
                began = time.perf_counter()
                count = len(store.search(query, order=order).items)
                times.append(time.perf_counter() - began)
            median = statistics.median(times) * 1000
            print(f"  {name:15} {words:19} {order:10} {count:3} hits {median:9.1f} ms")


if __name__ == "__main__":
    main()
