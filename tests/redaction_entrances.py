"""The eleven places where a secret can enter a run.

Owns one function for each: it lets *secret* in with a real agent, with the real OpenAI provider
against the scripted HTTP service *wire* where that is the entrance. Invariant: whatever is raised
is told to the cell as a person would get to see it, and nothing else is printed here.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from redaction_cell import Cell, converse
from sessions_api import Agent, AsyncAgent, ModelReply, ToolCall, tool
from sessions_api.cli.entry import main as tinyagent
from sessions_api.providers.openai import OpenAIProvider
from sessions_api.testing import AsyncScriptedProvider, ScriptedProvider

if TYPE_CHECKING:
    from collections.abc import Callable

OTHER_KEY = "sk-" + "another-key-0123456789"


@tool(replay="safe")
def unlock(password: str) -> str:
    """Say nothing of the password."""
    return "unlocked" if password else "locked"


def _provider(address: str, **more: Any) -> OpenAIProvider:
    options = {"api_key": OTHER_KEY, "default_model": "m-1", "max_retries": 0}
    return OpenAIProvider(base_url=address, **{**options, **more})


def by_constructor(cell: Cell, secret: str, wire: Any) -> None:
    """As the key that an agent is made with; the service repeats it in its error."""
    wire.say({"status": 401}, {"text": "hi"}, {"status": 403})
    options = {"base_url": wire.base_url, "api_key": secret, "model": "m-1"}
    converse(cell, "openai", count=3, **options)


def by_environment(cell: Cell, secret: str, wire: Any) -> None:
    """As the key in the environment of the command, and of the provider's own variables."""
    wire.say({"status": 401}, {"status": 400}, {"status": 403})
    ours = {"TINYAGENT_API_KEY": secret, "TINYAGENT_BASE_URL": wire.base_url}
    theirs = {"OPENAI_API_KEY": secret, "OPENAI_BASE_URL": wire.base_url}
    for variables in (ours, theirs):
        common = {"TINYAGENT_STATE_HOME": str(cell.home), "TINYAGENT_MODEL": "m-1"}
        os.environ.update({**common, **variables})
        with cell.telling(whole=True):
            tinyagent(["run", "hello", "--provider", "openai", "--debug"])
        for name in (*common, *variables):
            del os.environ[name]


def by_header(cell: Cell, secret: str, wire: Any) -> None:
    """In the headers of a service's errors, also in those that are read."""
    carried = secret if secret.isascii() and secret.isprintable() else quote(secret)
    names = ("X-Echo", "Retry-After", "WWW-Authenticate", "X-Request-Id", "Location")
    headers = dict.fromkeys(names, carried)
    wire.say(*({"status": status, "headers": headers} for status in (429, 500, 302)))
    converse(cell, _provider(wire.base_url), count=3)


def by_url(cell: Cell, secret: str, wire: Any) -> None:
    """As the password in the address and in its query."""
    carried = quote(secret, safe="")
    address = wire.base_url.replace("//", f"//ann:{carried}@") + f"?token={carried}"
    wire.say({"status": 404}, {"drop": "before"}, {"drop": "inside", "text": "half of it"})
    converse(cell, _provider(address), count=3)


def by_body(cell: Cell, secret: str, wire: Any) -> None:
    """In the words of an error, in an answer that is none, and in an error inside a stream."""
    error = {"error": {"message": secret, "code": secret, "type": secret, "param": secret}}
    wire.say(
        {"status": 400, "raw": json.dumps(error)},
        {"chunks": [error]},
        {"raw": json.dumps({"choices": [{"message": secret}], "model": secret})},
        {"raw": f"data: {secret}"},
        {"status": 500, "raw": secret},
        {"text": "hi", "finish_reason": secret},
        {"text": "hi", "finish_reason": secret},
    )
    converse(cell, _provider(wire.base_url), count=7)


def by_tool_arguments(cell: Cell, secret: str, wire: Any) -> None:
    """In what a model hands to a tool: to one that takes it, to a wrong one, as no JSON."""
    good, wrong = json.dumps({"password": secret}), json.dumps({secret: secret})
    calls = (("unlock", good), ("unlock", wrong), ("unlock", secret), ("nothing", good))
    asked = [
        {"id": f"c{number}", "name": name, "arguments": arguments}
        for number, (name, arguments) in enumerate(calls)
    ]
    wire.say({"tool_calls": asked}, {"status": 400}, {"tool_calls": asked[:1]}, {"status": 401})
    converse(cell, _provider(wire.base_url), tools=[unlock], count=2)


def by_tool_result(cell: Cell, secret: str, wire: Any) -> None:
    """In what a tool returns, as a text and inside a value."""

    def look_up() -> dict[str, list[str]]:
        return {"keys": [secret]}

    def read_out() -> str:
        return f"the key is {secret}"

    asked = [{"id": name, "name": name, "arguments": "{}"} for name in ("look_up", "read_out")]
    wire.say({"tool_calls": asked}, {"status": 400}, {"tool_calls": asked}, {"text": "done"})
    converse(cell, _provider(wire.base_url), tools=[look_up, read_out], count=2)


