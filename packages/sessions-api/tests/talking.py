"""Chats that are held by tests: lines in, what was written to both streams out."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pytest

from sessions_api import Agent, tool
from sessions_api.chat.lines import StreamLines
from sessions_api.chat.loop import Chat
from sessions_api.testing import ScriptedProvider

if TYPE_CHECKING:
    from pathlib import Path

Talk = Callable[..., tuple[str, str]]


@tool(replay="safe")
def shout(text: str) -> str:
    """Shout."""
    return text.upper()


@tool(replay="unsafe")
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@pytest.fixture
def talk(workspace: Path, state_home: Path) -> Talk:
    """Hold a chat with a script of replies; what went to output and aside comes back.

    With `asks` somebody sits there, who is asked and whose lines are the answers.
    """

    def talk(script: Iterable[Any], *lines: str, **options: Any) -> tuple[str, str]:
        output, aside = io.StringIO(), io.StringIO()
        provider = options.pop("provider", None) or ScriptedProvider(script)
        resume, asks = options.pop("resume", None), options.pop("asks", False)
        exports = options.pop("exports", None)
        with Agent(
            workspace, provider=provider, state_home=state_home, tools=[shout, pay], **options
        ) as agent:
            if resume:
                agent.sessions.resume(resume)
            typed = io.StringIO("".join(f"{line}\n" for line in lines))
            Chat(
                agent,
                lines=StreamLines(typed, prompts=aside if asks else None),
                output=output,
                aside=aside,
                exports_dir=lambda: exports,
            ).run()
        return output.getvalue(), aside.getvalue()

    return talk
