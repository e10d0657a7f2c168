"""The ways in which a run can fail, each with marked texts in everything that is said in it.

Owns one function for each mode. Invariant: by the time of the failure the user's text, the model's
words, its reasoning, a tool's arguments and its result are committed, so that whoever tells of the
failure could tell of them.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from functools import partial
from typing import TYPE_CHECKING, Any

from sessions_api import Agent, AsyncAgent, ModelReply, ToolCall, tool
from sessions_api.providers.openai import OpenAIProvider
from sessions_api.testing import AsyncScriptedProvider, ScriptedProvider

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from redaction_cell import Cell

# One word each, as an identifier would be: what a rule for names lets through would show.
USER, ANSWER, REASONING, ARGUMENT, RESULT, SYSTEM = MARKERS = tuple(
    f"Marked{kind}Text{number}"
    for number, kind in enumerate(("User", "Answer", "Reasoning", "Argument", "Result", "System"))
)


@tool(name="look", replay="safe")
def look(what: str) -> str:
    """Return a marked result."""
    return f"{RESULT} of {len(what)}"


@tool(name="fail", replay="unsafe")
def fail(what: str) -> str:
    """Raise what the model said and what the tool knows."""
    raise RuntimeError(f"{what} {RESULT}")


@tool(name="hang", replay="safe", timeout_s=0.02)
async def hang(what: str) -> str:
    """Take too long."""
    await asyncio.sleep(30)
    return what


def _call(name: str = "look", arguments: str = json.dumps({"what": ARGUMENT})) -> dict[str, str]:
    return {"id": "c1", "name": name, "arguments": arguments}


def _reply(*names: str) -> ModelReply:
    calls = tuple(ToolCall(**{**_call(name), "id": name}) for name in names)
    return ModelReply(content=ANSWER, reasoning_content=REASONING, tool_calls=calls)


def _agent(cell: Cell, provider: Any, **more: Any) -> Agent:
    tools = [look, fail, hang]
    common = {"tools": tools, "system_prompt": SYSTEM, "state_home": cell.home}
    return Agent(cell.workspace, provider=provider, **{**common, **more})


def _run_once(cell: Cell, script: list[Any]) -> None:
    with _agent(cell, ScriptedProvider(script)) as agent:
        with cell.telling(whole=False):
            agent.run(USER)
        cell.print(*agent.notices)


def _over_the_wire(cell: Cell, wire: Any, *, turn: dict[str, Any]) -> None:
    """Let the service call a tool, then do what *turn* says: for an answer and for a stream."""
    asked = {
        "text": ANSWER,
        "message": {"reasoning_content": REASONING},
        "tool_calls": [_call()],
    }
    wire.say(asked, turn, asked, turn)
    provider = OpenAIProvider(
        base_url=wire.base_url, api_key="sk-" + "made-up", default_model="m-1", max_retries=0
    )
    with _agent(cell, provider) as agent:
        with cell.telling(whole=True):
            agent.run(USER)
        with cell.telling(whole=True), agent.stream(USER) as stream:
            list(stream)
    provider.close()


def _raising(cell: Cell, wire: Any, *, error: BaseException) -> None:
    """Let a caller's own provider raise *error*, with every text in its words."""
    error.args = (" ".join(MARKERS),)
    _run_once(cell, [_reply("look"), error])


def _with_tools(cell: Cell, wire: Any, *, names: tuple[str, ...]) -> None:
    """Let tools end badly, and then the run."""
    _run_once(cell, [_reply("look", *names), ValueError(RESULT)])


def _bad_arguments(cell: Cell, wire: Any) -> None:
    """Let the model hand over what fits no tool, and no JSON."""
    texts = (json.dumps({ARGUMENT: ARGUMENT}), ARGUMENT, json.dumps([ARGUMENT]))
    calls = tuple(ToolCall(id=str(n), name="look", arguments=one) for n, one in enumerate(texts))
    odd = ModelReply(content=ANSWER, reasoning_content=REASONING, tool_calls=calls)
    _run_once(cell, [_reply("look"), odd, ValueError(ANSWER)])


