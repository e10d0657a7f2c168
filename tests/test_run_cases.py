"""Cases about what is said in a conversation and who may say it, with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import apsw

from processes import KEY, TIMEOUT_S, Place, line_of

SECRET = "hunter2-XYZ"  # noqa: S105 - made up, to be looked for
SERVICE = {"TINYAGENT_PROVIDER": "openai", "TINYAGENT_MODEL": "m", "TINYAGENT_API_KEY": KEY}
HELD_BY_FAKE_A = """
from sessions_api import Agent
from sessions_api.testing import ScriptedProvider
provider = ScriptedProvider(["an answer", "another"], name="fake-a")
with Agent(".", provider=provider, model="fake-a-1") as agent:
    print(agent.run("first words").session_id, flush=True)
"""


def database(place: Place) -> apsw.Connection:
    """Open the only database for reading."""
    (path,) = place.home.glob("workspaces/*/state.sqlite3")
    return apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)


def commands_on(session: str) -> list[tuple[str, ...]]:
    """Return the commands that read one session."""
    return [
        ("sessions", "list"),
        ("sessions", "show", session),
        ("sessions", "show", session, "--view", "context", "--json"),
        ("runs", session, "--json"),
        ("logs", session),
        ("sessions", "export", session, "--format", "archive"),
        ("sessions", "export", session, "--format", "html"),
    ]


def test_c26_bytes_that_are_no_text_harm_nothing_at_or_after_storing(place: Place) -> None:
    """As an argument, piped, from a tool, in a key: repaired and marked once, the same everywhere.

    The title comes from the first message; every command that reads works, and writes UTF-8.
    """
    argument = os.fsdecode(b"caf\xe9 from an argument")
    assert place.tinyagent("run", argument).returncode == 0
    tools = (
        "import os\n"
        "from sessions_api import Agent, ModelReply, ToolCall\n"
        "from sessions_api.testing import ScriptedProvider\n"
        "def listing() -> dict[str, str]:\n"
        "    return {'k\\udc97': os.fsdecode(b'caf\\xe9'), 'fine': 'x'}\n"
        "calls = ModelReply(tool_calls=(ToolCall(id='\\udc80', name='listing', arguments='{}'),))\n"
        "provider = ScriptedProvider([calls, 'so \\ud83d'])\n"
        "with Agent('.', provider=provider, tools=[listing]) as agent:\n"
        "    agent.run('with a tool \\ud83d')\n"
        "print('made', flush=True)\n"
    )
    assert line_of(place.script("tools", tools)) == "made"
    piped = subprocess.run(
        [sys.executable, "-m", "sessions_api.cli", "run", "-", "-c", "--provider", "offline"],
        cwd=place.workspace,
        env={**place.environment, "TINYAGENT_PROVIDER": "offline"},
        input=b"caf\xe9 through a pipe",
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert piped.returncode == 0, piped.stderr
    sessions = place.json("sessions", "list")["sessions"]
    assert {one["title"] for one in sessions} == {
        "caf\ufffd from an argument",
        "with a tool \ufffd",
    }
    for session in sessions:
        for command in commands_on(session["id"]):
            done = place.tinyagent(*command)  # its output is read as UTF-8, strictly
            assert done.returncode == 0, (command, done.stderr)
            assert "Traceback" not in done.stderr
    with database(place) as connection:
        asked = "SELECT content, repaired FROM messages WHERE role = 'tool'"
        assert connection.execute(asked).fetchall() == [('{"k\ufffd":"caf\ufffd","fine":"x"}', 1)]
    connection.close()
    exported = place.tinyagent("sessions", "export", "with a tool \ufffd").stdout
    assert '{"k\ufffd":"caf\ufffd","fine":"x"}' in [
        json.loads(line)["content"] for line in exported.splitlines()
    ]


def test_c27_a_nul_is_a_character_like_any_other(place: Place) -> None:
    """In what a person says, a tool returns, a title, a JSON value: three characters, not one."""
    made = (
        "from sessions_api import Agent, ModelReply, ToolCall\n"
        "from sessions_api.testing import ScriptedProvider\n"
        "def give() -> str:\n"
        "    return 'a\\0b'\n"
        "calls = ModelReply(tool_calls=(ToolCall(id='c', name='give', arguments='{}'),))\n"
        "script = [calls, 'a\\0b']\n"
        "with Agent('.', provider=ScriptedProvider(script), tools=[give]) as agent:\n"
        "    agent.sessions.create('a\\0b', metadata={'k\\0': 'a\\0b'})\n"
        "    print(agent.run('a\\0b').session_id, flush=True)\n"
    )
    session = line_of(place.script("made", made))
    with database(place) as connection:
        asked = "SELECT hex(content) FROM messages WHERE content IS NOT NULL"
        assert connection.execute(asked).fetchall() == [("610062",)] * 3
        assert connection.execute("SELECT hex(title) FROM sessions").fetchall() == [("610062",)]
    connection.close()
    read = (
        "from sessions_api import Agent\n"
        "with Agent('.', provider='offline') as agent:\n"
        "    kept = agent.sessions.resume('a\\0b')\n"
        "    said = [one.content for one in agent.sessions.messages().items if one.content]\n"
        "    print(ascii((kept.title, kept.metadata, said)), flush=True)\n"
    )
    expected = ("a\0b", {"k\0": "a\0b"}, ["a\0b"] * 3)
    assert line_of(place.script("read", read)) == ascii(expected)
    for command in commands_on(session):
        done = place.tinyagent(*command)
        assert done.returncode == 0, (command, done.stderr)
        if "export" not in command:
            assert "\0" not in done.stdout  # a terminal is shown that something is there
    lines = place.tinyagent("sessions", "export", session).stdout.splitlines()
    assert [json.loads(line)["content"] for line in lines] == ["a\0b", None, "a\0b", "a\0b"]


def test_a_line_of_twenty_megabytes_comes_back_as_it_was(place: Place) -> None:
    """Piped in, answered, shown to the service again, exported: exact, with odd ends of lines."""
    text = "\u2028\x00\r\x85" + "é" * 10_000_000 + "\r"
    asked = subprocess.run(
        [sys.executable, "-m", "sessions_api.cli", "run", "-", "--provider", "offline"],
        cwd=place.workspace,
        env=place.environment,
        input=text.encode(),
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr
    server, base_url = place.wire({"text": "two"})
    on = ("--continue", "--provider", "openai", "--model", "m")
    again = place.start("run", "again", *on, more={**SERVICE, "TINYAGENT_BASE_URL": base_url})
    sent = json.loads(line_of(server))["body"]["messages"]
    assert sent[0]["content"] == text
    assert again.wait(TIMEOUT_S) == 0
    exported = subprocess.run(
        [sys.executable, "-m", "sessions_api.cli", "sessions", "export", "latest"],
        cwd=place.workspace,
        env=place.environment,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    first = exported.stdout.split(b"\n", 1)[0]
    assert json.loads(first)["content"] == text


def without_provider(place: Place, missing: str, *arguments: str, typed: str = "") -> Any:
    """Run the command where the package *missing* cannot be imported."""
    code = (
        "import sys\n"
        f"sys.modules[{missing!r}] = None\n"
        "from sessions_api.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=place.workspace,
        env={**place.environment, "TINYAGENT_API_KEY": KEY},
        input=typed,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT_S,
        check=False,
    )


def test_c28_a_session_whose_provider_was_removed_opens_under_its_id(place: Place) -> None:
    """There is a notice, nothing falls back, and reading needs no provider at all."""
    session = line_of(place.script("held", HELD_BY_FAKE_A))
    opened = place.tinyagent("--resume", session)  # standard input has ended
    assert opened.returncode == 0, opened.stderr
    assert "no provider named 'fake-a'" in opened.stderr
    assert f"The history of session {session[-8:]} is open." in opened.stderr
    assert "an answer" in opened.stdout + opened.stderr
    refused = place.tinyagent("run", "go on", "--resume", session)
    assert refused.returncode == 2, refused.stderr
    assert "offline" in refused.stderr  # what there is to choose from
    for command in commands_on(session):
        assert place.tinyagent(*command).returncode == 0, command
    (listed,) = place.json("sessions", "list")["sessions"]
    assert (listed["id"], listed["message_count"]) == (session, 2)
    chosen = place.tinyagent("run", "go on", "--resume", session, "--provider", "offline")
    assert chosen.returncode == 0
    assert "“first words”" in chosen.stdout
    assert place.json("sessions", "list")["sessions"][0]["id"] == session
    assert place.tinyagent("sessions", "delete", session, "--yes").returncode == 0


def test_c28_a_missing_key_or_package_or_a_renamed_model_leaves_the_history_open(
    place: Place,
) -> None:
    """Each is named with its way out; the session stays what it was."""
    server, base_url = place.wire(
        {"text": "one"}, {"status": 404, "raw": '{"error": {"message": "no such model"}}'}
    )
    service = {**SERVICE, "TINYAGENT_BASE_URL": base_url}
    assert place.tinyagent("run", "first words", more=service).returncode == 0
    line_of(server)
    (session,) = (one["id"] for one in place.json("sessions", "list")["sessions"])
    no_key = place.tinyagent("--resume", session)
    assert no_key.returncode == 0, no_key.stderr
    assert "no key" in no_key.stderr
    assert base_url in no_key.stderr
    no_package = without_provider(place, "openai", "--resume", session)
    assert no_package.returncode == 0, no_package.stderr
    assert "the package 'openai' is not installed" in no_package.stderr
    assert "Install it with" in no_package.stderr
    for problem in (no_key, no_package):
        assert f"The history of session {session[-8:]} is open." in problem.stderr
        assert "first words" in problem.stdout + problem.stderr
    for command in commands_on(session):
        assert without_provider(place, "openai", *command).returncode == 0, command
    renamed = place.tinyagent("run", "go on", "--resume", session, more=service)
    assert renamed.returncode != 0
    assert "Traceback" not in renamed.stderr
    shown = place.json("sessions", "show", session)
    assert [run["status"] for run in shown["runs"]] == ["completed", "failed"]
    assert [one["content"] for one in shown["messages"]] == ["first words", "one", "go on"]


TURNS = """
import sys, time
from sessions_api import Agent, ModelReply, SessionBusy, ToolCall
from sessions_api.testing import ScriptedProvider

