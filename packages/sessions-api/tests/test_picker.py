"""The picker: what fits, what is marked, what keys do; on real stores and on a terminal."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from screens import (
    BACKSPACE,
    CTRL_A,
    CTRL_C,
    CTRL_D,
    CTRL_R,
    DOWN,
    ENTER,
    ESC,
    UP,
    Screen,
    drawing,
)
from sessions_api.chat.picker.listing import Listing
from sessions_api.chat.picker.mode import Picking
from sessions_api.chat.picker.places import FIRST_PAGE, Arrivals, Workspace
from sessions_api.chat.picker.view import picture
from sessions_api.showing.terminal_text import width
from sessions_api.state import open_state, read_state
from state_store import NewMessage, NewSession, SessionState, new_id
from tinyagent_process import PROGRAM, Tinyagent

TITLES = [
    "Tea in Kyoto",
    "京都でお茶",
    "\uff37\uff49\uff44\uff45 letters",
    "Straße",
    "e\u0301clair",
    "\x1b[31mred\ttab",
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the state home lie in the test's folder."""
    monkeypatch.setenv("TINYAGENT_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def filled(workspace: Path, *titles: str) -> list[str]:
    """Make sessions with *titles*, the last one active last, and return their ids."""
    workspace.mkdir(exist_ok=True)
    with closing(open_state(workspace)) as state:
        return [
            state.store.save(
                SessionState(
                    id=new_id(),
                    settings=NewSession(title=title, title_source="user"),
                    messages=(NewMessage(role="user", content=f"about {title}"),),
                ),
                timedelta(0),
            ).id
            for title in titles
        ]


def picking_in(workspace: Path) -> Picking:
    """Return a picker that knows all sessions of *workspace*."""
    picking = Picking()
    for place, page in Arrivals(here=Workspace(directory=workspace)):
        picking.listing.add(place, page)
    picking.listing.all_known = True
    return picking


def titles(listing: Listing) -> list[str | None]:
    """Return the titles that fit."""
    return [row.session.title for row in listing.fitting]


# --- what fits --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("TEA", ["Tea in Kyoto"]),
        ("kyoto tea", ["Tea in Kyoto"]),
        ("お茶", ["京都でお茶"]),
        ("都で", ["京都でお茶"]),
        ("wide", ["\uff37\uff49\uff44\uff45 letters"]),
        ("strasse", ["Straße"]),
        ("\u00e9cl", ["e\u0301clair"]),
        ("e\u0301cl", ["e\u0301clair"]),
        ("%", []),
        ("_", []),
        ("(", []),
    ],
)
def test_the_filter_finds_words_in_any_form(
    home: Path, workspace: Path, query: str, found: list[str]
) -> None:
    """Whatever the case, the width, the script; signs are only signs. Typed letter by letter."""
    filled(workspace, *TITLES)
    picking = picking_in(workspace)
    for letter in query:
        picking.space() if letter == " " else picking.type(letter)
        if letter == " ":
            picking.listing.filter(picking.listing.query + " ")
    assert titles(picking.listing) == found
    picking.erase(all_of_it=True)
    assert titles(picking.listing) == [*reversed(TITLES)]


def test_a_handle_finds_its_session(home: Path, workspace: Path) -> None:
    """And what is marked stays marked while it fits."""
    ids = filled(workspace, *TITLES)
    picking = picking_in(workspace)
    picking.move(3)
    marked = picking.listing.marked
    assert marked is not None
    picking.type(marked.session.id[-8:])
    assert [row.session.id for row in picking.listing.fitting] == [marked.session.id]
    picking.erase(all_of_it=True)
    assert picking.listing.marked is marked
    assert marked.session.id in ids


def test_sessions_come_page_by_page_and_once(home: Path, workspace: Path) -> None:
    """Also one that is used while they are read; the filter sees those that come later."""
    made = [f"title {number}" for number in range(FIRST_PAGE * 2)]
    ids = filled(workspace, *made)
    listing = Listing()
    pages = iter(Arrivals(here=Workspace(directory=workspace)))
    place, first = next(pages)
    assert len(first) == FIRST_PAGE
    listing.add(place, first)
    listing.filter("title 1")
    with closing(open_state(workspace)) as state:
        state.store.update_session(ids[0], {"title": "title 1 again"})
    for place, page in pages:
        listing.add(place, page)
    listing.add(place, first)
    assert listing.count <= len(ids)
    assert len(titles(listing)) == len(set(titles(listing)))
    assert "title 199" in titles(listing)
    assert "title 10" in titles(listing)


