"""Forks, undone turns, runs and searches on the command line."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from faces import calling
from sessions_api import Agent, Hit, RunFailed, tool
from sessions_api.showing.hits import hit_lines
from sessions_api.showing.terminal_text import Ink
from sessions_api.testing import ScriptedProvider
from wire_server import Turn, WireServer

if TYPE_CHECKING:
    from tinyagent_process import Call, Tinyagent

OFFLINE = ("--provider", "offline")


def asked(call: Call, *arguments: str) -> Any:
    """Return what the command prints under --json."""
    code, output, errors = call(*arguments, "--json")
    assert code == 0, errors
    return json.loads(output)


def talked(call: Call, *messages: str) -> str:
    """Say *messages* in a new session and return its id."""
    first, *others = messages
    session_id = asked(call, "run", first, *OFFLINE)["session_id"]
    for message in others:
        assert call("run", message, "--resume", session_id, *OFFLINE)[0] == 0
    return str(session_id)


def test_a_session_is_forked_undone_and_brought_back(tinyagent: Tinyagent) -> None:
    """In processes of their own: the id of a fork is all that stands on standard output."""
    for arguments in (("run", "one"), ("-c", "run", "two")):
        assert tinyagent(*arguments, *OFFLINE).returncode == 0
    parent = tinyagent("sessions", "--ids").stdout.strip()
    forked = tinyagent("sessions", "fork", parent[-8:], "--title", "other")
    fork = forked.stdout.strip()
    assert re.fullmatch(r"[0-9a-f-]{36}", fork)
    assert forked.stderr == f"Resume: tinyagent --resume {fork[-8:]}\n"
    undone = tinyagent("sessions", "undo", "other")
    assert (undone.returncode, undone.stdout) == (0, "")
    assert undone.stderr.startswith(f"Undone in {fork[-8:]} (other).")
    assert undone.stderr.endswith(f"tinyagent sessions redo {fork[-8:]}\n")
    shown = tinyagent("sessions", "show", "other").stdout
    assert f"from {parent[-8:]}, through message 4" in shown
    assert "two" not in shown
    assert "[run " in tinyagent("sessions", "show", "other", "--view", "all").stdout
    assert tinyagent("sessions", "redo", "other").returncode == 0
    assert "two" in tinyagent("sessions", "show", "other").stdout
    again = tinyagent("sessions", "redo", "other")
    assert (again.returncode, again.stdout) == (1, "")
    assert "has no turn to redo" in again.stderr
    assert "two" in tinyagent("sessions", "show", parent).stdout


def test_branches_as_json_are_the_session(call: Call) -> None:
    """Whole ids, and the kind of a refusal with its exit code."""
    session = talked(call, "one", "two")
    fork = asked(call, "sessions", "fork", "--at", "2")["session"]
    assert (fork["forked_from"], fork["message_count"]) == ([session, 2], 2)
    assert fork["short_id"] == fork["id"][-8:]
    assert asked(call, "sessions", "undo", session, "-n", "9")["session"]["id"] == session
    assert [one["undone_at"] is None for one in asked(call, "runs", session)["runs"]] == [False] * 2
    assert asked(call, "sessions", "redo", session, "--turns", "2")["session"]["status"] == "idle"
    for arguments, kind, expected in (
        (("fork", session, "--at", "3"), "boundary_invalid", 2),
        (("redo", session), "nothing_to_redo", 1),
        (("undo", "nowhere"), "reference_not_found", 4),
        (("fork", "one"), "reference_ambiguous", 3),
        (("undo", session, "-n", "0"), "usage_invalid", 2),
        (("fork", session, "--title", " "), "usage_invalid", 2),
    ):
        code, output, errors = call("sessions", *arguments, "--json")
        assert (code, json.loads(output)["error"]["kind"]) == (expected, kind), arguments
        assert len(errors.splitlines()) == 2


def test_undo_without_a_reference_is_of_the_latest_session(call: Call) -> None:
    """A command has no active session."""
    code, _, errors = call("sessions", "undo")
    assert code == 4
    assert "There is no session here yet" in errors
    first = talked(call, "one")
    latest = talked(call, "two")
    assert asked(call, "sessions", "undo")["session"]["id"] == latest
    assert [one["undone_at"] for one in asked(call, "runs", first)["runs"]] == [None]


def test_show_says_what_was_used_and_what_was_inherited(call: Call, wire: WireServer) -> None:
    """By model where there is more than one, and as a lower bound where not all is known."""
    to = ("--provider", "openai", "--base-url", wire.base_url)
    used = {"prompt_tokens": 80, "completion_tokens": 20}
    wire.script(Turn(text="a", usage=used), Turn(text="b", usage=used), Turn(text="c"))
    assert call("run", "x", *to, "--model", "m1")[0] == 0
    assert call("-c", "run", "y", *to, "--model", "m2")[0] == 0
    shown = call("sessions", "show", "latest")[1]
    assert "Tokens    200 (160 in, 40 out)\n" in shown
    for model in ("m1", "m2"):
        assert f"          openai / {model}: 100 (80 in, 20 out), -\n" in shown
    assert call("sessions", "fork", "--title", "other")[0] == 0
    shown = call("sessions", "show", "other")[1]
    assert "Tokens    0 (0 in, 0 out)\n" in shown
    assert "Inherited 200 from the parent, counted there\n" in shown
    assert call("run", "z", "--resume", "other", *to, "--model", "m3")[0] == 0
    assert "Tokens    -\n" in call("sessions", "show", "other")[1]  # nothing was reported
    session = asked(call, "sessions", "show", "other")["session"]
    assert (session["total_tokens"], session["inherited_tokens"]) == (0, 200)
    assert session["usage_complete"] is False


# --- search -----------------------------------------------------------------------------------


def test_search_finds_words_in_all_sessions(tinyagent: Tinyagent, call: Call) -> None:
    """A line a hit, in a pipe without colours; the handle at its beginning resumes."""
    first = talked(call, "where is the Leuchtturm")
    talked(call, "something else", "die Leuchttürme im Norden")
    done = tinyagent("sessions", "search", "leuchtt")
    rows = done.stdout.splitlines()
    assert done.returncode == 0
    assert {row.split()[0] for row in rows} >= {first[-8:]}
    assert all("leuchtt" in row.lower() for row in rows)
    assert "\x1b" not in done.stdout
    assert tinyagent("sessions", "show", rows[0].split()[0]).returncode == 0
    nothing = tinyagent("sessions", "search", "zebra", "crossing")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert nothing.stderr == "Nothing has these words.\n"


def test_search_as_json_is_hits_and_pages(call: Call) -> None:
    """The pages concatenate to the whole; what continues is told to people too."""
    talked(call, "apple one", "apple two", "apple three")
    whole = asked(call, "sessions", "search", "apple", "-n", "0")
    assert set(whole) == {"schema_version", "hits", "next_cursor"}
    assert set(whole["hits"][0]) == {
        *("session_id", "seq", "role", "snippet", "created_at", "matches"),
    }
    pages: list[Any] = []
    more: tuple[str, ...] = ()
    while True:
        page = asked(call, "sessions", "search", "apple", "-n", "3", *more)
        pages += page["hits"]
        if page["next_cursor"] is None:
            break
        more = ("--cursor", page["next_cursor"])
    assert pages == whole["hits"]
    errors = call("sessions", "search", "apple", "-n", "1")[2]
    typed = errors.strip().removeprefix("More: tinyagent ").split()
    assert call(*typed)[0] == 0
    relevant = asked(call, "sessions", "search", "apple", "--order", "relevance", "-n", "0")
    assert len(relevant["hits"]) == len(whole["hits"])
    assert call("sessions", "search", "pear", *more, "--cursor", "made up")[0] == 2
    assert call("sessions", "search")[0] == 2
    assert call("sessions", "search", "x", "--order", "oldest")[0] == 2


def test_what_a_search_shows_has_no_power_over_the_terminal(call: Call) -> None:
    """Control characters in stored text become visible; JSON stays exact."""
    talked(call, "evil \x1b]0;title\x07 words")
    for word in ("evil", "words"):
        found = call("sessions", "search", word)[1]
        assert word in found
        assert "\x1b" not in found
    hit = Hit(
        session_id="0" * 36,
        seq=1,
        role="\x1b[2J",
        snippet="\x07a \x1bevil\x9b word",
        matches=((4, 9),),
        created_at=None,
    )
    for ink in (Ink(), Ink(color=True)):
        (line,) = hit_lines([hit], ink=ink)
        plain = line.replace("\x1b[1m", "").replace("\x1b[0m", "")
        assert not set(plain) & {"\x1b", "\x07", "\x9b"}
        assert (plain == line) is not ink.color


def test_reading_searches_without_writing(tinyagent: Tinyagent, call: Call) -> None:
    """The index is an affair of those who write; reading finds all the same."""
    talked(call, "quince")
    for index in tinyagent.database().parent.glob("search.sqlite3*"):
        index.unlink()
    before = tinyagent.database().read_bytes()
    assert asked(call, "sessions", "search", "quince")["hits"]
    assert tinyagent.database().read_bytes() == before


# --- runs -------------------------------------------------------------------------------------


def failed_run(tinyagent: Tinyagent, script: list[Any]) -> str:
    """Make a session whose run fails, with an unsafe tool in it; return the run's id."""

    @tool(replay="unsafe")
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    state_home = tinyagent.environment["TINYAGENT_STATE_HOME"]
    options: Any = {"provider": ScriptedProvider(script), "tools": [pay]}
    with (
        Agent(tinyagent.workspace, state_home=state_home, **options) as agent,
        pytest.raises(RunFailed) as caught,
    ):
        agent.run("please pay")
    return caught.value.run_id


