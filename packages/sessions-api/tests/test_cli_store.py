"""`tinyagent store` at a terminal, the line that shows progress, and upgrades on the way."""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sessions_api.cli import progress
from sessions_api.cli.failures import exit_code_of
from sessions_api.cli.output import Output
from sessions_api.cli.progress import ProgressLine
from sessions_api.error_types import error_type_of
from sessions_api.problems import problem_of
from state_store import (
    BackupUnusable,
    NewSession,
    SessionState,
    StoreDamaged,
    StoreInUse,
    StoreLost,
    StoreMissing,
    StoreNewer,
    StoreOutdated,
    UpgradeFailed,
    new_id,
)
from state_store.sqlite.place import Place
from state_store.sqlite.schema import SCHEMA
from state_store.testing.family import FIRST, OldStore
from tinyagent_process import Terminal
from workspace_identity import open_workspace

if TYPE_CHECKING:
    from tinyagent_process import Call, Tinyagent

WAIT_S = 10
FAILED_UPGRADE: dict[str, Any] = {"step": "0002", "found": 1, "wanted": 2, "backup_path": "/b"}


def made_by_the_first_schema(tinyagent: Tinyagent) -> None:
    """Make a store as schema 1 had it, with one session."""
    found = open_workspace(
        tinyagent.workspace, state_home=tinyagent.environment["TINYAGENT_STATE_HOME"]
    )
    settings = NewSession(title="old", provider="offline")
    state = SessionState(id=new_id(), settings=settings)
    place = Place.at(found.paths.database, workspace_id=found.id, schema=FIRST)
    with closing(OldStore(place)) as store:
        store.write(lambda today: today.save(state, timedelta()))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StoreInUse("/x", work="restore", holders=()), 7),
        (StoreMissing("/x"), 4),
        (BackupUnusable("/x", "it is damaged"), 4),
        (StoreDamaged("/x", "it is damaged"), 5),
        (StoreLost("/x"), 5),
        (StoreNewer("/x", found=3, supported=2), 6),
        (StoreOutdated("/x", found=1, needed=2), 1),
        (UpgradeFailed("/x", "it broke", **FAILED_UPGRADE), 1),
    ],
)
def test_each_failure_of_a_store_has_its_exit_code(error: Exception, code: int) -> None:
    """Scripts tell them apart; each says what to do."""
    assert exit_code_of(error) == code
    assert problem_of(error).hint


def test_a_store_in_use_is_a_busy_one_for_runs_and_scripts() -> None:
    """It is worth trying again, and has the stable name of a busy store."""
    error = StoreInUse("/x", work="open", holders=())
    assert problem_of(error).retryable
    assert error_type_of(error) == "storage.busy"


def test_the_hint_after_damage_names_the_workspace_that_was_named(tmp_path: Path) -> None:
    """Typed elsewhere, a command without it would restore another workspace."""
    hint = problem_of(StoreDamaged(tmp_path / "x", "why"), workspace="/my project").hint
    assert "tinyagent store recover --workspace '/my project'" in hint


def test_a_database_that_is_gone_is_restored_by_the_command_that_is_named(call: Call) -> None:
    """Exit 5 and nothing new in its place while its backups are there."""
    call("run", "hello")
    call("store", "backup")
    database = Path(json.loads(call("path", "--json")[1])["database"])
    database.unlink()
    code, _, errors = call("sessions")
    assert (code, database.exists()) == (5, False)
    assert errors.splitlines()[1].endswith(": tinyagent store restore")
    assert call("store", "restore", "--yes")[0] == 0
    assert len(call("sessions", "--ids")[1].splitlines()) == 1


def test_a_restore_asks_at_a_terminal_and_no_is_the_answer_of_silence(
    call: Call, tinyagent: Tinyagent
) -> None:
    """What would be put where is shown before the question; yes does it."""
    call("run", "before")
    backup = json.loads(call("store", "backup", "--json")[1])["backup"]["path"]
    call("run", "after")
    for answer, code, count in (("\n", 1, 2), ("y\n", 0, 1)):
        with Terminal(tinyagent, "store", "restore") as terminal:
            terminal.wait_for("Restore it? [y/N] ")
            shown = terminal.shown.replace("\n", "").replace(" ", "")
            assert backup in shown
            assert "Itholds:1session," in shown
            terminal.type(answer)
            assert terminal.leave() == code
        listed = json.loads(call("sessions", "list", "--json")[1])["sessions"]
        assert len(listed) == count


def test_whoever_meets_an_older_database_first_tells_its_upgrade(
    call: Call, tinyagent: Tinyagent
) -> None:
    """Also a command that looks up a reference before it opens for writing; once."""
    made_by_the_first_schema(tinyagent)
    code, _, errors = call("sessions", "rename", "old", "new")
    assert code == 0
    assert errors.count(f"was upgraded from schema 1 to {SCHEMA.version}") == 1
    journals = "".join(
        path.read_text() for path in tinyagent.workspace.parent.glob("state/logs/*/*.jsonl")
    )
    assert journals.count("store.migrated") == 1


def test_chat_tells_an_upgrade_too(call: Call, tinyagent: Tinyagent) -> None:
    """Beside the answers, so that a pipe gets those alone."""
    made_by_the_first_schema(tinyagent)
    code, output, errors = call("chat", typed="hello\n")
    assert (code, output.count("\n")) == (0, 1)
    assert f"was upgraded from schema 1 to {SCHEMA.version}" in errors


def shown_on_standard_error(capsys: pytest.CaptureFixture[str], text: str) -> str:
    """Return what was written until *text* came."""
    shown, deadline = "", time.monotonic() + WAIT_S
    while text not in shown:
        assert time.monotonic() < deadline, shown
        time.sleep(0.02)
        shown += capsys.readouterr().err
    return shown


def test_long_work_shows_what_it_is_at_and_takes_it_away(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A step that says nothing for long is shown as well; afterwards the line is empty."""
    with ProgressLine(shown=True) as long:
        long("copying", 1, 4)
        assert shown_on_standard_error(capsys, "25 %").startswith("\rCopying … 25 %")
        long("checking", 0, 0)
        shown_on_standard_error(capsys, "\rChecking …    ")  # over the longer line before
    assert capsys.readouterr().err.endswith("\r          \r")


def test_quick_work_and_work_that_nobody_watches_show_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is over before patience ends is no matter, and a file or a pipe is no person."""
    monkeypatch.setattr(progress, "PATIENCE_S", 60)
    with ProgressLine(shown=True) as quick:
        quick("copying", 1, 4)
    monkeypatch.setattr(progress, "PATIENCE_S", 0)
    with Output().progress() as unwatched:
        unwatched("copying", 1, 4)
        time.sleep(0.05)
    assert capsys.readouterr() == ("", "")


def test_json_in_a_pipe_comes_without_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever standard error is; at a terminal JSON is read by a person, who may wait as well."""
    on_terminal = type("Stream", (), {"isatty": lambda _: True})()
    in_pipe = type("Stream", (), {"isatty": lambda _: False})()
    monkeypatch.setattr(sys, "stderr", on_terminal)
    for output, json_wanted, shown in (
        (in_pipe, True, False),
        (in_pipe, False, True),
        (on_terminal, True, True),
    ):
        monkeypatch.setattr(sys, "stdout", output)
        assert Output(json=json_wanted).progress()._shown is shown