# --- what keys do -----------------------------------------------------------------------------


def test_renaming_and_deleting_are_asked_and_told(home: Path, workspace: Path) -> None:
    """Only "y" deletes; a rename can be left; what is shown is what is stored."""
    ids = filled(workspace, "one", "two", "three")
    picking = picking_in(workspace)
    picking.begin_rename()
    for word in ("and", "more"):
        picking.space()
        picking.type(word)
    assert not picking.enter()
    assert titles(picking.listing)[0] == "three and more"
    picking.begin_rename()
    picking.type("!")
    assert not picking.escape()
    for key in ("n", "x"):
        picking.begin_delete()
        picking.type(key)
    picking.begin_delete()
    assert not picking.enter()
    assert picking.listing.count == 3
    picking.begin_delete()
    picking.type("y")
    assert picking.deleted == {ids[2]}
    assert picking.enter()
    assert picking.chosen is not None
    assert picking.chosen.session.title == "two"
    with closing(read_state(workspace)) as state:
        assert [one.title for one in state.store.list().items] == ["two", "one"]


def test_a_session_that_is_running_is_not_deleted(home: Path, workspace: Path) -> None:
    """The reason is told in one line and the row stays."""
    (session_id,) = filled(workspace, "busy")
    with closing(open_state(workspace)) as state:
        message = NewMessage(role="user", content="go")
        state.store.begin_run(session_id, message, run_id=new_id())
        picking = picking_in(workspace)
        picking.begin_delete()
        picking.type("y")
        assert f"pid {os.getpid()}" in picking.said
        assert not picking.deleted
        assert picking.listing.count == 1


def test_all_workspaces_are_read_and_a_damaged_one_hides_none(home: Path, tmp_path: Path) -> None:
    """Those of this workspace come first; what is done is done where the session is."""
    filled(tmp_path / "here", "here")
    (there,) = filled(tmp_path / "there", "there")
    filled(tmp_path / "broken", "broken")
    with closing(read_state(tmp_path / "broken")) as state:
        assert state.paths is not None
        database = state.paths.database
    database.write_bytes(b"no database" * 100)
    picking = Picking()
    arrivals = Arrivals(here=Workspace(directory=tmp_path / "here"), everywhere=True)
    for place, page in arrivals:
        picking.listing.add(place, page)
    assert titles(picking.listing) == ["here", "there"]
    assert arrivals.unreadable_count == 1
    picking.move(1)
    assert [one.content for one in picking.preview()] == ["about there"]
    picking.begin_delete()
    picking.type("y")
    assert picking.deleted == {there}
    with closing(read_state(tmp_path / "there")) as state:
        assert not state.store.list().items


@pytest.mark.parametrize("columns", [1, 5, 20, 59, 60, 80, 200])
@pytest.mark.parametrize("rows", [1, 2, 3, 12, 24])
def test_a_picture_fills_the_screen_and_no_more(
    home: Path, workspace: Path, columns: int, rows: int
) -> None:
    """Whatever the titles and its size; nothing in it has power over the terminal."""
    filled(workspace, *TITLES, "👍" * 100, "x" * 500)
    picking = picking_in(workspace)
    picking.space()
    for mode in (lambda: None, picking.begin_rename, picking.escape, picking.begin_delete):
        mode()
        lines = picture(picking, columns=columns, rows=rows, everywhere=True)
        assert len(lines) <= rows
        assert all(width(text) <= columns for _, text in lines)
        assert all(text.isprintable() or not text for _, text in lines)


# --- on a terminal ----------------------------------------------------------------------------


def made(tinyagent: Tinyagent, *said: str) -> list[str]:
    """Hold conversations and return their ids."""
    return [json.loads(tinyagent("run", one, "--json").stdout)["session_id"] for one in said]


