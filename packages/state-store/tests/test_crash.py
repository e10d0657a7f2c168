from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    RunPython = Callable[..., str]

# A long run: STATE_STORE_KILLS=5000. The same one again: STATE_STORE_SEED=… as printed.
KILL_COUNT = int(os.environ.get("STATE_STORE_KILLS", "60"))
SEED = int(os.environ.get("STATE_STORE_SEED", random.SystemRandom().getrandbits(32)))

# The parent forks a child that works, kills it, and keeps what the child was told to be committed.
# It opens the database only when all children are dead.
KILL_LOOP = """
import json, random

kill_count, seed = int(sys.argv[3]), int(sys.argv[4])
source = random.Random(seed)
session_ids = [new_id() for _ in range(5)]

def work(report, source):
    def acknowledge(*fact):
        os.write(report, json.dumps(fact).encode() + b"\\n")
    store = open_store()
    while True:
        session_id, run_id = source.choice(session_ids), new_id()
        content = f"{run_id} {'x' * source.randrange(9000)}"
        message = NewMessage(role="user", content=content)
        try:
            store.begin_run(session_id, message, run_id=run_id)
        except SessionNotFound:
            store.begin_run(session_id, message, run_id=run_id, create=NewSession())
        acknowledge("begun", session_id, run_id, content)
        for _ in range(source.randrange(3)):
            calls = tuple(ToolCall(id=f"c{i}", name="t", arguments="{}") for i in range(2))
            asked = store.start_tools(
                run_id, NewMessage(role="assistant", tool_calls=calls), ["safe", "unsafe"]
            )
            acknowledge("message", session_id, run_id, asked.seq, None)
            for index in (1, 0):
                result = store.finish_tool(
                    run_id, call_seq=asked.seq, call_index=index, outcome="ok",
                    message=NewMessage(role="tool", content=f"result {run_id} {index}"),
                )
                acknowledge("message", session_id, run_id, result.seq, result.content)
        if source.random() < 0.2:
            store.fail_run(run_id, "provider.error", usage=Usage(input_tokens=1))
            acknowledge("ended", session_id, run_id, "failed", "provider.error")
        else:
            answer = NewMessage(role="assistant", content=f"answer {run_id}")
            _, stored = store.complete_run(
                run_id, answer, usage=Usage(input_tokens=1, output_tokens=1)
            )
            acknowledge("message", session_id, run_id, stored.seq, stored.content)
            acknowledge("ended", session_id, run_id, "completed", None)

ledger = []
for _ in range(kill_count):
    reading, report = os.pipe()
    child_source = random.Random(source.getrandbits(64))
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            work(report, child_source)
        finally:
            os._exit(1)
    os.close(report)
    time.sleep(source.uniform(0.001, 0.05))
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status), "the child failed before it was killed"
    with os.fdopen(reading, "rb") as told:
        ledger += [json.loads(line) for line in told if line.endswith(b"\\n")]

store = open_store()
acknowledged = {}
for session_id in {fact[1] for fact in ledger}:
    acknowledged[session_id] = {one.seq: one for one in store.messages(session_id).items}
begun = set()
for kind, session_id, run_id, *facts in ledger:
    stored = acknowledged[session_id]
    run = store.get_run(run_id)
    if kind == "begun":
        begun.add(run_id)
        first = stored[run.first_seq]
        assert (first.content, first.run_id) == (facts[0], run_id), (seed, run_id)
    elif kind == "message":
        assert (stored[facts[0]].content, stored[facts[0]].run_id) == (facts[1], run_id), seed
    else:
        assert [run.status, run.error_type] == facts, (seed, run_id)

run_count = 0
for summary in store.list(limit=None).items:
    messages = store.messages(summary.id, view="all").items
    assert [one.seq for one in messages] == list(range(1, len(messages) + 1)), seed
    assert summary.message_count == len(messages), seed
    runs = store.runs(summary.id).items
    run_count += len(runs)
    for run in runs:
        own = [one for one in messages if one.run_id == run.id]
        assert run.status in ("completed", "failed") and own[0].seq == run.first_seq, seed
        assert (run.status == "completed") == (own[-1].content == f"answer {run.id}"), seed
    assert all(one.outcome is not None for one in store.tool_executions(summary.id)), seed
# What was committed and not yet acknowledged when the signal came: at most one run a kill.
assert len(begun) <= run_count <= len(begun) + kill_count, seed
with store._database.read() as connection:
    assert connection.execute("PRAGMA integrity_check").get == "ok", seed
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == [], seed
store.close()
assert not list((path.parent / "owners").glob("*.lock"))
say("kills", kill_count, "acknowledgements", len(ledger), "runs", run_count)
"""


def test_a_kill_at_any_instant_loses_nothing_that_was_acknowledged(run_python: RunPython) -> None:
    """The parent's ledger against the rows: every one is there, whole, and no run is pending."""
    said = run_python(KILL_LOOP, str(KILL_COUNT), str(SEED))
    print(f"seed {SEED}: {said}")  # noqa: T201 - what `pytest -s` shows of a long run
    words = said.split()
    assert words[:2] == ["kills", str(KILL_COUNT)], SEED
    assert int(words[3]) > KILL_COUNT, "hardly anything was acknowledged: the test tests nothing"
