"""`tinyagent store`, and what upgrades, damage and other processes mean for every command."""

from __future__ import annotations

import json
import re
import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest
import typer

from processes import TIMEOUT_S, Place, line_of
from sessions_api import Agent
from sessions_api.cli.app import build
from sessions_api.state import read_state
from state_store import Maintenance
from state_store.sqlite.schema import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable

WHAT_NOW = Path(__file__).parents[1] / "docs" / "what-now.md"
COMMAND = re.compile(r"tinyagent(?: +[^\s;`#|)\"]+)+")
REPLACED = re.compile(r"What was there before: (.*)")
# A store as the first schema had it.
FIRST_SCHEMA = """
from contextlib import closing
from datetime import timedelta
from state_store import NewMessage, NewSession, SessionState, new_id
from state_store.sqlite.place import Place
from state_store.testing.family import FIRST, OldStore
from workspace_identity import open_workspace

found = open_workspace(".")
place = Place.at(found.paths.database, workspace_id=found.id, schema=FIRST)
with closing(OldStore(place)) as store:
    for title in ("first", "second"):
        said = NewMessage(role="user", content=f"said in the {title}")
        settings = NewSession(title=title, provider="offline", model_id="offline")
        state = SessionState(id=new_id(), settings=settings, messages=(said,))
        store.write(lambda today: today.save(state, timedelta()))
print("made", flush=True)
"""
# Ctrl-C, a real one, when the work tells that it is at STEP.
INTERRUPTED = """
import os, signal, sys
from sessions_api.cli import main
from sessions_api.cli.progress import ProgressLine

def told(self, what, done, total):
    if what == STEP:
        os.kill(os.getpid(), signal.SIGINT)

ProgressLine.__call__ = told
print("started", flush=True)
sys.exit(main(ARGUMENTS))
"""
# A process that dies when a delete has removed the rows and comes to the journal.
CUT_OFF_DELETE = """
import os
from run_journal import Journal
from sessions_api import Agent

Journal.delete = lambda self, session_id: os._exit(9)
print("started", flush=True)
with Agent(".", provider="offline") as agent:
    agent.sessions.delete("latest")
"""
# A process that dies with all it committed in the log.
KILLED = """
import os
from sessions_api import Agent

agent = Agent(".", provider="offline")
agent.run("in the log")
print("said", flush=True)
os._exit(9)
"""


def talk(place: Place, *texts: str) -> None:
    """Begin a session with each of *texts*."""
    with Agent(place.workspace, provider="offline", state_home=place.home) as agent:
        for text in texts:
            agent.sessions.leave()
            agent.run(text)


def titles(place: Place) -> list[str | None]:
    """Return the titles of all sessions, oldest activity first."""
    state = read_state(place.workspace, state_home=place.home)
    try:
        return [one.title for one in reversed(state.store.list(limit=None).items)]
    finally:
        state.close()


def database_of(place: Place) -> Path:
    """Return the path of the only database."""
    (database,) = place.home.glob("workspaces/*/state.sqlite3")
    return database


def back_up(place: Place) -> Path:
    """Make a backup and return its path."""
    database = database_of(place)
    return Path(Maintenance(database, workspace_id=database.parent.name).back_up().path)


def kept_bytes(database: Path) -> dict[str, bytes]:
    """Return what lies beside and in the database, but for SQLite's index and the lock files."""
    passing = re.compile(r"-(wal|shm)$|\.(gate|presence)$")
    return {
        path.name: path.read_bytes()
        for path in database.parent.iterdir()
        if path.is_file() and not passing.search(path.name)
    }


def chat(place: Place, typed: str) -> tuple[int, str, str]:
    """Chat by a pipe and return exit code, output and errors."""
    process = place.start("chat")
    output, errors = process.communicate(typed, timeout=TIMEOUT_S)
    return process.returncode, output, errors


def as_a_newer_program(database: Path) -> None:
    """Add what a program of the next schema might have."""
    connection = apsw.Connection(str(database))
    connection.execute("ALTER TABLE sessions ADD COLUMN mood TEXT")
    connection.execute("CREATE TABLE moods (name TEXT)")
    connection.execute(f"PRAGMA user_version={SCHEMA.version + 1}")
    connection.close()


