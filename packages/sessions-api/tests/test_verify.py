"""Verifying: what is asked of the SDK and of the command, by one fault after the other."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from faces import SyncFace, calling, said
from run_journal import session_file_name
from seeded_faults import FAULTS, Broken
from sessions_api import NoActiveSession, RunFailed
from sessions_api.sessions import Sessions
from sessions_api.state import read_state
from sessions_api.verifying import verify
from tinyagent_process import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from conftest import OpenAgent
    from sessions_api import Finding
    from tinyagent_process import Tinyagent


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again soon: nobody else is at work, but where a test says so."""
    monkeypatch.setattr(verify, "RECHECK_S", 0.01)


@pytest.fixture
def open_one(workspace: Path, state_home: Path) -> Iterator[OpenAgent]:
    """Open an agent where it does not matter through which face."""
    opened: list[SyncFace] = []

    def open_agent(script: Iterable[Any], **options: Any) -> SyncFace:
        provider = SyncFace.scripted(script)
        opened.append(SyncFace(workspace, provider=provider, state_home=state_home, **options))
        return opened[-1]

    yield open_agent
    for one in opened:
        one.close()


def look() -> str:
    """Look."""
    return "seen"


def worked_with(open_agent: OpenAgent, *more: Any) -> Any:
    """Open an agent that has completed a turn with two calls."""
    script = [calling(("look", "{}"), ("look", "{}")), said("both seen"), *more]
    agent = open_agent(script, tools=[look])
    agent.run("look twice")
    return agent


def broken(state_home: Path) -> Broken:
    """Return the only database and the journals, to be broken."""
    (database,) = state_home.glob("workspaces/*/state.sqlite3")
    (journal_dir,) = state_home.glob("logs/*")
    return Broken(database, journal_dir, Random(0))


def journal_of(state_home: Path, session_id: str) -> Path:
    """Return the path of a session's journal."""
    return broken(state_home).journal_dir / session_file_name(session_id)


def facts(findings: tuple[Finding, ...]) -> list[tuple[str, str]]:
    """Return how bad each finding is, and its kind."""
    return [(one.severity, one.kind) for one in findings]


def test_a_good_session_has_nothing_to_find(open_agent: OpenAgent) -> None:
    """Nor has the whole workspace; that a fork's copied runs are told of nowhere is good."""
    agent = worked_with(open_agent, TimeoutError("t"), said("now"))
    with pytest.raises(RunFailed) as failed:
        agent.run("fail")
    agent.retry(failed.value.run_id)
    agent.sessions.undo()
    agent.sessions.fork()
    for report in (agent.sessions.verify(), agent.sessions.verify_all()):
        assert report.ok
        assert report.findings == ()


def test_without_an_active_session_one_has_to_be_named(open_agent: OpenAgent) -> None:
    """As everywhere."""
    with pytest.raises(NoActiveSession):
        open_agent().sessions.verify()


def test_an_ephemeral_conversation_is_verified_without_a_journal(open_agent: OpenAgent) -> None:
    """Its rows alone."""
    agent = open_agent([said("x")], persistence="ephemeral", state_home=None)
    agent.run("hi")
    assert agent.sessions.verify().findings == ()
    assert agent.sessions.verify_all().findings == ()


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("message count", ("error", "counter")),
        ("run's usage", ("error", "counter")),
        ("result removed", ("error", "gap")),
        ("outcome removed", ("error", "tool")),
        ("outcome changed", ("error", "run_differs")),
        ("execution removed", ("error", "tool")),
        ("running without a run", ("error", "status")),
        ("line removed", ("error", "sequence_broken")),
        ("line changed", ("error", "chain_broken")),
        ("tail torn", ("warning", "torn_tail")),
        ("last line of a run removed", ("warning", "run_end_missing")),
        ("journal removed", ("error", "journal_missing")),
        ("run's head gone", ("error", "head_missing")),
        ("result changed", ("error", "run_differs")),
    ],
)
def test_each_fault_is_told_in_words_with_what_to_do(
    open_one: OpenAgent, state_home: Path, fault: str, found: tuple[str, str]
) -> None:
    """And without a word of what was said."""
    agent = worked_with(open_one)
    assert FAULTS[fault](broken(state_home)) == agent.sessions.active.id
    report = agent.sessions.verify()
    assert found in facts(report.findings)
    assert report.ok == all(one.severity != "error" for one in report.findings)
    for one in report.findings:
        assert one.message
        assert one.hint
        assert "seen" not in f"{one.object}{one.message}{one.hint}"
    everywhere = agent.sessions.verify_all()
    assert set(facts(report.findings)) <= set(facts(everywhere.findings))


def test_what_cannot_be_found_is_a_text_of_the_same_length(
    open_one: OpenAgent, state_home: Path
) -> None:
    """The journal keeps no digest of what was said, only how long it was."""
    agent = worked_with(open_one)
    broken(state_home).rows("UPDATE messages SET content = 'SEEN' WHERE content = 'seen'")
    assert agent.sessions.verify().findings == ()


def test_a_run_whose_last_line_a_crash_kept_away_is_told_as_such(
    open_one: OpenAgent, state_home: Path
) -> None:
    """A warning: the commit comes first, and the database says how the run ended."""
    agent = worked_with(open_one)
    path = journal_of(state_home, agent.sessions.active.id)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    (found,) = agent.sessions.verify().findings
    assert (found.severity, found.kind) == ("warning", "run_end_missing")
    assert "killed" in found.hint


