"""From text to the words that are searched: the one place that says what a word is.

Words are runs of letters, digits and their marks, without case and without accents. Chinese,
Japanese and Korean are written without spaces, so each of their characters is a word of its own,
and a word of one or two characters is found; so is an emoji. Everything else separates.

Invariant: the index and a scan read the same words, for both get them here; FTS5 is given them
with spaces in between and has nothing left to decide. Must not: keep any text.
Source: Unicode Standard Annexes 15 (normalisation) and 44 (categories), and its case folding.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Han, kana, bopomofo, Hangul: radicals to halfwidth forms, and the planes of rare characters.
_UNSPACED = (
    r"\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3040-\u318f"
    r"\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff66-\uffdc"
    r"\U00016fe0-\U00018dff\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)
_JAMO = r"\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff"  # letters that make up a Hangul syllable
_VOICING = r"\uff9e\uff9f"  # halfwidth marks that belong to the kana before them
_EMOJI = r"\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
# Marks that change no word: accents, Hebrew and Arabic points, variation selectors, the tatweel.
# Those that are vowels of Indic scripts, or voice a kana, stay.
_ACCENTS = re.compile(
    r"[\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670"
    r"\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff"
    r"\ufe00-\ufe0f\ufe20-\ufe2f\U000e0100-\U000e01ef]+"
)
_ASCII_WORDS = re.compile(r"[a-z0-9]+")
_MARK_BLOCKS = (range(0x300, 0x1F000), range(0xE0100, 0xE01F0))


def joined_words(text: str) -> str:
    """Return the words of *text* in order, each between two spaces: `" one two "`.

    A phrase is in a text if its joined words are in the text's, as Python's `in` says it.
    """
    if text.isascii():
        found = _ASCII_WORDS.findall(text.lower())
    else:
        chunks = _chunks().findall(text)
        folded = {chunk: _fold(chunk) for chunk in set(chunks)}
        found = [word for chunk in chunks for word in folded[chunk]]
    return f" {' '.join(found)} " if found else ""


def iter_words(text: str, start: int = 0) -> Iterator[tuple[str, int, int]]:
    """Yield each word of *text* from *start* on with its place: the word, where, and up to where.

    *start* is where a word begins. The words are those of `joined_words`.
    """
    for chunk in _chunks().finditer(text, start):
        for word in _fold(chunk.group()):
            yield word, *chunk.span()


def rough(text: str) -> str:
    """Return *text* such that the `decomposed` words of it are somewhere in there."""
    if text.isascii():
        return text.lower()
    return _ACCENTS.sub("", unicodedata.normalize("NFKD", text)).casefold()


def decomposed(word: str) -> str:
    """Return a word in the form in which `rough` text has it."""
    return unicodedata.normalize("NFD", word)


def _fold(chunk: str) -> list[str]:
    """Return the words of a run of characters: one, but for a few that stand for several."""
    if chunk.isascii():
        return [chunk.lower()]
    folded = unicodedata.normalize("NFC", rough(chunk))
    return _chunks().findall(folded)


@cache
def _chunks() -> re.Pattern[str]:
    """Return what finds runs of characters that are folded together."""
    marks = _marks()
    letter = rf"[^\W_{_UNSPACED}{_JAMO}]"
    return re.compile(
        rf"{letter}+(?:[{marks}]+{letter}*)*"
        rf"|(?![\W_{_VOICING}])[{_UNSPACED}][{marks}{_VOICING}]*"
        rf"|[{_JAMO}]+"
        rf"|[{_EMOJI}]"
    )


def _marks() -> str:
    """Return all marks of this Python's Unicode as ranges of a character class."""
    found: list[list[int]] = []
    for block in _MARK_BLOCKS:
        for code in block:
            if unicodedata.category(chr(code))[0] == "M":
                if found and found[-1][1] == code - 1:
                    found[-1][1] = code
                else:
                    found.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in found)