def with_zeros(whole: bytes, page: slice) -> bytes:
    """Lose the header."""
    return bytes(100) + whole[100:]


def halved(whole: bytes, page: slice) -> bytes:
    """Lose the second half."""
    return whole[: len(whole) // 2]


def with_flips(whole: bytes, page: slice) -> bytes:
    """Flip bits all over the first page of the sessions."""
    return whole[: page.start] + bytes(byte ^ 0x5A for byte in whole[page]) + whole[page.stop :]


def damage(database: Path, how: Callable[[bytes, slice], bytes]) -> bytes:
    """Damage the database, which nobody has open, and return what it is now."""
    connection = apsw.Connection(str(database))
    page = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'sessions'").get
    size = connection.pragma("page_size")
    connection.close()
    assert isinstance(page, int)
    assert isinstance(size, int)
    damaged = how(database.read_bytes(), slice((page - 1) * size, page * size))
    database.write_bytes(damaged)
    return damaged


def test_a_backup_is_listed_and_brings_back_what_was_there(place: Place) -> None:
    """Its path alone is on standard output; what a restore replaces can be restored in its turn."""
    talk(place, "before")
    made = place.tinyagent("store", "backup")
    assert made.returncode == 0, made.stderr
    path = Path(made.stdout.removesuffix("\n"))
    assert path.is_file()
    talk(place, "after")
    listed = place.tinyagent("store", "backups").stdout
    name = path.name.rpartition(".backup-")[2]
    row = rf"^{name}  \d{{4}}-\d\d-\d\d [\d:]{{8}}[+-]\d\d:\d\d +\S+ kB +{SCHEMA.version} +1$"
    assert re.search(row, listed, re.MULTILINE)

    refused = place.tinyagent("store", "restore", name)
    assert (refused.returncode, titles(place)) == (8, ["before", "after"])
    restored = place.tinyagent("store", "restore", name[9:21], "--yes")
    assert (restored.returncode, restored.stdout) == (0, ""), restored.stderr
    assert titles(place) == ["before"]
    assert '"event":"store.restored"' in place.journal()

    (replaced,) = REPLACED.findall(restored.stderr)
    undone = place.tinyagent("store", "restore", replaced, "--yes")
    assert undone.returncode == 0, undone.stderr
    assert titles(place) == ["before", "after"]


def test_the_json_of_the_commands_is_exact(place: Place) -> None:
    """Whole paths, numbers as they are, times in UTC; one object each."""
    assert place.json("store", "backups") == {"schema_version": 1, "backups": []}
    talk(place, "hello")
    backup = place.json("store", "backup")["backup"]
    facts = {"path", "created_at", "size_bytes", "version", "session_count", "problem", "pruned"}
    assert set(backup) == facts
    assert backup["size_bytes"] == Path(backup["path"]).stat().st_size
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", backup["created_at"])
    assert place.json("store", "backups")["backups"] == [backup]
    restored = place.json("store", "restore", "--yes")["restored"]
    facts = {"backup", "version", "session_count", "erased_count", "deletions_known"}
    assert set(restored) == {*facts, "replaced_path"}
    assert (restored["backup"], restored["session_count"]) == (backup, 1)
    compacted = place.json("store", "compact")["compacted"]
    assert set(compacted) == {"before_bytes", "after_bytes"}
    assert place.json("store", "check") == {"schema_version": 1, "ok": True, "findings": []}
    failed = place.json("store", "restore", "nothing")
    assert (failed["schema_version"], failed["error"]["kind"]) == (1, "reference_not_found")


def test_what_is_no_backup_is_refused_and_changes_nothing(place: Place) -> None:
    """Exit 4 for none, a broken one, another workspace's; 3 with all names when several fit."""
    assert place.tinyagent("store", "backup").returncode == 4
    talk(place, "hello")
    assert place.tinyagent("store", "restore", "--yes").returncode == 4
    database = database_of(place)
    back_up(place)
    talk(place, "more")
    back_up(place)
    before = kept_bytes(database)
    several = place.tinyagent("store", "restore", ".backup-", "--yes")
    assert several.returncode == 3
    assert len(re.findall(rf"\d{{8}}T\d{{12}}Z-v{SCHEMA.version}", several.stderr)) == 2
    junk = place.root / "junk"
    junk.write_bytes(b"no database " * 1000)
    (place.root / "elsewhere").mkdir()
    elsewhere = Place(place.root / "elsewhere")
    talk(elsewhere, "a history of its own")
    for path in (junk, junk.with_name("nothing"), back_up(elsewhere)):
        refused = place.tinyagent("store", "restore", str(path), "--yes")
        assert (refused.returncode, refused.stdout) == (4, ""), refused.stderr
        assert "tinyagent store backups" in refused.stderr
    assert kept_bytes(database) == before


def test_a_database_that_was_replaced_comes_back_with_its_log(place: Place) -> None:
    """What a killed program committed lies in the log alone, and is restored with the file."""
    talk(place, "hello")
    back_up(place)
    process = place.script("killed", KILLED)
    assert line_of(process) == "said"
    process.wait(TIMEOUT_S)
    replaced = place.json("store", "restore", "--yes")["restored"]["replaced_path"]
    assert titles(place) == ["hello"]
    undone = place.tinyagent("store", "restore", replaced, "--yes")
    assert undone.returncode == 0, undone.stderr
    assert titles(place) == ["hello", "in the log"]


def test_what_was_deleted_stays_deleted_unless_it_is_asked_back(place: Place) -> None:
    """A backup that still holds a session does not bring it back by accident."""
    talk(place, "kept", "gone")
    back_up(place)
    with Agent(place.workspace, provider="offline", state_home=place.home) as agent:
        agent.sessions.delete("gone")
    restored = place.tinyagent("store", "restore", "--yes")
    assert "Still deleted: 1 session" in restored.stderr
    assert titles(place) == ["kept"]
    revived = place.json("store", "restore", "--yes", "--revive-deleted")["restored"]
    assert (revived["erased_count"], revived["session_count"]) == (0, 2)
    assert titles(place) == ["kept", "gone"]


def test_a_store_that_is_open_is_not_replaced(place: Place) -> None:
    """Exit 7 with the pid of the chat; a backup goes on beside it, and so does the chat."""
    talk(place, "hello")
    talking = place.start("chat")
    assert talking.stdin is not None
    talking.stdin.write("are you there?\n")
    talking.stdin.flush()
    assert line_of(talking)
    assert place.tinyagent("store", "backup").returncode == 0
    before = kept_bytes(database_of(place))
    refused = place.tinyagent("store", "restore", "--yes", "--json")
    assert refused.returncode == 7
    told = json.loads(refused.stdout)["error"]
    assert (told["kind"], told["retryable"]) == ("store_in_use", True)
    assert f"pid {talking.pid} on" in told["message"]
    assert kept_bytes(database_of(place)) == before
    output, errors = talking.communicate("still?\n", timeout=TIMEOUT_S)
    assert talking.returncode == 0, errors
    assert "“still?”" in output
    assert titles(place) == ["hello", "are you there?"]


def test_an_older_database_is_upgraded_once_and_that_is_told(place: Place) -> None:
    """One line on standard error, a backup of what it was, an event; the sessions as they were."""
    assert line_of(place.script("first_schema", FIRST_SCHEMA)) == "made"
    listed = place.tinyagent("sessions", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    told = [(one["title"], one["message_count"]) for one in json.loads(listed.stdout)["sessions"]]
    assert told == [("second", 1), ("first", 1)]
    (line,) = listed.stderr.splitlines()
    (backup,) = place.json("store", "backups")["backups"]
    assert f"from schema 1 to {SCHEMA.version}" in line
    assert line.endswith(backup["path"])
    assert (backup["version"], backup["session_count"]) == (1, 2)
    (event,) = re.findall(r'\{[^\n]*"event":"store.migrated"[^\n]*', place.journal())
    assert (json.loads(event)["from_version"], json.loads(event)["to_version"]) == (
        1,
        SCHEMA.version,
    )

    # A backup of an older schema can be restored, and is upgraded in its turn.
    assert place.tinyagent("store", "restore", "Z-v1", "--yes").returncode == 0
    again = place.tinyagent("run", "more", "--continue")
    assert again.returncode == 0, again.stderr
    assert again.stderr.count(f"from schema 1 to {SCHEMA.version}") == 1
    assert place.journal().count('"event":"store.migrated"') == 2
    assert titles(place) == ["first", "second"]


def test_c42_backups_that_had_to_go_are_told_in_the_journal(place: Place) -> None:
    """By the stated rule alone, the newest five stay; the audit says how many went."""
    for number in range(5):
        talk(place, f"turn {number}")
        back_up(place)
    talk(place, "one more")
    made = place.tinyagent("store", "backup")
    assert "An older backup went for it" in made.stderr
    assert '"pruned_backup_count":1' in place.journal()
    assert len(list(database_of(place).parent.glob("*.backup-*"))) == 5


def test_c09_a_newer_database_is_refused_by_every_command(place: Place) -> None:
    """Exit 6, one clear line and what to do, the bytes unchanged; only a restore may replace it."""
    talk(place, "hello")
    back_up(place)
    database = database_of(place)
    as_a_newer_program(database)
    before = kept_bytes(database)
    for command in (
        ("sessions", "list"),
        ("sessions", "show", "latest"),
        ("run", "hi"),
        ("sessions", "resume", "latest"),
        ("store", "backup"),
        ("store", "compact"),
        ("store", "restore", "--yes", "--over-damaged"),
    ):
        refused = place.tinyagent(*command)
        assert (refused.returncode, refused.stdout) == (6, ""), (command, refused.stderr)
        failed, todo = refused.stderr.splitlines()
        found = f"schema version {SCHEMA.version + 1}, this program supports {SCHEMA.version}"
        assert found in failed
        assert todo.startswith("Upgrade tinyagent")
    code, output, _ = chat(place, "hello\n")
    assert (code, output) == (6, "")
    assert kept_bytes(database) == before

    todo = place.tinyagent("store", "restore").stderr.splitlines()[-1]
    (over,) = COMMAND.findall(todo.partition(": ")[2])
    restored = place.tinyagent(*over.split()[1:], "--yes")
    assert restored.returncode == 0, restored.stderr
    (replaced,) = REPLACED.findall(restored.stderr)
    assert Path(replaced).read_bytes() == before["state.sqlite3"]
    assert titles(place) == ["hello"]


@pytest.mark.parametrize("how", [with_zeros, halved, with_flips])
def test_c11_a_damaged_database_names_the_command_that_restores_it(
    place: Place, how: Callable[[bytes, slice], bytes]
) -> None:
    """Exit 5, the file untouched, the newest good backup and a command that works as printed."""
    talk(place, "turn 0", "turn 1", "turn 2")
    good = back_up(place)
    talk(place, "one more")
    back_up(place).write_bytes(b"a disk that died " * 1000)
    database = database_of(place)
    damaged = damage(database, how)
    for command in (("sessions", "list"), ("store", "restore", "--yes")):
        refused = place.tinyagent(*command)
        assert (refused.returncode, refused.stdout) == (5, ""), (command, refused.stderr)
        failed, todo = refused.stderr.splitlines()
        assert str(database) in failed
        assert str(good) in todo
    code, output, errors = chat(place, "hello\n")
    assert (code, output) == (5, "")
    assert str(good) in errors
    assert database.read_bytes() == damaged

    printed = COMMAND.findall(errors)[0]
    assert printed == "tinyagent store restore --over-damaged"
    restored = place.tinyagent(*printed.split()[1:], "--yes")
    assert restored.returncode == 0, restored.stderr
    assert titles(place) == ["turn 0", "turn 1", "turn 2"]
    (replaced,) = REPLACED.findall(restored.stderr)
    assert Path(replaced).read_bytes() == damaged


def test_what_a_damaged_database_still_holds_is_recovered_and_put_in_its_place(
    place: Place,
) -> None:
    """A new file, a report by table, and a command that works as printed; no backup is needed."""
    talk(place, "turn 0", "turn 1", "turn 2")
    database = database_of(place)
    damaged = damage(database, with_zeros)
    checked = place.tinyagent("store", "check")
    assert checked.returncode == 1
    assert re.search(r"^error +\S+state.sqlite3: ", checked.stdout, re.MULTILINE)
    assert "tinyagent store recover" in checked.stderr
    recovered = place.tinyagent("store", "recover")
    assert recovered.returncode == 0, recovered.stderr
    assert re.search(r"^sessions +3 +3 +0 +0", recovered.stdout, re.MULTILINE)
    assert re.search(r"^messages +6 +6 +0 +0", recovered.stdout, re.MULTILINE)
    assert database.read_bytes() == damaged
    (restore,) = COMMAND.findall(recovered.stderr)
    restored = place.tinyagent(*shlex.split(restore)[1:], "--yes")
    assert restored.returncode == 0, restored.stderr
    assert titles(place) == ["turn 0", "turn 1", "turn 2"]
    assert place.tinyagent("store", "check").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "step"),
    [
        (("store", "backup"), "copying"),
        (("store", "backup"), "checking the backup"),
        (("store", "restore", "--yes"), "checking the database"),
        (("store", "restore", "--yes"), "copying"),
        (("store", "compact"), "compacting"),
    ],
)
def test_ctrl_c_leaves_everything_as_it_was(
    place: Place, arguments: tuple[str, ...], step: str
) -> None:
    """Exit 130, nothing half made beside the database, and all sessions are there."""
    talk(place, "first")
    back_up(place)
    talk(place, "second")
    before = set(kept_bytes(database_of(place)))
    text = f"STEP = {step!r}\nARGUMENTS = {list(arguments)!r}\n{INTERRUPTED}"
    process = place.script("interrupted", text)
    output, errors = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, output) == (128 + signal.SIGINT, "started\n"), errors
    assert errors == "Interrupted. What was committed before is kept.\n"
    assert set(kept_bytes(database_of(place))) == before
    assert titles(place) == ["first", "second"]


