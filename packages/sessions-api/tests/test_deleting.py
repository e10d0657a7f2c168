"""What a delete owes: the rows go first, and until the journal is gone too that is remembered."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sessions_api import Agent, state
from state_store import SqliteStore

if TYPE_CHECKING:
    import pytest

    from faces import Looker
    from tinyagent_process import Call, Tinyagent


def owed_count(look: Looker) -> int:
    """Return of how many deleted sessions something may be left."""
    database = look.database()
    with SqliteStore.open(database, workspace_id=database.parent.name, writing=False) as store:
        return len(store.unerased())


def journals(state_home: Path) -> list[Path]:
    """Return the journals of sessions."""
    return [path for path in state_home.glob("logs/*/*.jsonl") if path.stem != "workspace"]


def test_after_a_delete_nothing_is_owed(workspace: Path, state_home: Path, look: Looker) -> None:
    """At once, and not only at the next start."""
    with Agent(workspace, provider="offline", state_home=state_home) as agent:
        agent.run("gone")
        agent.sessions.delete("latest")
        assert owed_count(look) == 0
    assert journals(state_home) == []


def test_c41_nothing_of_a_deleted_session_is_left_however_it_was_deleted(
    call: Call, tinyagent: Tinyagent
) -> None:
    """By the SDK and by the command, after forks, undone turns, summaries and searches."""
    state_home = tinyagent.environment["TINYAGENT_STATE_HOME"]
    ids: dict[str, str] = {}
    with Agent(tinyagent.workspace, provider="offline", state_home=state_home) as agent:
        for marker in ("zinnober", "quendel", "kept"):
            agent.sessions.leave()
            for text in (f"{marker} list the files", f"{marker} again", f"{marker} undone"):
                agent.run(text)
            agent.sessions.undo()
            agent.sessions.summarize(f"{marker} in short", 2)
            ids[marker] = agent.sessions.active.id if agent.sessions.active else ""
            assert agent.sessions.search(marker).items
        fork = agent.sessions.fork(ids["quendel"]).id
        agent.sessions.delete(fork)
        agent.sessions.delete(ids["zinnober"])
    assert call("sessions", "delete", ids["quendel"], "--yes")[0] == 0
    assert call("sessions", "search", "quendel")[1] == ""
    tombstones = {ids["zinnober"], ids["quendel"], fork}
    for path in Path(state_home).rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        for word in (b"zinnober", b"quendel"):
            assert word not in content, path
        if path.suffix == ".jsonl" and path.stem != "workspace":
            assert not [one for one in tombstones if one.encode() in content], path
    with Agent(tinyagent.workspace, provider="offline", state_home=state_home) as agent:
        assert len(agent.sessions.messages(ids["kept"], view="all").items) == 7
        assert agent.sessions.list().items[0].id == ids["kept"]
        assert agent.sessions.search("kept").items


def test_a_journal_that_cannot_be_removed_now_goes_at_a_later_start(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """The delete says that it stayed; starts try again, quietly, and fail nothing."""
    with Agent(workspace, provider="offline", state_home=state_home) as agent:
        agent.run("gone")
        (journal,) = journals(state_home)
        content = journal.read_bytes()
        journal.unlink()
        (journal / "in the way").mkdir(parents=True)
        agent.sessions.delete("latest")
        (notice,) = agent.notices
        assert str(journal) in notice
    with Agent(workspace, provider="offline", state_home=state_home) as agent:
        assert agent.notices == ()
    assert owed_count(look) == 1
    (journal / "in the way").rmdir()
    journal.rmdir()
    journal.write_bytes(content)
    with Agent(workspace, provider="offline", state_home=state_home) as agent:
        assert agent.notices == ()
    assert owed_count(look) == 0
    assert journals(state_home) == []


def test_a_start_finishes_a_bounded_number_of_deletes(
    workspace: Path, state_home: Path, look: Looker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restore there may be thousands, and nobody waits for them; the next start goes on."""
    with Agent(workspace, provider="offline", state_home=state_home) as agent:
        for _ in range(3):
            agent.sessions.create()
        sessions = [one.id for one in agent.sessions.list().items]
    database = look.database()
    with SqliteStore.open(database, workspace_id=database.parent.name) as store:
        for session_id in sessions:
            store.delete(session_id)
    monkeypatch.setattr(state, "_FINISHED_DELETES_LIMIT", 2)
    for left in (1, 0):
        Agent(workspace, provider="offline", state_home=state_home).close()
        assert owed_count(look) == left
