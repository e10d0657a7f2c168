from __future__ import annotations

import asyncio
import gc
import inspect
import json
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

import wire_server
from asking import HELLO
from sessions_api.providers.base import StreamingProvider, TextDelta
from sessions_api.providers.openai import OpenAIProvider
from wire_server import Turn

if TYPE_CHECKING:
    from pathlib import Path

    from services import Service
    from wire_server import WireServer

LONG = Turn(text="word " * 1000, pause_s=0.005)


def is_async(service: Service) -> bool:
    """Say which face the service is asked through."""
    return inspect.iscoroutinefunction(service.provider.reply)


def test_a_face_is_a_streaming_provider(service: Service) -> None:
    """It satisfies the protocol, and says where the history goes."""
    provider: StreamingProvider = service.provider(base_url=service.wire.base_url)
    assert isinstance(provider, StreamingProvider)
    assert provider.endpoint == service.wire.base_url


def test_a_stream_left_early_is_closed(service: Service) -> None:
    """The service notices that nobody listens any more, and no socket is left."""
    service.wire.script(LONG)
    provider = service.provider(base_url=service.wire.base_url)

    async def leave() -> None:
        stream = provider.stream(HELLO)
        assert isinstance(await anext(stream), TextDelta)
        await stream.aclose()
        assert await asyncio.to_thread(service.wire.hung_up.wait, 5)
        await provider.close()

    if is_async(service):
        asyncio.run(leave())
    else:
        stream = provider.stream(HELLO)
        assert isinstance(next(stream), TextDelta)
        stream.close()
        assert service.wire.hung_up.wait(5)
        provider.close()
    assert service.wire.wait_until_left(5)
    gc.collect()


def test_a_stream_is_closed_when_its_reader_is_cancelled(service: Service) -> None:
    """The connection goes with the task that reads, or with the exception of a consumer."""
    service.wire.script(LONG)
    provider = service.provider(base_url=service.wire.base_url)

    async def leave() -> None:
        async def read() -> None:
            async for _ in provider.stream(HELLO):
                started.set()

        started = asyncio.Event()
        task = asyncio.create_task(read())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(service.wire.hung_up.wait, 5)
        await provider.close()

    if is_async(service):
        asyncio.run(leave())
    else:
        stream = provider.stream(HELLO)
        next(stream)
        with pytest.raises(json.JSONDecodeError):  # a consumer's own exception stays its own
            stream.throw(json.JSONDecodeError("mine", "", 0))
        assert service.wire.hung_up.wait(5)
        provider.close()
    gc.collect()


def test_a_closed_provider_has_left_and_connects_again(service: Service) -> None:
    """No connection stays, closing twice is fine, and a later request works."""
    service.wire.script(Turn(text="one"), Turn(text="one"), Turn(text="two"))
    provider = service.provider(base_url=service.wire.base_url)

    async def use() -> None:
        for _ in range(2):
            assert (await provider.reply(HELLO)).content == "one"
        assert not await asyncio.to_thread(service.wire.wait_until_left, 0.05)
        await provider.close()
        assert await asyncio.to_thread(service.wire.wait_until_left, 5)
        await provider.close()
        assert (await provider.reply(HELLO)).content == "two"
        await provider.close()

    if is_async(service):
        asyncio.run(use())
        return
    for _ in range(2):
        assert provider.reply(HELLO).content == "one"
    assert not service.wire.wait_until_left(0.05)
    provider.close()
    assert service.wire.wait_until_left(5)
    provider.close()
    assert provider.reply(HELLO).content == "two"
    provider.close()


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