def test_a_delete_that_was_cut_off_is_finished_by_the_next_start(place: Place) -> None:
    """Killed between rows and journal: the next command removes the journal, and says nothing."""
    gone = json.loads(place.tinyagent("run", "gone", "--json").stdout)["session_id"]
    journal = Path(place.json("logs", gone)["file"])
    process = place.script("cut_off", CUT_OFF_DELETE)
    assert line_of(process) == "started"
    assert process.wait(TIMEOUT_S) == 9
    assert place.tinyagent("sessions", "show", gone).returncode == 4
    assert journal.exists()
    following = place.tinyagent("run", "another")
    assert not journal.exists()
    assert following.stderr.startswith("Resume: ")
    talk(place, "and one more")
    assert place.journal().count(f'"deleted_session_id":"{gone}"') == 1
    state = read_state(place.workspace, state_home=place.home)
    assert state.store.unerased() == ()
    state.close()


def find_in(group: Any, words: list[str]) -> tuple[Any, list[str]]:
    """Return the command that *words* name, and what follows its name."""
    while hasattr(group, "commands") and words and words[0] in group.commands:
        group, words = group.commands[words[0]], words[1:]
    return group, words


def test_every_command_that_a_person_is_told_to_type_exists() -> None:
    """In docs/what-now.md: each is a command of this program, with options that it has."""
    root = typer.main.get_command(build())
    code = re.findall(r"```.*?```|`[^`]+`", WHAT_NOW.read_text("utf-8"), re.DOTALL)
    named = COMMAND.findall("\n".join(code))
    assert len(named) > 10
    for line in named:
        command, rest = find_in(root, shlex.split(line)[1:])
        assert not hasattr(command, "commands") or command.usual, line
        known = {option for one in command.params for option in one.opts}
        unknown = {word for word in rest if word.startswith("-")} - known
        assert not unknown, (line, unknown)