def test_a_recovery_that_was_killed_before_it_told_is_a_warning(
    open_one: OpenAgent, state_home: Path
) -> None:
    """An interrupted run knows no place in its journal, so that its lines may end anywhere."""
    agent = worked_with(open_one)
    path = journal_of(state_home, agent.sessions.active.id)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    place = broken(state_home)
    place.rows(
        "UPDATE runs SET status = 'failed', error_type = 'interrupted', input_tokens = NULL,"
        " output_tokens = NULL, journal_seq = NULL, journal_chain = NULL"
    )
    place.rows("UPDATE sessions SET status = 'failed', total_tokens = 0, usage_complete = 0")
    (found,) = agent.sessions.verify().findings
    assert (found.severity, found.kind) == ("warning", "run_end_missing")


def test_lost_lines_are_explained(open_one: OpenAgent, state_home: Path) -> None:
    """The run is saved although its journal could not be written: that is told, and no error."""
    agent = worked_with(open_one, said("unheard"))
    path = journal_of(state_home, agent.sessions.active.id)
    kept = path.read_bytes()
    path.unlink()
    path.mkdir()
    agent.run("and now?")
    path.rmdir()
    path.write_bytes(kept)
    report = agent.sessions.verify()
    assert report.ok
    assert ("notice", "lines_lost") in facts(report.findings)
    assert {one.severity for one in report.findings} <= {"notice", "warning"}


def test_a_database_older_than_its_journal_is_explained_by_the_restore(
    tinyagent: Tinyagent,
) -> None:
    """Runs and sessions that came after the backup are warned of."""
    first = tinyagent.json("run", "one")["session_id"]
    tinyagent("store", "backup")
    tinyagent("run", "two", "--resume", first)
    tinyagent("run", "another session")
    assert tinyagent("store", "restore", "--yes").returncode == 0
    told = tinyagent.json("sessions", "verify")
    assert told["ok"]
    assert {(one["severity"], one["kind"]) for one in told["findings"]} == {
        ("warning", "run_unknown"),
        ("warning", "journal_stray"),
    }


def test_while_others_write_nothing_is_wrong(
    open_one: OpenAgent, workspace: Path, state_home: Path
) -> None:
    """Between a commit and its line, and while a run is under way."""
    agent = open_one([said(str(number)) for number in range(60)])
    agent.run("first")
    session_id = agent.sessions.active.id
    found: list[Finding] = []
    over = threading.Event()

    def watch() -> None:
        state = read_state(workspace, state_home=state_home)
        try:
            while not over.is_set():
                found.extend(Sessions(state).verify(session_id).findings)
        finally:
            state.close()

    watcher = threading.Thread(target=watch)
    watcher.start()
    for number in range(59):
        agent.run(f"question {number}")
    over.set()
    watcher.join()
    assert found == []


def test_the_command_says_what_is_wrong_and_exits_with_1(
    tinyagent: Tinyagent,
) -> None:
    """Findings on standard output; what to do, and how many there are, on standard error."""
    session_id = tinyagent.json("run", "hi")["session_id"]
    good = tinyagent("sessions", "verify", session_id)
    assert (good.returncode, good.stdout) == (0, "")
    assert "Nothing is wrong." in good.stderr
    state_home = home_of(tinyagent)
    broken(state_home).rows("UPDATE sessions SET message_count = 9")
    for arguments in ([session_id], ["--all"], []):
        bad = tinyagent("sessions", "verify", *arguments)
        assert bad.returncode == 1
        assert f"error    session {session_id}: " in bad.stdout
        assert "Found: 1 error" in bad.stderr
    told = tinyagent.json("sessions", "verify", session_id)
    assert told["schema_version"] == 1
    assert told["ok"] is False
    (finding,) = told["findings"]
    assert list(finding) == ["severity", "kind", "object", "message", "hint"]
    assert finding["kind"] == "counter"


def test_the_command_refuses_a_reference_beside_all_and_knows_what_is_not_there(
    tinyagent: Tinyagent,
) -> None:
    """Usage is 2, not found is 4."""
    tinyagent("run", "hi")
    assert tinyagent("sessions", "verify", "latest", "--all").returncode == 2
    assert tinyagent("sessions", "verify", "nobody").returncode == 4


def test_a_damaged_database_exits_with_5(tinyagent: Tinyagent) -> None:
    """Whether it still opens or not."""
    session_id = tinyagent.json("run", "hi")["session_id"]
    database = broken(home_of(tinyagent)).database
    whole = database.read_bytes()
    for damaged in (
        whole[:100] + b"\xff" * (len(whole) - 100),
        b"nothing of a database" * 500,
    ):
        database.write_bytes(damaged)
        for arguments in ([session_id], ["--all"]):
            assert tinyagent("sessions", "verify", *arguments).returncode == 5


def test_ctrl_c_on_a_terminal_stops_it_and_leaves_everything_valid(tinyagent: Tinyagent) -> None:
    """Progress is shown by then, and the next look finds what the first one would have."""
    session_id = tinyagent.json("run", "hi")["session_id"]
    path = journal_of(home_of(tinyagent), session_id)
    path.write_bytes(path.read_bytes()[:-5])  # so that it looks again, and waits before that
    slow = (
        "import sys; from sessions_api.verifying import verify; verify.RECHECK_S = 60;"
        "from sessions_api.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    program = (sys.executable, "-c", slow)
    with Terminal(tinyagent, "sessions", "verify", "--all", program=program) as terminal:
        terminal.wait_for("Verifying sessions")
        terminal.type("\x03")
        assert terminal.leave() == 128 + signal.SIGINT
    told = tinyagent.json("sessions", "verify", "--all")
    assert {one["kind"] for one in told["findings"]} == {"torn_tail", "run_end_missing"}


def home_of(tinyagent: Tinyagent) -> Path:
    """Return the state home of the command."""
    return Path(tinyagent.environment["TINYAGENT_STATE_HOME"])
