"""What a person typed, as phrases of words, and what it finds in a text.

Words are all looked for, in any order; what stands between double quotes, or is written without a
space ("not-found", "日本"), is a phrase: these words next to one another. The last word, unless it
is in quotes, is looked for as the beginning of a word too. Nothing that can be typed is syntax of
FTS5: it gets words alone, each phrase in quotes.

Invariant: `matches` decides. What FTS5 is asked is only ever less exact than that, so that an
index can propose a message too many, and none too few.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Self

from state_store.sqlite.search.words import decomposed, iter_words, joined_words, rough
from state_store.text import repair_text

if TYPE_CHECKING:
    from collections.abc import Sequence

# What FTS5 is asked at most; the rest of a longer query is up to `matches`.
_ASKED_PHRASES = 32
_ASKED_WORDS = 32
# A longer word is indexed by its beginning: a blob in one word must not fill the index.
INDEXED_WORD_LENGTH = 64
# BM25 with the constants of its authors, and one length for the mean, whatever is stored.
_K1, _B, _MEAN_WORDS = 1.2, 0.75, 100
SCORE_UNIT = 1_000_000

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words next to one another; with *open_end* the last may be the beginning of one."""

    words: tuple[str, ...]
    open_end: bool = False

    @property
    def needle(self) -> str:
        """What the joined words of a text contain if it has the phrase."""
        return f" {' '.join(self.words)}{'' if self.open_end else ' '}"

    def begins(self, words: Sequence[str]) -> bool:
        """Say whether *words* begin with the phrase."""
        last = len(self.words) - 1
        if last >= len(words) or tuple(words[:last]) != self.words[:last]:
            return False
        found, wanted = words[last], self.words[last]
        return found.startswith(wanted) if self.open_end else found == wanted


@dataclass(frozen=True, slots=True)
class Query:
    """Phrases that a text must all have. One without phrases finds nothing."""

    phrases: tuple[Phrase, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what a person typed. Whatever it is, it means something, if only nothing."""
        pieces: list[tuple[str, bool]] = []
        for number, part in enumerate(repair_text(text).split('"')):
            quoted = number % 2 == 1
            pieces += [(part, True)] if quoted else [(word, False) for word in part.split()]
        split = [(tuple(joined_words(piece).split()), quoted) for piece, quoted in pieces]
        found = [(words, quoted) for words, quoted in split if words]
        phrases = [Phrase(words) for words, _ in found]
        if found and not found[-1][1]:
            phrases[-1] = Phrase(found[-1][0], open_end=True)
        return cls(tuple(dict.fromkeys(phrases)))

    def matches(self, text: str) -> bool:
        """Say whether *text* has every phrase."""
        quick = rough(text)
        if not all(decomposed(word) in quick for phrase in self.phrases for word in phrase.words):
            return False
        joined = joined_words(text)
        return all(phrase.needle in joined for phrase in self.phrases)

    def score(self, text: str) -> int:
        """Return how well *text* fits, in millionths: often and in few words is better.

        BM25 but for how rare a word is: every hit has every word, and a score that depends on its
        text alone stays the same whatever else is stored or indexed.
        """
        joined = joined_words(text)
        length = joined.count(" ") - 1
        norm = _K1 * (1 - _B + _B * length / _MEAN_WORDS)
        counts = [joined.count(phrase.needle) for phrase in self.phrases]
        return round(SCORE_UNIT * sum(count * (_K1 + 1) / (count + norm) for count in counts))

    def spans(self, text: str, *, reach: int) -> list[Span]:
        """Return where phrases are in *text*, in order, from the first to *reach* beyond it."""
        longest = max((len(phrase.words) for phrase in self.phrases), default=0)
        reading = iter_words(text, self._first_possible(text))
        window = deque(islice(reading, longest))
        found: list[Span] = []
        while window and not (found and window[0][1] > found[0][0] + reach):
            words = [word for word, _, _ in window]
            found += [
                (window[0][1], window[len(phrase.words) - 1][2])
                for phrase in self.phrases
                if phrase.begins(words)
            ]
            window.popleft()
            window.extend(islice(reading, 1))
        return _merged(found)

    def _first_possible(self, text: str) -> int:
        """Return the beginning of a word before which no phrase is: a long text is not all read."""
        if not text.isascii():
            return 0
        starts = (rf"(?<![a-z0-9]){phrase.words[0]}" for phrase in self.phrases)
        found = re.search("|".join(starts), text.lower())
        return found.start() if found else len(text)

    def expression(self) -> str:
        """Return what to ask FTS5 for the texts that may match."""
        return " AND ".join(_asked(phrase) for phrase in self.phrases[:_ASKED_PHRASES])


def _asked(phrase: Phrase) -> str:
    words = phrase.words[:_ASKED_WORDS]
    open_end = phrase.open_end and len(words) == len(phrase.words)
    text = " ".join(word[:INDEXED_WORD_LENGTH] for word in words)
    return f'"{text}"{" *" if open_end else ""}'


def _merged(spans: list[Span]) -> list[Span]:
    """Return the spans in order, those that touch or overlap as one."""
    merged: list[Span] = []
    for first, end in sorted(spans):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((first, end))
    return merged
