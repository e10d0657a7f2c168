"""What the slash commands do to a session, and what they say."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING, Any

import pytest

from sessions_api import ModelReply, ModelRequest, ReasoningDelta, TextDelta, ToolCall, Usage
from sessions_api.chat.acting import ChatCommands
from sessions_api.chat.commands import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from faces import Looker
    from talking import Talk

PAYING = ModelReply(tool_calls=(ToolCall(id="1", name="pay", arguments='{"amount": 7}'),))


def test_every_command_that_is_shown_can_be_carried_out() -> None:
    """All but the one that leaves, which is the loop's."""
    for name in set(COMMANDS) - {"exit"}:
        assert callable(getattr(ChatCommands, f"_{name}"))


def test_undo_says_what_is_taken_back_and_redo_what_comes_back(talk: Talk, look: Looker) -> None:
    """Nothing undone is sent; a new message ends the coming back."""
    output, aside = talk(
        ["1", "2", "3", "4"], "a", "b", "c", "/undo 2", "/redo", "d", "/redo", "/undo x", "/undo 0"
    )
    assert output.splitlines() == ["1", "2", "3", "4"]
    assert [line for line in aside.splitlines() if line.startswith(("Undone", "Brought"))] == [
        "Undone: “b”",
        "Undone: “c”",
        "Brought back: “b”",
    ]
    assert "has no turn to redo" in aside
    assert aside.count("Say how many turns") == 2
    assert [content for _, content in look.texts()] == ["a", "1", "b", "2", "d", "4"]


def test_commands_without_a_session_say_so(talk: Talk) -> None:
    """None of them fails, and none makes a session."""
    _, aside = talk([], "/undo", "/redo", "/retry", "/fork", "/delete", "/export", "/usage")
    assert aside.count("Nothing has been said in this session yet.") == 6
    assert "This workspace: 0 runs" in aside
    assert "Resume" not in aside


def test_a_fork_is_gone_on_with(talk: Talk) -> None:
    """And the way back is named; the place to resume is the fork."""
    output, aside = talk(["1", "2"], "a", "/fork other way", "b", "/sessions")
    assert output.splitlines() == ["1", "2"]
    (told,) = [line for line in aside.splitlines() if line.startswith("You go on in a fork, ")]
    fork, parent = told.split(", ")[1][:8], told[-8:]
    rows = {line.split()[0]: line for line in aside.splitlines() if line.startswith((fork, parent))}
    assert "other way" in rows[fork]
    assert aside.splitlines()[-1].endswith(f"--resume {fork}")


def test_a_failed_turn_is_tried_again(talk: Talk) -> None:
    """Its answer comes as any other; what has not failed is refused."""
    output, aside = talk([ConnectionError(), "back"], "hello", "/retry", "/retry")
    assert output == "back\n"
    assert "cannot be tried again: it is completed" in aside


def test_tools_that_may_not_run_twice_are_asked_about(talk: Talk, look: Looker) -> None:
    """Silence is no; where nobody can be asked the option says yes."""
    failing = [PAYING, TimeoutError()]
    _, aside = talk(failing, "pay", "/retry", "")
    assert "pay (ok)" in aside
    assert "--allow-unsafe" in aside
    assert len(look.runs()) == 1
    _, aside = talk([], "/retry", "n", resume="latest", asks=True)
    assert "Run such tools again? [y/N] Nothing was tried." in aside
    output, _ = talk(["done"], "/retry", "y", resume="latest", asks=True)
    assert output == "done\n"
    assert len(look.runs()) == 2
    talk(failing, "pay")
    assert talk(["fine"], "/retry --allow-unsafe", resume="latest")[0] == "fine\n"
    assert "/retry --allow-unsafe" in talk([], "/retry now", resume="latest")[1]


def test_deleting_asks_and_then_there_is_nothing_to_resume(talk: Talk, look: Looker) -> None:
    """Silence and nobody to ask are no; the next message begins a new session."""
    _, aside = talk(["1"], "a", "/delete")
    assert "There is nobody to ask." in aside
    _, aside = talk([], "/delete", "", resume="latest", asks=True)
    assert "a  2 messages" in aside
    assert "Delete it for good? [y/N] Nothing was deleted." in aside
    _, aside = talk([], "/delete", "y", resume="latest", asks=True)
    assert "Deleted: " in aside
    assert "Resume:" not in aside
    assert look.messages() == []
    _, aside = talk(["1"], "a", "/delete", "y", asks=True)
    assert "Resume:" not in aside
    output, aside = talk(["1", "2"], "a", "/delete", "y", "b", asks=True)
    assert output.splitlines() == ["1", "2"]
    assert [content for _, content in look.texts()] == ["b", "2"]
    assert "Resume:" in aside


