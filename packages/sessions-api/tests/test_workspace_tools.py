"""What a model gets to read when it lists, reads and writes the files of a workspace."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from confined import UNSEEN, Surroundings, make_surroundings, refused
from faces import Looker, calling, said
from sessions_api import workspace_tools
from sessions_api.workspace_files import listing
from sessions_api.workspace_files.names import named, shown
from sessions_api.workspace_files.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    """Make a workspace with secrets around it."""
    return make_surroundings(tmp_path)


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    """Set the umask, and put it back."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def test_writing_is_offered_only_when_asked_for(around: Surroundings) -> None:
    """Looking may be repeated after a crash; writing may not, unless somebody says so."""
    assert [one.name for one in workspace_tools(around.ws)] == ["list_files", "read_file"]
    replay = {name: one.replay for name, one in around.tools().items()}
    assert replay == {"list_files": "safe", "read_file": "safe", "write_file": "unsafe"}
    for one in around.tools().values():
        assert one.description
        assert one.timeout_s
        assert all(kind.get("type") for kind in one.spec.parameters["properties"].values())


def test_an_agent_lists_reads_and_writes(
    open_agent: Callable[..., Any], workspace: Path, state_home: Path, look: Looker
) -> None:
    """Through both faces; what is refused is a tool error, and the run goes on."""
    (workspace / "a.txt").write_text("hello")
    (workspace.parent / "secret.txt").write_text(UNSEEN)
    asked = [
        ("list_files", {}),
        ("read_file", {"path": "a.txt"}),
        ("read_file", {"path": "../secret.txt"}),
        ("read_file", {"path": ".tinyagent/workspace-id"}),
        ("read_file", {"path": "none"}),
        ("write_file", {"path": "new/b.txt", "content": "written"}),
    ]
    calls = calling(*((name, json.dumps(arguments)) for name, arguments in asked))
    tools = workspace_tools(workspace, writes=True, state_home=state_home)
    agent = open_agent([calls, said("done")], tools=tools)
    assert agent.run("go").text == "done"
    results = [one.content for one in agent.provider.requests[-1].messages if one.role == "tool"]
    assert [one for one in results[0].splitlines() if "new" not in one] == ["file 5 a.txt"]
    assert results[1:] == [
        "hello",
        "Error: that path leads out of the workspace; stay inside of it.",
        "Error: '.tinyagent' cannot be used: it is not part of the project.",
        "Error: 'none' does not exist; list_files shows what there is.",
        "created 'new/b.txt', 7 bytes",
    ]
    assert (workspace / "new" / "b.txt").read_text() == "written"
    assert look.outcomes() == ["ok", "ok", "error", "error", "error", "ok"]
    assert [one.replay for one in look.tools()] == ["safe"] * 5 + ["unsafe"]
    assert UNSEEN not in str(look.texts())


def test_links_inside_the_workspace_are_followed(around: Surroundings) -> None:
    """Real projects have them; a write goes to what they lead to, and they stay links."""
    (around.ws / "doc.md").symlink_to("src/main.py")
    (around.ws / "src" / "top").symlink_to("..")
    (around.ws / "whole").symlink_to(around.ws)
    (around.ws / "to-come").symlink_to("src/to-come.txt")
    (around.ws / "src" / "whole").symlink_to(around.ws)
    tools = around.tools()
    for path in (
        "doc.md",
        "./src//main.py",
        "src/../src/main.py",
        "whole/src/top/doc.md",
        "src/whole/doc.md",
    ):
        assert tools["read_file"](path=path) == "print()\n"
    tools["write_file"](path="src/top/doc.md", content="new")
    tools["write_file"](path="to-come", content="came")
    assert (around.ws / "doc.md").is_symlink()
    assert (around.ws / "src" / "main.py").read_text() == "new"
    assert (around.ws / "src" / "to-come.txt").read_text() == "came"
    assert tools["list_files"](path="whole/src").splitlines() == [
        "file 3 src/main.py",
        "file 4 src/to-come.txt",
        "link src/top",
        "link src/whole",
    ]


def test_the_marker_of_a_workspace_inside_is_not_listed(around: Surroundings) -> None:
    """Nor is one that only some filesystem would take for it."""
    for name in (".tinyagent", ".TINYAGENT"):
        (around.ws / "src" / name / "x").mkdir(parents=True)
    assert around.tools()["list_files"](depth=9).splitlines() == ["dir src", "file 8 src/main.py"]


ODD_NAMES = [
    b"new\nline",
    b"esc\x1b[31m",
    b"caf\xe9",
    b"back\\slash",
    b"\\x41",
    "bidi\u202e".encode(),
    b" spaces ",
    b"file 3 x",
    b"\xf0\x9f\x98\x80",
]


