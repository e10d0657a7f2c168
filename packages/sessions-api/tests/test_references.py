"""Which session or run a reference names, and what is said when it names none or several (C25)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from faces import said
from sessions_api import ReferenceAmbiguous, ReferenceNotFound
from sessions_api.references import resolve_run
from sessions_api.showing.terminal_text import MARK, cut, one_line, width
from sessions_api.state import read_state

if TYPE_CHECKING:
    from faces import Looker
    from tinyagent_process import Call

OpenAgent = Callable[..., Any]
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
TITLES = {
    "41 characters": "x" * 40 + "y",
    "40 wide characters": "会" * 40,
    "40 emoji": FAMILY * 40,
    "newline and tab": "fix the\n\tbuild  now",
    "a control character": "red \x1b[31m alert",
}


def test_every_kind_of_reference_finds_its_session(open_agent: OpenAgent) -> None:
    """A whole id, its last digits, an exact title, or the latest."""
    agent = open_agent()
    first, second = agent.sessions.create("the first"), agent.sessions.create("the second")
    for ref in (first.id, first.id[-8:], first.id[-4:], "the first"):
        assert agent.sessions.resume(ref).id == first.id
        assert agent.sessions.active.id == first.id
    assert agent.sessions.resume().id == agent.sessions.resume("latest").id == second.id


@pytest.mark.parametrize(
    "ref", ["", "%", "_", "THE FIRST", "the", "zzz", "0" * 36, "\ud800", "a\x00"]
)
def test_a_reference_that_fits_nothing_starts_nothing(open_agent: OpenAgent, ref: str) -> None:
    """No pattern, no part of a title, no case: the active session stays what it was."""
    agent = open_agent()
    session = agent.sessions.create("the first")
    for ask in ("resume", "get", "delete", "archive", "messages"):
        with pytest.raises(ReferenceNotFound):
            getattr(agent.sessions, ask)(ref)
    assert agent.sessions.active == session
    assert len(agent.sessions.list().items) == 1
    assert issubclass(ReferenceNotFound, LookupError)


def test_a_near_reference_is_offered(open_agent: OpenAgent) -> None:
    """Whoever mistypes a title reads which one was meant."""
    agent = open_agent()
    session = agent.sessions.create("database migration")
    with pytest.raises(ReferenceNotFound) as caught:
        agent.sessions.resume("databse migration")
    assert session.id[-8:] in (caught.value.hint or "")


def test_equal_titles_are_ambiguous(open_agent: OpenAgent) -> None:
    """The candidates are named by their ids, newest first, and none is chosen."""
    agent = open_agent()
    ids = [agent.sessions.create("twin").id for _ in range(7)]
    with pytest.raises(ReferenceAmbiguous) as caught:
        agent.sessions.resume("twin")
    assert [key for key, _ in caught.value.candidates] == ids[::-1]
    assert ids[-1][-8:] in str(caught.value)
    assert "and 2 more" in str(caught.value)


@pytest.mark.parametrize("title", TITLES.values(), ids=TITLES)
def test_c25_what_the_list_prints_is_taken_by_resume_export_and_delete(
    call: Call, title: str
) -> None:
    """The handle and the title, whole in a pipe and cut on a terminal of 80 columns."""
    _, output, _ = call("sessions", "new", "--title", title, "--json", "--provider", "offline")
    made = json.loads(output)
    session_id = made["session"]["id"]
    assert made["session"]["title"] == title
    row = call("sessions")[1].splitlines()[1]
    printed = [row.split()[0], row[10:].split("   ")[0].rstrip(), cut(one_line(title), 20)]
    assert printed[2].endswith(MARK) is (width(one_line(title)) > 20)
    assert "\n" not in printed[1]
    for ref in printed:
        assert call("sessions", "export", ref)[0] == 0, ref
        assert call("run", "hello", "--resume", ref, "--provider", "offline")[0] == 0, ref
        assert call("sessions", "show", ref)[0] == 0, ref
    assert json.loads(call("sessions", "--json")[1])["sessions"][0]["id"] == session_id
    assert call("sessions", "delete", printed[1], "--yes")[0] == 0
    assert call("sessions", "--ids")[1] == ""


def test_c25_equal_titles_are_named_by_their_ids(call: Call) -> None:
    """And nothing is done to either; one of the ids does it."""
    for title in ("twin", "twin", "twin\n"):
        call("sessions", "new", "--title", title, "--no-chat", "--provider", "offline")
    ids = call("sessions", "--ids")[1].split()
    for command in (("export",), ("delete", "--yes"), ("show",)):
        code, output, errors = call("sessions", *command, "twin")
        assert (code, output) == (3, "")
        assert [one for one in ids if one[-8:] in errors] == ids[1:]  # as stored, not as shown
    assert call("sessions", "delete", ids[1][-8:], "--yes")[0] == 0
    assert call("sessions", "export", "twin")[0] == 0


def test_a_title_as_it_is_stored_wins_over_one_that_is_shown_so(open_agent: OpenAgent) -> None:
    """A mark is only a mark where no title ends with one, and alone it names nothing."""
    agent = open_agent()
    exact = agent.sessions.create(f"deploy{MARK}").id
    longer = agent.sessions.create("deploy the website").id
    assert agent.sessions.get(f"deploy{MARK}").id == exact
    assert agent.sessions.get(f"deploy the{MARK}").id == longer
    with pytest.raises(ReferenceAmbiguous):
        agent.sessions.get(f"dep{MARK}")
    for ref in (MARK, f" {MARK}", "deploy the", f"Deploy the{MARK}"):
        with pytest.raises(ReferenceNotFound):
            agent.sessions.get(ref)
    agent.sessions.archive(longer)
    assert agent.sessions.get(f"deploy the{MARK}").id == longer


def test_text_is_cut_between_characters_as_people_see_them() -> None:
    """No accent, flag, skin colour or member of a family is cut off."""
    for letter in ("e\u0301", FAMILY, "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd", "☀\ufe0f"):
        for limit in range(1, 12):
            shown = cut(letter * 20, limit)
            assert shown.endswith(MARK)
            assert shown[:-1] == letter * (len(shown[:-1]) // len(letter))
            assert width(shown) <= limit


def test_a_run_is_named_by_its_id_its_last_digits_or_as_the_latest(
    open_agent: OpenAgent, look: Looker
) -> None:
    """In whatever session it is; what fits none is refused."""
    agent = open_agent([said("1"), said("2"), said("3")])
    runs = [agent.run("a").run_id, agent.run("b").run_id]
    agent.sessions.archive("latest")
    agent.sessions.leave()
    runs.append(agent.run("c").run_id)
    state = read_state(look.workspace, state_home=look.state_home)
    try:
        for run_id in runs:
            for ref in (run_id, run_id[-8:], run_id[-12:]):
                assert resolve_run(state.store, ref).id == run_id
        assert resolve_run(state.store, "latest").id == runs[-1]
        for ref in ("", "%", "zzzz", runs[0][-3:], runs[0][-8:].upper() + "G", "0" * 36):
            with pytest.raises(ReferenceNotFound):
                resolve_run(state.store, ref)
    finally:
        state.close()
