"""A chat on a terminal whose model does what it is told, put together as `tinyagent chat` is.

Tests run this file in a process of its own: with a provider that streams as fast or as slowly as a
test needs, and with a tool that takes long, which the built-in ones do not.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from sessions_api import Agent, ModelReply, TextDelta, ToolCall
from sessions_api.chat.live import LiveAnswer
from sessions_api.chat.loop import Chat
from sessions_api.chat.picker import Picker
from sessions_api.chat.picker.places import OpenWorkspace
from sessions_api.chat.terminal import PromptLines
from sessions_api.cli.signals import signals_that_stop
from sessions_api.showing.terminal_text import Ink
from sessions_api.typed_lines import TypedLines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions_api.providers.base import Delta, ModelRequest

LONG_COUNT = 150
LONG = "".join(
    f"Paragraph {number} has *some* words that take more than one line of the terminal, all in "
    f"all, and ends here: {number}.\n\n"
    for number in range(LONG_COUNT)
)
CODE = "```python\n" + "".join(f"line_{number} = {number}\n" for number in range(100)) + "```\n"
WILD = (
    "A [link](http://example.org/a) \x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\ and "
    "\x9b31mred\x1b[2J\x07 &#27;[31m <script>x</script>\n\n`\x1b[31m`\n\n"
    "```\n\x1b]0;title\x07\n```\n"
)
WORLD = "Wide 会話 and 👍 and é and שלום עולם end"
PARTS = {"long": LONG, "code": CODE, "wild": WILD, "world": WORLD}


class Obedient:
    """A provider that answers by the last message; "wait" says something and waits for "go on"."""

    name = "obedient"
    endpoint = None

    def reply(self, request: ModelRequest) -> ModelReply:
        """Answer as a whole."""
        said = request.messages[-1].content or ""
        if said.startswith("nap"):
            call = ToolCall(id="c1", name="nap", arguments='{"place": "here"}')
            return ModelReply(content="I will.", tool_calls=(call,))
        return ModelReply(content=PARTS.get(said, f"You said {len(said)}: {said[:40]}"))

    def stream(self, request: ModelRequest) -> Iterator[Delta | ModelReply]:
        """Answer a few letters at a time."""
        if request.messages[-1].content == "wait":
            yield TextDelta(text="The **first** part ")
            yield TextDelta(text="and no more")
            for _ in range(6000):
                if Path("go on").exists():
                    break
                time.sleep(0.01)
        reply = self.reply(request)
        text = reply.content or ""
        for begin in range(0, len(text), 7):
            yield TextDelta(text=text[begin : begin + 7])
        yield reply


def nap(place: str) -> str:
    """Take long."""
    time.sleep(60)
    return place


def main() -> None:
    """Chat until Ctrl-D or a signal."""
    with signals_that_stop(), Agent(".", provider=Obedient(), tools=[nap]) as agent:
        here = OpenWorkspace(sessions=agent.sessions, directory=Path())
        lines = PromptLines(
            sys.stdout,
            typed_lines=TypedLines(None),
            sessions=agent.sessions,
            picker=Picker(here=here, output=sys.stdout),
        )
        Chat(
            agent,
            lines=lines,
            output=sys.stdout,
            aside=sys.stderr,
            ink=Ink(color=True),
            live=LiveAnswer(sys.stdout),
        ).run()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