def test_any_name_is_one_line_and_can_be_given_back(around: Surroundings) -> None:
    """Newlines, control characters, bytes that are no UTF-8: listed, read and written."""
    folder = around.ws / "odd"
    folder.mkdir()
    for name in ODD_NAMES:
        (folder / os.fsdecode(name)).write_bytes(b"xyz")
    tools = around.tools()
    lines = tools["list_files"](path="odd").splitlines()
    assert len(lines) == len(ODD_NAMES)
    for line in lines:
        assert line.isprintable()
        path = line.removeprefix("file 3 ")
        assert tools["read_file"](path=path) == "xyz"
        said_of_it = tools["write_file"](path=path, content="abc")
        assert said_of_it == f"replaced '{path}', 3 bytes"
    assert all(one.read_bytes() == b"abc" for one in folder.iterdir())
    assert sorted(os.fsencode(one.name) for one in folder.iterdir()) == sorted(ODD_NAMES)


@given(st.binary(max_size=20))
def test_the_printable_form_of_a_name_leads_back_to_it(name: bytes) -> None:
    """For any bytes; the form is printable, valid Unicode."""
    text = os.fsdecode(name)
    assert named(shown(text)) == text
    assert shown(text).isprintable()
    shown(text).encode()


def test_a_listing_is_sorted_and_its_pages_make_the_whole(around: Surroundings) -> None:
    """A directory comes before what it holds; each page but the last says how to go on."""
    for number in range(1200):
        (around.ws / "src" / f"n{number:04}").symlink_to("x")
    for folder in ("b/c/d", "a"):
        (around.ws / folder).mkdir(parents=True)
    (around.ws / "b" / "f").write_text("12345")
    list_files = around.tools()["list_files"]
    whole, offset = [], 0
    while True:
        *lines, last = list_files(depth=3, offset=offset, limit=500).splitlines()
        whole += lines
        if not last.startswith("[cut"):
            whole.append(last)
            break
        offset += 500
        assert last == f"[cut; there is more: go on with offset={offset}]"
    assert whole[:6] == ["dir a", "dir b", "dir b/c", "dir b/c/d", "file 5 b/f", "dir src"]
    assert whole[6:] == ["file 8 src/main.py", *(f"link src/n{n:04}" for n in range(1200))]
    assert list_files().splitlines() == ["dir a", "dir b", "dir src"]
    assert list_files(path="a") == "[empty]"
    assert list_files(offset=3) == "[nothing more]"
    most = list_files(path="src", limit=10**9).splitlines()
    assert most[1000:] == ["[cut; there is more: go on with offset=1000]"]
    assert "offset" in refused(list_files, offset=-1)


