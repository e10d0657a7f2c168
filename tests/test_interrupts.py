"""Ctrl-C at random moments: what is stored stays whole, and the journal stays honest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from processes import line_of

if TYPE_CHECKING:
    from processes import Place

SEED = 3
STORM = f"""
import os, queue, random, signal, threading, time
from sessions_api import Agent, ModelReply, ToolCall, tool
from run_journal import ExpectedRun, Head, verify

@tool(replay="safe")
def look() -> str:
    "Look."
    return "seen"

class Provider:
    name, endpoint = "storm", None
    def reply(self, request):
        if request.messages[-1].role == "tool":
            return ModelReply(content="answer")
        return ModelReply(tool_calls=(ToolCall(id="1", name="look", arguments="{{}}"),))

moments = queue.SimpleQueue()
def strike():
    while True:
        time.sleep(moments.get())
        os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=strike, daemon=True).start()
random.seed({SEED})
interrupted = 0
agent = Agent(".", provider=Provider(), tools=[look])
end = time.monotonic() + 30
while interrupted < 80 and time.monotonic() < end:
    done = False
    try:
        moments.put(random.uniform(0.0005, 0.02))
        agent.run("hello")
        done = True
        time.sleep(10)  # it strikes here when the run was faster
    except KeyboardInterrupt:
        interrupted += not done

journal = agent._conversation._state.story.journal
errors = []
for session in agent.sessions.list(limit=None).items:
    runs = agent.sessions.runs(session.id).items
    expected = [
        ExpectedRun(
            run_id=run.id,
            status=run.status,
            head=run.journal_head and Head(*run.journal_head),
            lost_count=run.journal_lost_count,
        )
        for run in runs
    ]
    report = verify(journal.path_for(session.id), expected_runs=expected)
    errors += [finding.kind for finding in report.findings]
    errors += ["pending" for run in runs if run.status == "pending"]
    errors += [run.error_type for run in runs if run.error_type not in (None, "cancelled")]
agent.close()
print(interrupted, journal.failed_count, errors, flush=True)
"""


def test_a_storm_of_interrupts_leaves_whole_runs_and_an_honest_journal(place: Place) -> None:
    """No run is left pending, no line is lost, and nothing looks like tampering."""
    interrupted, lost, errors = line_of(place.script("storm", STORM)).split(" ", 2)
    assert int(interrupted) > 20  # 80 where the machine is not too busy
    assert (lost, errors) == ("0", "[]")
