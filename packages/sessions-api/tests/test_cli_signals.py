"""A command that is asked to end, or killed, while a provider does not answer."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING

import apsw

from wire_server import Turn, WireServer

if TYPE_CHECKING:
    from tinyagent_process import Call, Tinyagent

NEVER = Turn(pause_s=60)


def wait_for_requests(wire: WireServer, count: int) -> None:
    """Wait until the service was asked *count* times."""
    deadline = time.monotonic() + 30
    while len(wire.requests) < count:
        assert time.monotonic() < deadline, "the service was never asked"
        time.sleep(0.01)


def asking(wire: WireServer) -> tuple[str, ...]:
    """Return the arguments of a run that the service answers."""
    return ("run", "--provider", "openai", "--model", "m", "--base-url", wire.base_url, "--json")


def test_signals_cancel_the_run_and_say_so(
    call: Call, tinyagent: Tinyagent, wire: WireServer
) -> None:
    """C03: 143, 129 and 130; the message is kept and the run is failed, cancelled."""
    expected = {signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGINT: 130}
    wire.script(*[NEVER] * len(expected))
    started = {sent: tinyagent.start(*asking(wire), sent.name) for sent in expected}
    wait_for_requests(wire, len(started))
    for sent, process in started.items():
        process.send_signal(sent)
    for sent, process in started.items():
        output, errors = process.communicate(timeout=30)
        assert process.returncode == expected[sent], errors
        failure = json.loads(output)
        assert failure["error"]["kind"] == "cancelled"
        assert f"Resume: tinyagent --resume {failure['session_id'][-8:]}\n" in errors
        assert "Traceback" not in errors
        (run,) = json.loads(call("runs", failure["session_id"], "--json")[1])["runs"]
        assert (run["id"], run["status"]) == (failure["run_id"], "failed")
        assert (run["error_type"], run["stale"]) == ("cancelled", False)
        shown = call("sessions", "show", failure["session_id"])[1]
        assert shown.startswith("The last run was cancelled")
        assert f"your message “{sent.name}”" in shown.splitlines()[1]


def test_a_killed_run_is_shown_as_interrupted_and_a_live_one_is_left_alone(
    call: Call, tinyagent: Tinyagent, wire: WireServer
) -> None:
    """C05: reading writes nothing; the next command that writes makes it so, once."""
    wire.script(NEVER, NEVER)
    dead, alive = (tinyagent.start(*asking(wire), name) for name in ("dead", "alive"))
    wait_for_requests(wire, 2)
    dead.kill()
    dead.communicate()
    listed = json.loads(call("sessions", "--json")[1])["sessions"]
    by_title = {one["title"]: one for one in listed}
    assert (by_title["dead"]["status"], by_title["alive"]["status"]) == ("failed", "running")
    dead_id, alive_id = by_title["dead"]["id"], by_title["alive"]["id"]
    shown = call("sessions", "show", dead_id)[1]
    assert shown.startswith("The last run was interrupted")
    database = apsw.Connection(str(tinyagent.database()), flags=apsw.SQLITE_OPEN_READONLY)

    def stored() -> dict[str, tuple[object, ...]]:
        rows = database.execute("SELECT session_id, status, error_type, finished_at FROM runs")
        return {str(row[0]): row[1:] for row in rows}

    assert {row[0] for row in stored().values()} == {"pending"}
    assert call("sessions", "delete", alive_id, "--yes")[0] == 7
    written = stored()
    assert written[dead_id][:2] == ("failed", "interrupted")
    assert written[dead_id][2] is not None
    assert written[alive_id][0] == "pending"
    assert "run.recovered" in call("logs", dead_id)[1]
    assert call("sessions", "rename", dead_id, "late")[0] == 0
    assert stored() == written
    assert call("run", "--resume", alive_id, "--provider", "offline", "me too")[0] == 7
    alive.terminate()
    alive.communicate(timeout=30)
    assert alive.returncode == 143
    assert stored()[alive_id][:2] == ("failed", "cancelled")
    database.close()
