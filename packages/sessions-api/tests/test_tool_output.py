"""A tool that returns more than text: what is stored, what the model is sent, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from faces import calling, said
from sessions_api import ToolFinished, ToolOutput, tool

if TYPE_CHECKING:
    from faces import Looker

OpenAgent = Callable[..., Any]
PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


def test_parts_are_stored_and_sent_beside_the_text(open_agent: OpenAgent, look: Looker) -> None:
    """The next request has them, the row has them, and the text is what people see."""

    @tool(replay="safe")
    def draw() -> ToolOutput:
        """Draw."""
        return ToolOutput(text="A dot.", parts=(one for one in [PART]))

    agent = open_agent([calling(("draw", "{}")), said("ok"), said("ok")], tools=[draw])
    finished = [one for one in agent.stream("draw") if isinstance(one, ToolFinished)]
    assert [one.content for one in finished] == ["A dot."]
    (stored,) = [one for one in look.messages() if one.role == "tool"]
    assert (stored.content, stored.parts) == ("A dot.", (PART,))
    agent.run("again")
    for request in agent.provider.requests[1:]:
        (sent,) = [one for one in request.messages if one.role == "tool"]
        assert (sent.content, sent.parts) == ("A dot.", (PART,))


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ([{"data": b"bytes"}], "TypeError"),
        ([{"n": float("nan")}], "ValueError"),
        (["text"], "TypeError"),
        (7, "TypeError"),
    ],
)
def test_parts_that_cannot_be_stored_are_a_tool_error(
    open_agent: OpenAgent, look: Looker, parts: Any, says: str
) -> None:
    """The model reads it, and the run goes on."""

    @tool(replay="safe")
    def draw() -> ToolOutput:
        """Draw."""
        return ToolOutput(text="x", parts=parts)

    agent = open_agent([calling(("draw", "{}")), said("ok")], tools=[draw])
    assert agent.run("draw").text == "ok"
    (stored,) = [one for one in look.messages() if one.role == "tool"]
    assert (stored.content or "").startswith(f"Error: {says}")
    assert look.outcomes() == ["error"]


def test_an_output_without_parts_is_a_text(open_agent: OpenAgent, look: Looker) -> None:
    """No empty list of parts is stored."""
    agent = open_agent(
        [calling(("plain", "{}")), said("ok")],
        tools=[tool(replay="safe", name="plain")(lambda: ToolOutput(text="x"))],
    )
    agent.run("go")
    assert [one.parts for one in look.messages()] == [None] * 4
    with pytest.raises(TypeError, match="text must be text"):
        ToolOutput(text=b"x")  # type: ignore[arg-type]  # what is wrong is tried