def test_bare_resume_picks_with_keys(tinyagent: Tinyagent) -> None:
    """Type, arrows, Space, Ctrl+R, Ctrl+D, Enter: each shows "N of M shown"."""
    first, second, third = made(tinyagent, "apples and pears", "会話 practice", "apple cake")
    with Screen(drawing(tinyagent), "--resume") as screen:
        screen.see("3 of 3 shown", "会話 practice")
        screen.type("app")
        screen.see("Session: app", "2 of 3 shown")
        screen.type(DOWN)
        screen.type(" ")
        screen.see("user: apples and pears")
        screen.type(UP)
        screen.see("user: apple cake")
        screen.type(CTRL_D)
        screen.see(f"Delete {third[-8:]} for good?")
        screen.type("y")
        screen.see("1 of 2 shown", f"Deleted: {third[-8:]}")
        screen.type(BACKSPACE * 3)
        screen.see("2 of 2 shown")
        screen.type("会話")
        screen.see("1 of 2 shown")
        screen.type(f"{CTRL_R} 2{ENTER}")
        screen.see("It is now called 会話 practice 2.")
        screen.type(ENTER)
        screen.see("会話 practice 2: showing 2 of 2")
        screen.prompt()
        screen.type(CTRL_D)
        assert screen.leave() == 0
        assert f"Resume: tinyagent --resume {second[-8:]}" in screen.text
    listed = tinyagent.json("sessions")["sessions"]
    assert {one["id"] for one in listed} == {first, second}


def test_escape_leaves_and_nothing_begins(tinyagent: Tinyagent) -> None:
    """`sessions resume` too; Ctrl+C is an interrupt."""
    made(tinyagent, "hello")
    with Screen(drawing(tinyagent), "sessions", "resume") as screen:
        before = screen.settings()
        screen.see("1 of 1 shown")
        screen.type(ESC)
        assert screen.leave() == 0
        assert screen.settings() == before
    with Screen(drawing(tinyagent), "--resume") as screen:
        screen.see("1 of 1 shown")
        assert screen.leave(pressing=CTRL_C) == 130
    assert tinyagent.json("sessions")["sessions"][0]["message_count"] == 2


def test_a_session_of_another_workspace_is_gone_on_with_there(
    tinyagent: Tinyagent, tmp_path: Path
) -> None:
    """Ctrl+A shows them all; inside a chat the command that does is named."""
    other = Tinyagent(workspace=tmp_path / "elsewhere", environment=tinyagent.environment)
    other.workspace.mkdir()
    (there,) = made(other, "far away")
    made(tinyagent, "near")
    with Screen(drawing(tinyagent), "--resume") as screen:
        screen.see("1 of 1 shown")
        screen.type(CTRL_A)
        screen.see("2 of 2 shown", "elsewhere")
        screen.type("far")
        screen.see("1 of 2 shown")
        screen.type(ENTER)
        screen.see("far away: showing 2 of 2")
        screen.prompt()
        screen.type(f"/sessions{ENTER}")
        screen.see("1 of 1 shown", "far away")
        screen.type(CTRL_A)
        screen.see("2 of 2 shown")
        screen.type("near")
        screen.see("1 of 2 shown")
        screen.type(ENTER)
        screen.see("It belongs to another workspace")
        screen.prompt()
        screen.type(CTRL_D)
        assert screen.leave() == 0
        assert f"--resume {there[-8:]} --workspace" in screen.everything.replace("\n", "")


def test_it_works_where_nothing_can_be_written(tinyagent: Tinyagent) -> None:
    """C14: a reader chooses; a change that cannot be made is told in one line."""
    bound: tuple[str, ...] = ()
    if os.geteuid() == 0:  # to whom rights mean nothing, until the capability for that is gone
        if (setpriv := shutil.which("setpriv")) is None:
            pytest.skip("everything may be written by this user")
        bound = (setpriv, "--bounding-set", "-dac_override,-dac_read_search")
    made(tinyagent, "kept")
    database = tinyagent.database()
    places = [Path(tinyagent.environment["TINYAGENT_STATE_HOME"]), database.parent]
    for place in places:
        place.chmod(0o500)
    try:
        with Screen(drawing(tinyagent), "--resume", program=(*bound, *PROGRAM)) as screen:
            screen.see("1 of 1 shown", "kept")
            screen.type(f"{CTRL_R}!{ENTER}")
            screen.until(lambda: "Enter take" not in screen.text and "kept!" not in screen.text)
            assert "Cannot use " in screen.text
            assert "may not write to it" in screen.text.replace("\n", " ")
            screen.type(ESC)
            assert screen.leave() == 0
    finally:
        for place in places:
            place.chmod(0o700)