def test_search_finds_in_all_sessions(talk: Talk) -> None:
    """A hit is named by what resumes its session."""
    _, aside = talk(["lighthouse"], "a", "/new", "/search lighthouse", "/search", "/search zebra")
    (hit,) = [line for line in aside.splitlines() if "lighthouse" in line]
    assert hit.split()[1:3] == ["#2", "assistant"]
    assert "/search WORDS" in aside
    assert "Nothing has these words." in aside
    assert talk([], f"/resume {hit.split()[0]}")[1].count("showing 2 of 2") == 1


def test_usage_is_told_of_the_session_and_of_the_workspace(talk: Talk) -> None:
    """What a fork inherited stands apart."""
    used = [
        ModelReply(content="x", usage=Usage(input_tokens=80, output_tokens=20)),
        ModelReply(content="y", usage=Usage(input_tokens=40, output_tokens=10)),
    ]
    _, aside = talk(used, "a", "/fork", "b", "/usage")
    told = aside[aside.index("This session") :].splitlines()
    assert told[0] == "This session: 1 run"
    assert told[1].split(maxsplit=1) == ["Tokens", "50 (40 in, 10 out)"]
    assert told[3].split(maxsplit=1) == ["Inherited", "100 from the parent, counted there"]
    assert told[4] == "This workspace: 2 runs"
    assert told[5].split(maxsplit=1) == ["Tokens", "150 (120 in, 30 out)"]


class Thinking:
    """A provider that says what it thinks, piece by piece."""

    name, endpoint = "thinking", None

    def reply(self, request: ModelRequest) -> ModelReply:
        """Answer as a whole."""
        return ModelReply(
            content="An answer.", reasoning_content=f"I ponder {len(request.messages)}."
        )

    def stream(self, request: ModelRequest) -> Iterator[Any]:
        """Think, then answer."""
        yield ReasoningDelta(text="I ponder ")
        yield ReasoningDelta(text=f"{len(request.messages)}.")
        yield TextDelta(text="An answer.")
        yield self.reply(request)


def test_reasoning_is_shown_beside_the_answer_when_asked_for(talk: Talk) -> None:
    """The session remembers it, one that came into being later too; the answer stays alone."""
    provider = Thinking()
    output, aside = talk([], "a", "/reasoning", "b", "/reasoning", "c", provider=provider)
    assert output == "An answer.\n" * 3
    assert [line for line in aside.splitlines() if "ponder" in line] == ["I ponder 3."]
    assert "is shown from now on" in aside
    assert "is hidden from now on" in aside
    _, aside = talk([], "/reasoning", "d", provider=provider)
    assert aside.count("I ponder 1.") == 1
    _, aside = talk([], "e", provider=provider, resume="d")
    assert [line for line in aside.splitlines() if "ponder" in line] == [
        "I ponder 1.",
        "I ponder 3.",
    ]


@pytest.mark.parametrize(
    ("form", "name", "begins"),
    [
        ("", "jsonl", b'{"role"'),
        (" --format archive", "archive.jsonl", b"{"),
        (" --format markdown", "md", b"#"),
        (" --format html", "html", b"<!"),
    ],
)
def test_export_without_a_file_goes_where_exports_lie(
    talk: Talk, tmp_path: Path, form: str, name: str, begins: bytes
) -> None:
    """For its owner alone, and its path is told."""
    folder = tmp_path / "exports"
    _, aside = talk(["1"], "a", f"/export{form}", exports=folder)
    (file,) = folder.iterdir()
    assert file.name[8:] == f".{name}"
    assert f"Written: {file}" in aside
    assert file.read_bytes().startswith(begins)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_export_takes_a_name_with_spaces_and_a_format(talk: Talk, tmp_path: Path) -> None:
    """In any order, quoted or not; another format is refused with those that exist."""
    there = tmp_path / "my talk"
    for typed in (f"{there} 1", f"'{there} 2'", f"--format jsonl {there} 3", f"{there}'s 4"):
        talk(["1"], "a", f"/export {typed}")
    names = sorted(path.name for path in tmp_path.iterdir() if path.is_file())
    assert names == ["my talk 1", "my talk 2", "my talk 3", "my talk's 4"]
    assert json.loads((tmp_path / "my talk 1").read_text().splitlines()[0])["content"] == "a"
    _, aside = talk(["1"], "a", "/export --format pdf", f"/export {there} --format")
    assert aside.count("jsonl|archive|markdown|html") == 2