def by_exception_message(cell: Cell, secret: str, wire: Any) -> None:
    """In what a tool and a caller's own provider raise, built-in errors of all kinds."""

    def fail() -> str:
        raise RuntimeError(secret)

    calling = ModelReply(tool_calls=(ToolCall(id="1", name="fail", arguments="{}"),))
    errors = (ValueError, TimeoutError, ConnectionError, KeyError, LookupError)
    script: list[Any] = [calling, "done", *(kind(secret) for kind in errors)]
    script.append(OSError(5, secret, f"/secret/{secret}"))
    converse(cell, ScriptedProvider(script), tools=[fail], whole=False, count=7)


def by_cause_chain(cell: Cell, secret: str, wire: Any) -> None:
    """In causes, contexts, notes, groups, and in what an error holds besides its message."""

    def chained(*_: Any) -> Any:
        try:
            try:
                raise KeyError(secret)  # noqa: TRY301 - a chain is what is wanted
            except KeyError as inner:
                inner.add_note(secret)
                raise ValueError(secret) from inner
        except ValueError:
            local = secret
            raise RuntimeError(f"while {local} was handled") from ExceptionGroup(
                secret,
                [OSError(secret), UnicodeDecodeError("utf-8", secret.encode(), 0, 1, secret)],
            )

    noted = ValueError("a clean message")
    noted.add_note(secret)
    vars(noted)["response"] = secret
    script: list[Any] = [chained, noted, ExceptionGroup(secret, [ValueError(secret)])]
    converse(cell, ScriptedProvider(script), whole=False, count=3)


def by_cancelled_task(cell: Cell, secret: str, wire: Any) -> None:
    """In the words of a cancellation, of a provider's and a tool's clean-up, of an interrupt."""
    is_waiting = asyncio.Event()

    async def wait(**_: Any) -> str:
        is_waiting.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            raise ValueError(secret) from None
        return secret

    class Waiting(AsyncScriptedProvider):
        calls_first = True

        async def reply(self, request: Any) -> ModelReply:  # type: ignore[override]  # as the base
            if self.calls_first and not self.requests:
                self.requests.append(request)
                call = ToolCall(id="1", name="wait", arguments="{}")
                return ModelReply(tool_calls=(call,))
            is_waiting.set()
            await asyncio.sleep(30)
            return ModelReply(content=secret)

    async def one(provider: Any) -> None:
        nonlocal is_waiting
        is_waiting = asyncio.Event()  # one belongs to one loop

        async def wait_tool() -> str:
            return await wait()

        waiting = tool(name="wait", replay="safe")(wait_tool)
        options = {"provider": provider, "state_home": cell.home, "tools": [waiting]}
        async with AsyncAgent(cell.workspace, **options) as agent:
            task = asyncio.create_task(agent.run("hello"))
            begun = asyncio.create_task(is_waiting.wait())
            await asyncio.wait({task, begun}, return_when=asyncio.FIRST_COMPLETED)
            begun.cancel()
            task.cancel(secret)
            with cell.telling(whole=False):
                await task

    tired = Waiting()
    tired.calls_first = False  # it waits in the provider, not in a tool
    for provider in (Waiting(), tired, AsyncScriptedProvider([asyncio.CancelledError(secret)])):
        with cell.telling(whole=False):
            asyncio.run(one(provider))
    script = [KeyboardInterrupt(secret), GeneratorExit(secret), SystemExit(secret)]
    converse(cell, ScriptedProvider(script), whole=False, count=3)


def by_exception_hook(cell: Cell, secret: str, wire: Any) -> None:
    """In a failure that nobody caught: of the program, of a thread, of a forgotten task."""
    body = json.dumps({"error": {"message": secret}})
    wire.say(*[{"status": 400, "raw": body, "headers": {"X-Echo": quote(secret)}}] * 4)
    provider = _provider(wire.base_url.replace("//", f"//ann:{quote(secret, safe='')}@"))

    def fail() -> None:
        with Agent(cell.workspace, provider=provider, state_home=cell.home) as agent:
            agent.run("hello")

    try:
        fail()
    except Exception:  # noqa: BLE001 - what the interpreter does with one that nobody caught
        sys.excepthook(*sys.exc_info())
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()

    async def forget() -> None:
        task = asyncio.create_task(asyncio.to_thread(fail))
        await asyncio.wait([task])

    asyncio.run(forget())
    gc.collect()  # "Task exception was never retrieved"
    provider.close()


ENTRANCES: dict[str, Callable[[Cell, str, Any], None]] = {
    "constructor": by_constructor,
    "environment": by_environment,
    "header": by_header,
    "url": by_url,
    "body": by_body,
    "tool arguments": by_tool_arguments,
    "tool result": by_tool_result,
    "exception message": by_exception_message,
    "cause chain": by_cause_chain,
    "cancelled task": by_cancelled_task,
    "exception hook": by_exception_hook,
}
EXPOSED = {
    "tool arguments": {"journal"},
    "tool result": {"journal"},
    "environment": {"journal", "stderr", "error columns"},
    "exception hook": {"journal", "stderr", "error columns"},
}
# There it is part of the content; what a tool says in its clean-up is its result.
STORED = {"tool arguments", "tool result", "exception message", "cancelled task"}