def test_a_listing_has_bounds_and_says_so(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many names, too long lines, too deep a tree: a part of it, and a note."""
    names = [f"{number}{'x' * 200}" for number in range(30)]
    for name in names:
        (around.ws / name).symlink_to("x")
    walked = around.tools()["list_files"]
    monkeypatch.setattr(listing, "MAX_PAGE_CHARACTERS", 1000)
    lines = walked().splitlines()
    assert len(lines) == 5
    assert lines[-1] == "[cut; there is more: go on with offset=4]"
    (around.ws / ("d/" * 300)).mkdir(parents=True)
    deep = walked(path="d", depth=10**9).splitlines()
    assert deep[-1] == f"dir {'d/' * 16}d"
    assert "more than 64" in refused(walked, path="d/" * 300)


def test_more_names_than_are_looked_at_is_said(around: Surroundings) -> None:
    """A directory of millions costs no more than one of that many."""
    for number in range(30):
        (around.ws / "src" / f"n{number}").symlink_to("x")
    tools = around.tools()
    function: Any = tools["list_files"].function
    with Walk(function.__self__.root) as walk:
        walk.into("src")
        found = listing.Listing(walk=walk, depth=1, left_to_scan=10)
        lines, has_more = found.page(offset=0, limit=100)
        assert (len(lines), has_more, found.is_cut) == (10, False, True)
    assert "incomplete" not in tools["list_files"](depth=3)


def read_all(read_file: Any, path: str, limit: int) -> str:
    """Read *path* part by part, as the notes say, and return all the text."""
    whole, offset = "", 0
    while True:
        text = str(read_file(path=path, offset=offset, limit=limit))
        body, newline, note = text.rpartition("\n")
        if not note.startswith("["):
            return whole + text
        assert newline
        whole += body
        if note.endswith("the end of the file]"):
            return whole
        offset = int(note.rpartition("offset=")[2].removesuffix(".]").removesuffix("]"))


@pytest.mark.parametrize("limit", [1, 4, 5, 7, 1000])
def test_parts_of_a_file_make_the_whole_and_cut_no_character(
    around: Surroundings, limit: int
) -> None:
    """Characters of one to four bytes, any size of a part."""
    text = "aé€😀\r\n" * 20
    (around.ws / "t").write_bytes(text.encode())
    assert read_all(around.tools()["read_file"], "t", limit) == text


def test_a_huge_file_is_read_in_bounded_parts(around: Surroundings) -> None:
    """A terabyte costs no more than what is asked for, and the note says where to go on."""
    with (around.ws / "huge").open("wb") as file:
        file.write(b"a" * 60_000)
        file.truncate(10**12)
    tools = around.tools()
    text = tools["read_file"](path="huge")
    note = "[cut here; bytes 0 to 50000 of 1000000000000: read on with offset=50000]"
    assert text == f"{'a' * 50_000}\n{note}"
    assert "binary" in tools["read_file"](path="huge", limit=10**18)
    assert "binary" in tools["read_file"](path="huge", offset=10**12 - 5)
    nothing = "[nothing there: the file ends at byte 1000000000000]"
    assert tools["read_file"](path="huge", offset=10**12) == nothing
    assert tools["read_file"](path="huge", offset=10**30) == nothing
    assert "offset" in refused(tools["read_file"], path="huge", offset=-1)
    assert "file 1000000000000 huge" in tools["list_files"]()


@pytest.mark.parametrize(
    "content",
    [
        b"\x89PNG\r\n\x1a\n\x00\x00",
        b"caf\xe9",
        "utf-16".encode("utf-16"),
        b"a\x00b",
        b"\xed\xa0\x80",
    ],
)
def test_a_binary_file_is_said_and_not_dumped(around: Surroundings, content: bytes) -> None:
    """What is no UTF-8 text, or holds a NUL; also from the middle."""
    (around.ws / "odd").write_bytes(content)
    for offset in (0, 1) if 0 in content else (0,):
        text = around.tools()["read_file"](path="odd", offset=offset)
        assert text.startswith("[not shown: no ")
        assert f"{len(content)} bytes" in text


def test_an_empty_file_is_said_to_be_empty(around: Surroundings) -> None:
    """Some services refuse a result without a text."""
    (around.ws / "empty").touch()
    assert around.tools()["read_file"](path="empty") == "[empty file]"


def test_a_write_keeps_the_mode_and_new_files_are_for_all_to_read(
    around: Surroundings, umask: Callable[[int], int]
) -> None:
    """Narrowed by the umask, never wider; what was executable still is."""
    write_file = around.tools()["write_file"]
    for mask, mode in ((0o022, 0o644), (0o077, 0o600), (0, 0o644)):
        umask(mask)
        write_file(path=f"d{mask}/new", content="x")
        assert stat.S_IMODE((around.ws / f"d{mask}" / "new").stat().st_mode) == mode
    script = around.ws / "script"
    script.write_text("before")
    umask(0o077)
    for mode in (0o755, 0o666, 0o200, 0o600):
        script.chmod(mode)
        assert write_file(path="script", content="after") == "replaced 'script', 5 bytes"
        assert stat.S_IMODE(script.stat().st_mode) == mode
    script.chmod(0o444)
    assert "read-only" in refused(write_file, path="script", content="x")
    assert script.read_text() == "after"


def test_a_write_that_fails_changes_nothing(around: Surroundings) -> None:
    """The old content stays, nothing is left beside it, and the model is told why."""
    tools = around.tools()
    before = sorted(around.ws.rglob("*"))
    for path, reason in (
        ("src", "but a directory"),
        ("src/main.py/x", "no directory"),
        ("n" * 256, "name that is too long"),
    ):
        assert reason in refused(tools["write_file"], path=path, content="x")
    assert "Unicode" in refused(tools["write_file"], path="src/main.py", content="\ud800")
    assert sorted(around.ws.rglob("*")) == before
    assert (around.ws / "src" / "main.py").read_text() == "print()\n"


def test_a_write_that_fails_at_the_end_leaves_nothing_beside(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file becomes a directory after it was looked at, so that the rename fails."""
    really_open = os.open

    def late(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).startswith(".write-"):
            (around.ws / "f").mkdir()
        return really_open(path, *arguments, **options)

    write_file = around.tools()["write_file"]
    monkeypatch.setattr(os, "open", late)
    assert "is a directory" in refused(write_file, path="f", content="x")
    assert sorted(one.name for one in around.ws.iterdir()) == [".tinyagent", "f", "src"]


def test_a_reader_sees_the_old_content_or_the_new(around: Surroundings) -> None:
    """Whoever has the file open keeps what was there: it is replaced, not overwritten."""
    with (around.ws / "src" / "main.py").open() as file:
        around.tools()["write_file"](path="src/main.py", content="other")
        assert file.read() == "print()\n"
    assert [one.name for one in (around.ws / "src").iterdir()] == ["main.py"]
