from __future__ import annotations

import stat
import subprocess
import sys

import apsw
import pytest

from processes import TIMEOUT_S, Place, line_of
from state_store.sqlite.schema import SCHEMA


def test_c01_many_processes_that_start_at_once_all_get_their_session(place: Place) -> None:
    """Sixteen first runs in a workspace that nobody used: one schema, sixteen sessions."""
    started = [place.start("run", f"n={number}") for number in range(16)]
    for process in started:
        _, errors = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0, errors
    sessions = place.json("sessions", "list", "--limit", "0")["sessions"]
    assert {one["title"] for one in sessions} == {f"n={number}" for number in range(16)}
    assert {one["message_count"] for one in sessions} == {2}
    (database,) = place.home.glob("workspaces/*/state.sqlite3")
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        ask = "SELECT role, count(*) FROM messages GROUP BY role"
        assert sorted(connection.execute(ask)) == [("assistant", 16), ("user", 16)]
        migrations = connection.execute("SELECT count(*) FROM schema_version").fetchone()
        assert migrations == (SCHEMA.version,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        statuses = connection.execute("SELECT DISTINCT status FROM runs").fetchall()
        assert statuses == [("completed",)]
    finally:
        connection.close()
    assert list(place.home.glob("workspaces/*/owners/*")) == []


@pytest.mark.parametrize("umask", [0o022, 0o000])
def test_c34_only_the_owner_can_read_what_is_kept(place: Place, umask: int) -> None:
    """Whatever the umask: directories 0700, files 0600, in the middle of a run as well."""
    watch = (
        "import os, sys\n"
        f"os.umask({umask})\n"
        "from pathlib import Path\n"
        "from sessions_api import Agent\n"
        "from sessions_api.testing import ScriptedProvider\n"
        "def look(request):\n"
        "    for path in Path(os.environ['TINYAGENT_STATE_HOME']).rglob('*'):\n"
        "        print(oct(path.lstat().st_mode), path)\n"
        "    return 'seen'\n"
        "with Agent('.', provider=ScriptedProvider([look])) as agent:\n"
        "    agent.run('hello')\n"
    )
    during = subprocess.run(
        [sys.executable, "-c", watch],
        cwd=place.workspace,
        env=place.environment,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT_S,
        check=True,
    )
    assert "state.sqlite3-wal" in during.stdout
    modes = [(int(line.split()[0], 8), line) for line in during.stdout.splitlines()]
    assert place.tinyagent("run", "again", umask=umask).returncode == 0
    modes += [(path.lstat().st_mode, str(path)) for path in place.home.rglob("*")]
    modes += [(path.lstat().st_mode, str(path)) for path in place.workspace.rglob("*")]
    for mode, path in modes:
        expected = 0o700 if stat.S_ISDIR(mode) else 0o600
        assert stat.S_IMODE(mode) == expected, path
    assert stat.S_IMODE(place.home.lstat().st_mode) == 0o700


def test_c42_no_command_deletes_anything_by_age(place: Place) -> None:
    """Sessions of 400, 35 and 2 days, each command once: all are there, and all they said."""
    made = (
        "from datetime import UTC, datetime, timedelta\n"
        "from sessions_api import Agent\n"
        "for days in (400, 35, 2):\n"
        "    past = datetime.now(UTC) - timedelta(days=days)\n"
        "    with Agent('.', provider='offline', clock=lambda: past) as agent:\n"
        "        agent.run(f'{days} days old')\n"
        "print('made', flush=True)\n"
    )
    assert line_of(place.script("made", made)) == "made"
    before = place.json("sessions", "list", "--limit", "0")["sessions"]
    assert [one["title"] for one in before] == ["2 days old", "35 days old", "400 days old"]
    for command in (
        ("run", "new"),
        ("chat",),
        ("sessions", "list"),
        ("sessions", "new", "--no-chat"),
        ("sessions", "show", "latest"),
        ("sessions", "export", before[-1]["id"]),
        ("sessions", "archive", before[0]["id"]),
        ("sessions", "unarchive", before[0]["id"]),
        ("runs", before[1]["id"]),
        ("logs", before[2]["id"]),
        ("path",),
        ("workspace", "list"),
    ):
        assert place.tinyagent(*command).returncode == 0, command
    after = place.json("sessions", "list", "--limit", "0")["sessions"]
    assert {one["id"] for one in before} <= {one["id"] for one in after}
    assert {one["message_count"] for one in after if one["id"] in {b["id"] for b in before}} == {2}
