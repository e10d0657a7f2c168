from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from markdown_it import MarkdownIt

from full_sessions import Texts, filled, sessions_in
from sessions_api.transfer.html_style import POLICY, STYLE

if TYPE_CHECKING:
    from collections.abc import Iterator

FIELD_COUNT = len(Texts.__dataclass_fields__) - 1  # but for what a provider alone needs
TAGS = (
    *("<img src=x onerror=alert(1)>", '"></script><script>alert(1)</script>', "&lt;b&gt;"),
    *("<svg/onload=alert(1)>", "</title><script>x</script>", "</style><script>x</script>"),
    *("</div></article></main><h1>owned</h1>", "<!--", "-->", "<![CDATA[", "<?php", "<!DOCTYPE x>"),
    *("<iframe src=//evil.invalid>", "<meta http-equiv=refresh content=0>", "<base href=//x>"),
    *("<a href=javascript:alert(1)>x</a>", "<form action=//x><input name=q>", "<plaintext>"),
    *("<textarea>", "<xmp>", "<noscript>", "<template>", "<math><mtext><table><mglyph><style>"),
    *("' onmouseover='x", '" onfocus="x" autofocus="', "` onclick=`x", "&#60;script&#62;", "&amp;"),
    *("&#x3c;img&#x3e;", "&quot;", "&", "<", ">", '"', "'", "\x00<b>", "<\x00script>", "<b\x0c>"),
    *("</bdi><b>", "</pre>", "</code>", "</details><details open>", "<style>*{display:none}"),
    *("<link rel=stylesheet href=//x>", "<object data=x>", "<embed src=x>", "<video src=x>"),
    *(
        "\ufeff<b>",
        "\uff1cscript\uff1e",
        "%3Cscript%3E",
        "\\u003cscript\\u003e",
        "{{7*7}}",
        "{title}",
        "%s",
    ),
)
MARKS = (
    *("# heading", "\n# heading", "\r# heading", "x\n===\n", "---", "***", "> quote", "- item"),
    *("1. item", "+ item", "* item", "    code", "\tcode", "```", "~~~", "````\n# x", "~~~~~~~~"),
    *("```\n# out\n```", "\n```\n<script>x</script>\n```\n", "`code`", "``", "[x](//evil.invalid)"),
    *("![x](//evil.invalid)", "[x]: //evil.invalid", "[x][y]", "<https://evil.invalid>", "[^1]"),
    *("https://evil.invalid", "www.evil.invalid", "a@evil.invalid", "@everyone", "#1", ":smile:"),
    *("*em*", "__strong__", "~~gone~~", "| a | b |\n|---|---|\n| 1 | 2 |", "$x$", "$$x$$"),
    *("---\ntitle: x\n---", "+++\nx\n+++", "line  \nbreak", "back\\", "\\", "\\`", "- [ ] task"),
    *("&nbsp;&copy;", "Term\n: definition", "<details>\n\n# x", "{: .x }", "==mark==", "\u2028# x"),
    *("\x85# x", "\x0b# x", "\x0c# x", "\x1c# x", "`" * 300, "~" * 300, "\n" * 5 + "# x", " " * 9),
)
TURNS = (
    *(
        "\u202eevil",
        "\u2066x\u2069",
        "\u202a\u202b\u202c\u202d",
        "\u2067\u2068",
        "שלום \u202e",
        "مرحبا",
    ),
    *(
        "\x1b[31m",
        "\x07",
        "\x9b",
        "\u200f\u200e\u061c",
        "a\u0301" * 40,
        "\ufffe",
        "\uffff",
    ),
)
PAYLOADS = TAGS + MARKS + TURNS
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufffe\uffff]")


class Tree(HTMLParser):
    """Elements and attributes of a page, in order, and its text."""

    VOID = frozenset(("meta", "br", "hr", "img", "input", "link", "base", "embed", "source"))

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.marks: list[object] = []
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take in an element."""
        fixed = [(name, value) for name, value in attrs if name != "datetime"]
        self.marks.append((tag, fixed))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Take in the end of the element that is open."""
        assert self.open.pop() == tag
        self.marks.append(tag)

    def handle_data(self, data: str) -> None:
        """Take in text."""
        self.texts.append(data)

    def unknown(self, data: str) -> None:
        """Refuse comments, declarations and instructions."""
        raise AssertionError(f"what the template has not: {data!r}")

    handle_comment = handle_pi = unknown_decl = unknown


