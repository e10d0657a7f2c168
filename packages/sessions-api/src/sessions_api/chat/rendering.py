"""An answer's Markdown as lines for a terminal, and how much of an unfinished one is settled.

Invariants: nothing that was said is left out (HTML, entities, images and link definitions are
shown as they were written); of control characters none but the colours made here comes out, and no
hyperlink that a terminal would follow; no line is wider than asked.

Source of what a block is: CommonMark 0.31, "Blocks and inlines".
"""

from __future__ import annotations

import io
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from markdown_it import MarkdownIt
from rich.color import ColorSystem
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.segment import Segment
from rich.syntax import Syntax

from sessions_api.showing.terminal_text import safe

if TYPE_CHECKING:
    from collections.abc import Mapping

_FENCES = ("```", "~~~")


def settled_length(text: str) -> int:
    """Return how many characters at the beginning of *text* are blocks that nothing can change.

    All before the last block, once its first line is whole: until then it may turn out to belong
    to the list before it.
    """
    if "\n\n" not in text and "\n" + _FENCES[0] not in text:
        return 0
    starts = [token.map[0] for token in _parser().parse(text) if token.map and token.level == 0]
    if not starts or text.count("\n") <= starts[-1]:
        return 0
    return sum(len(line) + 1 for line in text.split("\n", starts[-1])[: starts[-1]])


def end_of(text: str, line_count: int) -> str:
    """Return the last lines of an unsettled *text*; inside a block of code they stay code."""
    lines = text.split("\n")
    if len(lines) <= line_count:
        return text
    opener = lines[:1] if lines[0].startswith(_FENCES) else []
    return "\n".join([*opener, *lines[-line_count:]])


def rendered(text: str, columns_wide: int) -> list[str]:
    """Return the Markdown of *text* as coloured lines, at most so wide, without a line feed."""
    console = Console(
        file=io.StringIO(),
        width=columns_wide,
        force_terminal=True,
        color_system="standard",
        legacy_windows=False,
        emoji=False,
        markup=False,
        highlight=False,
    )
    try:
        segments = list(console.render(_Answer(text)))
    except Exception:  # noqa: BLE001 - a fault of the renderer must not cost the answer
        segments = list(console.render(safe(text)))
    lines = [_line(one) for one in Segment.split_lines(segments)]
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        lines.pop(0)
    return lines


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    return parser.disable(["reference", "entity", "image"])


class _LeftHeading(Heading):
    """A heading at the left, as all other text."""

    LEVEL_ALIGN: ClassVar = {}


class _PlainCode(CodeBlock):
    """Code on the terminal's own background, so that what is copied has no padding."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console, options
        code = str(self.text).rstrip()
        syntax = Syntax(
            code,
            self.lexer_name,
            theme="ansi_dark",
            background_color="default",
            word_wrap=True,
        )
        yield Padding(syntax, (0, 2))  # Rich before 15 cuts folded lines that it pads itself


class _Answer(Markdown):
    elements: ClassVar[Mapping[str, type[MarkdownElement]]] = {  # type: ignore[assignment]  # a dict there
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "fence": _PlainCode,
        "code_block": _PlainCode,
    }

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = _parser().parse(text)


def _line(segments: list[Segment]) -> str:
    """Return the segments of a line as text, without power over the terminal or padding."""
    while segments and not segments[-1].text.strip(" "):
        segments = segments[:-1]
    pieces = []
    for place, (text, style, _) in enumerate(segments):
        shown = safe(text.rstrip(" ") if place == len(segments) - 1 else text)
        if style is not None:
            shown = style.update_link(None).render(shown, color_system=ColorSystem.STANDARD)
        pieces.append(shown)
    return "".join(pieces)
