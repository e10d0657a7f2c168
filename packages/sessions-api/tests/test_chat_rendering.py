"""An answer's Markdown as lines: whole, without power, and settled where nothing can change it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sessions_api.chat.pasting import Pastes
from sessions_api.chat.rendering import end_of, rendered, settled_length
from sessions_api.showing.terminal_text import safe, width
from sessions_api.typed_lines import TypedLines

if TYPE_CHECKING:
    from pathlib import Path

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
BLOCKS = st.sampled_from(
    [
        "a paragraph of *words*\n",
        "another\nof two lines\n",
        "# heading\n",
        "- one\n- two\n",
        "1. first\n\n   with more\n2. second\n",
        "```py\ncode\n\n# no heading\n```\n",
        "> said\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n",
        "    indented\n",
        "---\n",
        "[ref]: http://there.example\n",
        "<div>\n",
        "* ",
        "```\nopen\n",
    ]
)
ANSWERS = st.lists(st.tuples(BLOCKS, st.sampled_from(["", "\n", "\n\n"])), max_size=8).map(
    lambda parts: "".join(block + gap for block, gap in parts)
)


def plain(lines: list[str]) -> list[str]:
    """Return *lines* without colours."""
    return [COLOUR.sub("", line) for line in lines]


def shown_in_pieces(pieces: list[str], columns: int) -> list[str]:
    """Return what is written for good when an answer comes in *pieces*."""
    lines: list[str] = []
    text = ""
    for piece in [*pieces, ""]:
        text += piece
        settled = settled_length(text)
        if piece:
            ready, text = text[:settled], text[settled:]
        else:
            ready, text = text, ""
        new = rendered(ready, columns)
        lines += ["", *new] if lines and new else new
    return lines


@settings(deadline=None)
@given(ANSWERS, st.integers(1, 9))
@example("1. a\n2. b\n\n1. goes on\n", 1)
@example("- a\n\n  - b\n\n- c\n\nend\n", 1)
def test_an_answer_in_pieces_is_the_answer(answer: str, size: int) -> None:
    """Letter by letter too: what was written for good is never what more text would change."""
    pieces = [answer[place : place + size] for place in range(0, len(answer), size)]
    whole = [line for line in plain(rendered(answer, 60)) if line]
    assert [line for line in plain(shown_in_pieces(pieces, 60)) if line] == whole


@settings(deadline=None)
@given(st.text(max_size=80), st.integers(20, 100))
def test_lines_have_no_power_and_fit(text: str, columns: int) -> None:
    """Whatever was said: colours are all that a line can do to a terminal."""
    for line in plain(rendered(safe(text), columns)):
        assert line == safe(line)
        assert "\n" not in line
        assert width(line) <= columns


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("a <b>bold</b> List<String>", "a <b>bold</b> List<String>"),
        ("&#x202e;&amp;&#27;", "&#x202e;&amp;&#27;"),
        ("![seen](http://x.example/i)", "!seen (http://x.example/i)"),
        ("[ref]: http://x.example", "[ref]: http://x.example"),
        ("[read](http://x.example/r) it", "read (http://x.example/r) it"),
        ("[red]no markup[/red] :smile:", "[red]no markup[/red] :smile:"),
        ("<!-- said -->", "<!-- said -->"),
        ("`会話` ~~old~~", "会話 old"),
    ],
)
def test_nothing_that_was_said_is_left_out(written: str, shown: str) -> None:
    """What Markdown would hide is shown as it was written."""
    assert plain(rendered(written, 60)) == [shown]


def test_links_are_text() -> None:
    """No sequence that makes a terminal open an address of the model's choice."""
    lines = rendered("[a](http://x.example) <http://y.example> ![i](http://z.example)", 60)
    assert "\x1b]" not in "".join(lines)
    assert COLOUR.sub("", "".join(lines)).isprintable()


def test_code_is_copied_as_it_is() -> None:
    """No frame around it and no padding behind it; a long line is folded."""
    lines = plain(rendered("```\nshort\n" + "x" * 50 + "\n```", 30))
    assert lines[0] == "  short"
    assert "".join(line.strip() for line in lines[1:]) == "x" * 50


def test_an_unsettled_end_stays_code() -> None:
    """So that the live end of a long block of code does not turn into headings."""
    answer = "```py\n" + "# comment\n" * 100
    assert plain(rendered(end_of(answer, 5), 40)) == ["  # comment"] * 4
    assert settled_length(answer) == 0


def test_a_paste_is_sent_as_it_was() -> None:
    """Twice, beside its label typed by hand in another paste, and short ones as they are."""
    pastes = Pastes()
    long = "\n".join(map(str, range(100)))
    first = pastes.shown(long)
    second = pastes.shown(f"{first}\n{long}".replace("\n", "\r"))
    assert pastes.shown("two\r\nlines") == "two\nlines"
    assert first != second
    assert pastes.whole(f"a{second}b{first}{first}") == f"a{first}\n{long}b{long}{long}"


def test_typed_lines_survive_damage_and_stay_few(tmp_path: Path) -> None:
    """A torn line hides no other; an old file is cut; a long paste is not kept."""
    path = tmp_path / "chat-history.jsonl"
    typed = TypedLines(path)
    typed.add("first\nof two")
    with path.open("ab") as file:
        file.write(b'"torn')
    typed.add("second \udce9")
    typed.add("x" * 20_000)
    typed.add("forgotten")
    typed.forget({"forgotten"})
    assert typed.newest_first() == ["second \udce9", "first\nof two"]
    assert path.stat().st_mode & 0o777 == 0o600
    for number in range(150):
        typed.add(f"{number} " + "y" * 9_000)
    assert path.stat().st_size < 1_100_000
    assert typed.newest_first()[0].startswith("149 ")
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert TypedLines(path.parent / "no" / "where").newest_first() == []
    TypedLines(path.parent / "no" / "where").add("goes nowhere")