def tree_of(page: str) -> Tree:
    """Return a page as a parser sees it."""
    tree = Tree()
    tree.feed(page.removeprefix("<!DOCTYPE html>\n"))
    tree.close()
    assert tree.open == []
    return tree


def exported(texts: Texts) -> tuple[str, str]:
    """Return a full session with *texts* in the forms that people read: HTML, Markdown."""
    with sessions_in() as sessions:
        session_id = filled(sessions._store, texts)
        page = b"".join(sessions.export(session_id, "html", redact=False))
        return page.decode(), b"".join(sessions.export(session_id, "markdown")).decode()


def tokens_of(document: str) -> Iterator[tuple[str, str, str]]:
    """Yield type, tag and attributes of every token of a Markdown document, inline ones too."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    for token in parser.parse(document):
        yield token.type, token.tag, token.info
        for child in token.children or ():
            if child.type != "text_special":  # an escaped mark, which is text
                yield child.type, child.tag, str(child.attrs)


@pytest.fixture(scope="module")
def harmless() -> tuple[str, str]:
    """Return what the templates make of harmless text."""
    return exported(Texts())


def test_c36_no_text_makes_an_element_or_a_mark(harmless: tuple[str, str]) -> None:
    """Every payload in every field: what parsers see is what the templates alone make."""
    assert len(set(PAYLOADS)) == len(PAYLOADS) >= 100
    elements = tree_of(harmless[0]).marks
    marks = [one for one in tokens_of(harmless[1]) if one[0] != "text"]
    for payload in PAYLOADS:
        page, document = exported(Texts().everywhere(payload))
        assert tree_of(page).marks == elements, payload
        assert [one for one in tokens_of(document) if one[0] != "text"] == marks, payload
        assert not CONTROLS.search(page + document), payload


@pytest.mark.parametrize(
    "payload", ["<img src=x onerror=alert(1)>", '"></script><script>', "&lt;b&gt;"]
)
def test_c36_what_is_hostile_is_shown_as_text(payload: str) -> None:
    """It can be read, in full and once for each place where it is stored."""
    page, document = exported(Texts().everywhere(payload))
    assert payload not in page
    assert "".join(tree_of(page).texts).count(payload) >= FIELD_COUNT
    assert document.replace("\\", "").count(payload) >= FIELD_COUNT


def test_the_page_allows_its_style_and_nothing_else(harmless: tuple[str, str]) -> None:
    """No script, no address, no handler; the policy is the first thing that can be in force."""
    page, _ = harmless
    assert page.index("Content-Security-Policy") < page.index("<style>")
    assert POLICY.startswith("default-src 'none'; style-src 'sha256-")
    assert f"<style>{STYLE}</style>" in page
    for word in (
        "<script",
        "javascript:",
        "http://",
        "https://e",
        "url(",
        "@import",
        " on",
        "src=",
    ):
        assert word not in page.replace("https://example.invalid", ""), word


def test_the_page_has_landmarks_headings_and_names(harmless: tuple[str, str]) -> None:
    """Who listens to it finds the way: one heading of the first level, sections with names."""
    page, _ = harmless
    tree = tree_of(page)
    names = [mark for mark in tree.marks if isinstance(mark, tuple)]
    assert [tag for tag, _ in names if tag in {"h1", "main", "header", "footer"}] == [
        "header",
        "h1",
        "main",
        "footer",
    ]
    ids = [dict(attributes)["id"] for _, attributes in names if "id" in dict(attributes)]
    labels = [dict(found).get("aria-labelledby") for _, found in names]
    assert len(set(ids)) == len(ids)
    assert {one for one in labels if one} <= set(ids)
    assert dict(names[0][1]) == {"lang": "en"}


@pytest.mark.parametrize("form", [0, 1], ids=["html", "markdown"])
def test_a_reader_sees_what_happened(harmless: tuple[str, str], form: int) -> None:
    """Calls with arguments, results and outcomes; failed runs; usage; summaries as such."""
    shown = harmless[form].replace("\\", "")
    if form == 0:
        shown = "".join(tree_of(shown).texts)
    for text in (
        *("title", "narrator", "look", '{"at":1.0}', "content of 0", "content of 1", "reasoning"),
        *("summary of 1-2", "failed: provider.timeout", "of no call", "unanswered", "unknown"),
        *("Input tokens", "0.300000 USD", "a part"),
    ):
        assert text in shown, text
    assert shown.index("content of 0") < shown.index("content of 1")
