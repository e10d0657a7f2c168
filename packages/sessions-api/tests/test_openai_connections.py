from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

import wire_server
from sessions_api.providers.base import ModelMessage, ModelRequest, TextDelta
from sessions_api.providers.openai import AsyncOpenAIProvider, OpenAIProvider
from wire_server import Turn, WireServer

if TYPE_CHECKING:
    from pathlib import Path

HELLO = ModelRequest(model="m-1", messages=(ModelMessage(role="user", content="hello"),))


def test_a_stream_left_early_is_closed(wire: WireServer) -> None:
    """The service notices that nobody listens any more, and no socket is left."""
    wire.script(Turn(text="word " * 1000, pause_s=0.005))
    provider = OpenAIProvider(base_url=wire.base_url)
    stream = provider.stream(HELLO)
    assert isinstance(next(stream), TextDelta)
    stream.close()
    assert wire.hung_up.wait(5)
    provider.close()
    gc.collect()


def test_an_async_stream_left_early_is_closed(wire: WireServer) -> None:
    """The same for the async face, also when the task that reads is cancelled."""

    async def leave() -> None:
        provider = AsyncOpenAIProvider(base_url=wire.base_url)
        stream = provider.stream(HELLO)
        assert isinstance(await anext(stream), TextDelta)
        await stream.aclose()
        assert await asyncio.to_thread(wire.hung_up.wait, 5)
        wire.hung_up.clear()

        async def read() -> None:
            async for _ in provider.stream(HELLO):
                started.set()

        started = asyncio.Event()
        task = asyncio.create_task(read())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(wire.hung_up.wait, 5)
        await provider.close()

    wire.script(*[Turn(text="word " * 1000, pause_s=0.005)] * 2)
    asyncio.run(leave())
    gc.collect()


def test_an_exception_of_the_consumer_stays_its_own(wire: WireServer) -> None:
    """Only what the service did wrong becomes a provider error."""
    wire.script(Turn(text="one two"))
    provider = OpenAIProvider(base_url=wire.base_url)
    stream = provider.stream(HELLO)
    next(stream)
    with pytest.raises(json.JSONDecodeError):
        stream.throw(json.JSONDecodeError("mine", "", 0))
    provider.close()


def test_a_closed_provider_has_left_and_connects_again(wire: WireServer) -> None:
    """No connection stays, closing twice is fine, and a later request works."""
    wire.script(Turn(text="one"), Turn(text="two"))
    provider = OpenAIProvider(base_url=wire.base_url)
    assert provider.reply(HELLO).content == "one"
    assert not wire.wait_until_left(0.05)
    provider.close()
    assert wire.wait_until_left(5)
    provider.close()
    assert provider.reply(HELLO).content == "two"
    provider.close()


def test_a_closed_async_provider_has_left_and_connects_again(wire: WireServer) -> None:
    """The same for the async face."""

    async def use() -> None:
        provider = AsyncOpenAIProvider(base_url=wire.base_url)
        for _ in range(2):
            assert (await provider.reply(HELLO)).content == "one"
        assert not await asyncio.to_thread(wire.wait_until_left, 0.05)
        await provider.close()
        assert await asyncio.to_thread(wire.wait_until_left, 5)
        await provider.close()
        assert (await provider.reply(HELLO)).content == "two"
        await provider.close()

    wire.script(Turn(text="one"), Turn(text="one"), Turn(text="two"))
    asyncio.run(use())


def test_threads_share_one_provider(wire: WireServer) -> None:
    """Eight first requests at once make one client and eight answers."""
    wire.script(*[Turn(text="hi")] * 8)
    provider = OpenAIProvider(base_url=wire.base_url)
    answers: list[str | None] = []
    threads = [
        threading.Thread(target=lambda: answers.append(provider.reply(HELLO).content))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    provider.close()
    assert answers == ["hi"] * 8
    assert wire.wait_until_left(5)


def test_the_wire_server_serves_another_process(wire: WireServer, tmp_path: Path) -> None:
    """End-to-end tests can script it in a file and read what was asked."""
    script = tmp_path / "turns.json"
    script.write_text(json.dumps([{"text": "hi", "usage": {"prompt_tokens": 1}}]), encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, str(wire_server.__file__), "--script", str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        provider = OpenAIProvider(base_url=server.stdout.readline().strip())
        assert provider.reply(HELLO).content == "hi"
        provider.close()
        assert json.loads(server.stdout.readline())["body"]["model"] == "m-1"
        server.communicate()
    assert server.returncode == 0
