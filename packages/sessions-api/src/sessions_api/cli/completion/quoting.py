"""Words of a shell's line: taken apart as the shell does, and put back so that it reads the same.

Owns what quotes and backslashes mean in an unfinished line. Invariant: what `quoted` returns is,
read by the shell in the place it is for, exactly the value. Must not: expand anything; a variable
or a command on the line stays the text it is.

Source: bash manual, "Quoting" and "History Interaction"; readline, rl_completer_quote_characters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Quote = Literal["", "'", '"']

_UNSAFE = re.compile(r"[^\w./,+%-]")  # letters of any script need no quoting
_ACTIVE_IN_DOUBLE = re.compile(r'["\\$`]')


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """The word at the cursor: its `value` so far, and how it is written.

    `quote` is the quotation mark that is open at its end, "" for none. `replaced_from` is how many
    characters of the value stand before what the shell replaces.
    """

    value: str
    quote: Quote
    replaced_from: int


def taken_apart(line: str, *, breaks: str = "") -> tuple[list[str], Word]:
    """Return the whole words of *line* before its end, and the one that its end is in.

    At unquoted *breaks* (COMP_WORDBREAKS) bash begins what it replaces anew, inside of a word.
    """
    words: list[str] = []
    value, quote, begun, start, opened = "", "", False, 0, 0
    letters = iter(line)
    for letter in letters:
        if quote == "'":
            quote, value = ("", value) if letter == "'" else (quote, value + letter)
        elif letter == "\\":
            following = next(letters, "")
            is_kept = quote == '"' and not _ACTIVE_IN_DOUBLE.fullmatch(following)
            value, begun = value + (letter if is_kept else "") + following, True
        elif quote == '"':
            quote, value = ("", value) if letter == '"' else (quote, value + letter)
        elif letter in "'\"":
            quote, begun, opened = letter, True, len(value)
        elif letter.isspace():
            if begun:
                words.append(value)
            value, begun, start = "", False, 0
        else:
            value, begun = value + letter, True
            if letter in breaks:
                start = len(value)
    end: Quote = "'" if quote == "'" else '"' if quote else ""
    return words, Word(value=value, quote=end, replaced_from=opened if end else start)


def unquoted(word: str) -> str:
    """Return the value of one word as it is written on a line, its quotation mark open or not."""
    words, last = taken_apart(word)
    return " ".join([*words, last.value])


def quoted(value: str, word: Word) -> str:
    """Return what bash has to put in the place of *word* so that it reads *value*."""
    rest = value[word.replaced_from :]
    if word.quote == "'":
        return rest.replace("'", "'\\''")
    if word.quote == '"':
        # Between double quotes nothing keeps a ! from meaning an earlier command.
        return _ACTIVE_IN_DOUBLE.sub(r"\\\g<0>", rest).replace("!", '"\\!"')
    return _UNSAFE.sub(r"\\\g<0>", rest)