def _left_early(cell: Cell, wire: Any) -> None:
    """Leave a stream in the middle of the answer."""
    script = [_reply("look"), ModelReply(content=f"{ANSWER} and more")]
    with _agent(cell, ScriptedProvider(script)) as agent, agent.stream(USER) as stream:
        for _, _ in zip(range(4), stream, strict=False):
            pass


def _cancelled(cell: Cell, wire: Any) -> None:
    """Cancel a task that waits for the provider."""
    is_waiting = asyncio.Event()

    class Slow(AsyncScriptedProvider):
        async def reply(self, request: Any) -> ModelReply:  # type: ignore[override]  # as the base
            if request.messages[-1].role == "tool":
                is_waiting.set()
                await asyncio.sleep(30)
            return _reply("look")

    async def run() -> None:
        options: dict[str, Any] = {"system_prompt": SYSTEM, "state_home": cell.home}
        async with AsyncAgent(cell.workspace, provider=Slow(), tools=[look], **options) as agent:
            task = asyncio.create_task(agent.run(USER))
            await is_waiting.wait()
            task.cancel(ANSWER)
            with cell.telling(whole=False):
                await task

    asyncio.run(run())


def _killed(cell: Cell, wire: Any) -> None:
    """Kill the process in the provider; the next start recovers the run."""

    def die(_: Any) -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        return ANSWER

    child = os.fork()
    if child == 0:
        with _agent(cell, ScriptedProvider([_reply("look"), die])) as agent:
            agent.run(USER)
    os.waitpid(child, 0)
    with _agent(cell, ScriptedProvider([])):
        pass


def _journal_gone(cell: Cell, wire: Any) -> None:
    """Put a FIFO in the place of the journal while the run is under way."""

    def spoil(_: Any) -> ModelReply:
        for path in (cell.home / "logs").rglob("*.jsonl"):
            path.unlink()
            os.mkfifo(path)
        return _reply("look")

    _run_once(cell, [_reply("look"), spoil, ValueError(USER)])


def _store_closed(cell: Cell, wire: Any) -> None:
    """Close the store under the run, as a disk that goes away would."""
    agent = _agent(cell, ScriptedProvider([_reply("look"), lambda _: _closing()]))

    def _closing() -> ModelReply:
        agent.close()
        return ModelReply(content=ANSWER)

    with cell.telling(whole=False):
        agent.run(USER)
    with _agent(cell, ScriptedProvider([])):
        pass


def _modes() -> Iterator[tuple[str, Callable[[Cell, Any], None]]]:
    over_the_wire: dict[str, dict[str, Any]] = {
        **{f"status {code}": {"status": code} for code in (400, 401, 403, 404, 408, 429, 500, 503)},
        "redirect": {"status": 307, "headers": {"Location": f"http://127.0.0.1:1/{ANSWER}"}},
        "dropped before": {"drop": "before"},
        "dropped inside": {"drop": "inside", "text": f"{ANSWER} half of it"},
        "nonsense": {"raw": f"{ANSWER} {USER}"},
        "wrong shape": {"raw": json.dumps({"choices": ANSWER})},
        "error in stream": {"chunks": [{"error": {"message": ANSWER}}], "status": 200},
        "ends early": {"text": ANSWER, "ends_early": True, "raw": None},
    }
    for name, turn in over_the_wire.items():
        yield name, partial(_over_the_wire, turn=turn)
    for kind in (ValueError, TimeoutError, ConnectionError, MemoryError, KeyboardInterrupt):
        yield f"raises {kind.__name__}", partial(_raising, error=kind())
    yield "tool fails", partial(_with_tools, names=("fail",))
    yield "tool times out", partial(_with_tools, names=("hang",))
    yield "tool unknown", partial(_with_tools, names=("nobody",))
    yield "bad arguments", _bad_arguments
    yield "stream left", _left_early
    yield "cancelled", _cancelled
    yield "killed", _killed
    yield "journal gone", _journal_gone
    yield "store closed", _store_closed


MODES = dict(_modes())