def test_one_run_is_shown_from_its_input_to_its_end(call: Call, tinyagent: Tinyagent) -> None:
    """By what `runs REF` prints; JSON has all of it."""
    session = talked(call, "one", "two")
    listed = call("runs", session)[1].splitlines()
    assert listed == call("runs", "list", session)[1].splitlines()
    printed = listed[1].split()[0]
    shown = call("runs", "show", printed)[1]
    assert "Status    completed" in shown
    assert "one" in shown
    assert "two" not in shown
    found = asked(call, "runs", "show", "latest")
    assert set(found) == {"schema_version", "session_id", "run", "messages"}
    assert found["session_id"] == session
    assert [one["role"] for one in found["messages"]] == ["user", "assistant"]
    assert found["run"]["tool_executions"] == []
    assert asked(call, "--json", "runs", session)["runs"][1] == found["run"]
    assert call("runs", "show", "ffff0000ffff")[0] == 4
    assert call("runs", "nowhere")[0] == 4
    assert call("runs")[0] == 2
    assert tinyagent("runs", "--help").stdout.count("retry") == 2


def test_a_failed_run_is_tried_again_and_answers_like_run(call: Call, tinyagent: Tinyagent) -> None:
    """The answer on standard output, how to go on beside it; the try has a run of its own."""
    run_id = failed_run(tinyagent, [ConnectionError()])
    assert f"tinyagent runs retry {run_id[-8:]}" in call("sessions", "show", "latest")[1]
    done = tinyagent("runs", "retry", run_id[-8:], *OFFLINE)
    assert done.returncode == 0
    assert "“please pay”" in done.stdout
    assert done.stderr.startswith("Resume: tinyagent --resume ")
    runs = asked(call, "runs", "latest")["runs"]
    assert [one["status"] for one in runs] == ["failed", "completed"]
    assert runs[1]["retry_of"] == run_id
    code, _, errors = call("runs", "retry", runs[1]["id"], *OFFLINE)
    assert code == 1
    assert "it is completed" in errors
    assert call("runs", "retry", "ffff0000ffff", *OFFLINE)[0] == 4


def test_what_may_not_run_twice_is_refused_without_consent(
    call: Call, tinyagent: Tinyagent
) -> None:
    """The command that allows it is named; with --note the model is told something too."""
    run_id = failed_run(tinyagent, [calling(("pay", '{"amount": 7}')), TimeoutError()])
    code, output, errors = call("runs", "retry", run_id, *OFFLINE)
    assert (code, output) == (1, "")
    assert "by pay (ok)" in errors
    assert f"tinyagent runs retry {run_id[-8:]} --allow-unsafe" in errors
    answer = asked(
        call, "runs", "retry", run_id, "--allow-unsafe", "--note", "It was paid.", *OFFLINE
    )
    assert set(answer) == {
        *("schema_version", "session_id", "run_id", "status", "text", "usage", "cost"),
        "error_type",
    }
    assert answer["run_id"] != run_id
    assert "It was paid." in call("runs", "show", answer["run_id"])[1]