def slow() -> str:
    time.sleep(0.02)
    return NAME

def script():
    while True:
        yield ModelReply(tool_calls=(ToolCall(id="c", name="slow", arguments="{}"),))
        yield f"{NAME} answers"

provider = ScriptedProvider(script())
with Agent(".", provider=provider, tools=[slow]) as agent:
    agent.sessions.resume("shared")
    print("ready", flush=True)
    sys.stdin.readline()
    done = refused = 0
    while done < 8:
        try:
            agent.run(f"{NAME} asks {done}")
            done += 1
        except SessionBusy as busy:
            assert busy.since and busy.host, busy
            print("refused", busy.pid, flush=True)
            time.sleep(0.01)
print("finished", flush=True)
"""


def test_c29_two_processes_on_one_session_never_interleave_and_lose_no_turn(place: Place) -> None:
    """The second is refused with who holds it and since when; each turn stands in one piece."""
    create = (
        "from sessions_api import Agent\n"
        "with Agent('.', provider='offline') as agent:\n"
        "    print(agent.sessions.create('shared').id, flush=True)\n"
    )
    session = line_of(place.script("create", create))
    both = [place.script(name, f"NAME = {name!r}\n{TURNS}") for name in ("ann", "bob")]
    for process in both:
        assert line_of(process) == "ready"
    for process in both:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    printed = [process.communicate(timeout=TIMEOUT_S) for process in both]
    assert [process.returncode for process in both] == [0, 0], printed
    refusals = {
        line.split()[1]
        for output, _ in printed
        for line in output.splitlines()
        if line.startswith("refused")
    }
    assert refusals
    assert refusals <= {str(process.pid) for process in both}
    shown = place.json("sessions", "show", session)
    said = [one["content"] for one in shown["messages"]]
    assert len(said) == 2 * 8 * 4
    for start in range(0, len(said), 4):
        asked, called, returned, answered = said[start : start + 4]
        name = asked.split()[0]
        assert (called, returned, answered) == (None, name, f"{name} answers")
    assert {one["status"] for one in shown["runs"]} == {"completed"}
    assert sorted(said[::4]) == sorted(f"{n} asks {i}" for n in ("ann", "bob") for i in range(8))


def test_c29_a_session_in_use_is_refused_by_the_command_with_pid_and_time(place: Place) -> None:
    """And works again as soon as the other one has ended."""
    server, base_url = place.wire({"text": "late", "pause_s": 60})
    service = {**SERVICE, "TINYAGENT_BASE_URL": base_url}
    first = place.start("run", "slow", more=service)
    line_of(server)
    refused = place.tinyagent("run", "me too", "--continue", "--provider", "offline")
    assert refused.returncode == 7, refused.stderr
    assert f"in use by pid {first.pid} on " in refused.stderr
    assert " since 20" in refused.stderr
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=TIMEOUT_S)
    again = place.tinyagent("run", "me too", "--continue", "--provider", "offline")
    assert again.returncode == 0, again.stderr
    shown = place.json("sessions", "show", "latest")
    assert [one["content"] for one in shown["messages"]][:2] == ["slow", "me too"]


def test_c35_a_secret_in_a_tools_arguments_is_replayed_exactly_and_told_nobody(
    place: Place,
) -> None:
    """A new process sends it as it was; journal, output, errors and --debug do not have it.

    An export has it unless it is asked to redact; what is masked is never sent as data.
    """
    arguments = json.dumps({"password": SECRET})
    first = (
        "from sessions_api import Agent, ModelReply, ToolCall\n"
        "from sessions_api.testing import ScriptedProvider\n"
        "def db(password: str) -> str:\n"
        "    raise ConnectionError(f'cannot log in with {password}')\n"
        f"call = ToolCall(id='c1', name='db', arguments={arguments!r})\n"
        "script = [ModelReply(tool_calls=(call,)), 'it failed']\n"
        "with Agent('.', provider=ScriptedProvider(script), tools=[db]) as agent:\n"
        "    print(agent.run('connect').session_id, flush=True)\n"
    )
    process = place.script("first", first)
    session = line_of(process)
    _, told = process.communicate(timeout=TIMEOUT_S)
    server, base_url = place.wire({"text": "later"}, {"status": 500, "raw": "{}"})
    service = {**SERVICE, "TINYAGENT_BASE_URL": base_url}
    on = ("--resume", session, "--debug", "--provider", "openai")
    done = place.tinyagent("run", "again", *on, more=service)
    assert (done.returncode, done.stdout) == (0, "later\n"), done.stderr
    sent = json.loads(line_of(server))["body"]["messages"]
    (call,) = sent[1]["tool_calls"]
    assert call["function"]["arguments"] == arguments
    assert SECRET in sent[2]["content"]
    server.kill()
    failed = place.tinyagent("run", "and fails", *on, more=service)
    assert failed.returncode != 0
    logs = [place.tinyagent("logs", session, *more).stdout for more in ((), ("--json",))]
    everything = (told, done.stderr, failed.stdout, failed.stderr, *logs, place.journal())
    assert not [text for text in everything if SECRET in text]
    assert "tool" in place.journal()
    exact = place.tinyagent("sessions", "export", session).stdout
    masked = place.tinyagent("sessions", "export", session, "--redact").stdout
    assert SECRET in exact
    assert "connect" in masked
    assert SECRET not in masked
