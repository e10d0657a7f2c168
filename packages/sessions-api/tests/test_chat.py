"""The chat loop, driven with lines and a scripted provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessions_api import ModelReply, ToolCall
from sessions_api.chat.commands import CommandUnknown, find_command
from sessions_api.showing.terminal_text import cut, safe, width

if TYPE_CHECKING:
    from pathlib import Path

    from talking import Talk


def test_answers_go_to_output_and_all_else_aside(talk: Talk) -> None:
    """A tool call is shown as it runs, and a pipe gets the answers alone."""
    call = ModelReply(tool_calls=(ToolCall(id="1", name="shout", arguments='{"text": "hey"}'),))
    output, aside = talk(["Good day.", call, "Done."], "hello", "shout, please")
    assert output == "Good day.\nDone.\n"
    assert aside.splitlines()[:2] == ['· shout({"text": "hey"}) …', "· shout: ok: HEY"]
    assert aside.splitlines()[-1].startswith("Resume: tinyagent --resume ")


def test_nothing_said_is_nothing_to_resume(talk: Talk) -> None:
    """No session comes into being with an empty chat, and none is promised."""
    assert talk([], "", "   ", "/help")[1].count("Resume") == 0
    assert talk(["hi"], "hello", persistence="ephemeral")[1].count("Resume") == 0


def test_a_failed_turn_is_told_and_the_chat_goes_on(talk: Talk) -> None:
    """The failure is two lines; the next turn is answered; the session can be resumed."""
    output, aside = talk([ConnectionError("secret words"), "Back."], "one", "two")
    assert output == "Back.\n"
    assert "Error: The run" in aside
    assert "secret words" not in aside
    assert "Resume:" in aside


def test_a_line_with_a_slash_never_reaches_the_model(talk: Talk) -> None:
    """The nearest command is offered; two slashes send one."""
    output, aside = talk(
        ["fine"], "/sesions latest", "/", "/e", "//etc is a directory", "/exi", "no"
    )
    assert output == "fine\n"
    assert "There is no command /sesions. Did you mean /sessions" in aside
    assert "/export or /exit" in aside


def test_new_and_resume_change_the_session(talk: Talk) -> None:
    """A title resumes it; what was said last is shown again, with how much there is."""
    said = [f"answer {n}" for n in range(6)]
    output, aside = talk(
        said, "a", "b", "c", "x", "/rename first", "/new", "d", "/sessions", "/resume first", "e"
    )
    assert output.splitlines() == said
    assert "showing 5 of 8 messages" in aside
    assert "answer 1" in aside
    assert "answer 0" not in aside
    handles = [line.split()[0] for line in aside.splitlines() if " first " in line]
    assert aside.splitlines()[-1].endswith(handles[0])


def test_a_reference_that_fits_nothing_leaves_the_session(talk: Talk) -> None:
    """The failure is told, and the next message goes where the last one went."""
    output, aside = talk(["one", "two"], "a", "/resume nowhere", "b", "/export")
    assert output == "one\ntwo\n"
    assert "No session fits 'nowhere'" in aside
    assert "/export FILE" in aside


def test_export_writes_the_session(talk: Talk, tmp_path: Path) -> None:
    """One message a line."""
    _, aside = talk(["one"], "a", f"/export {tmp_path / 'out.jsonl'}", "/export /no/such/place")
    assert len((tmp_path / "out.jsonl").read_text("utf-8").splitlines()) == 2
    assert "No such file or directory" in aside


def test_resuming_after_a_failure_begins_with_what_is_known(talk: Talk) -> None:
    """Saved, tools, unknown, next; messages of the failed run are marked."""
    call = ModelReply(
        content="Let me.", tool_calls=(ToolCall(id="", name="shout", arguments='{"text": "x"}'),)
    )
    talk([call, TimeoutError()], "please shout")
    _, aside = talk([], resume="latest")
    lines = aside.splitlines()
    assert lines[0].startswith("The last run failed: provider.timeout")
    assert lines[1].split(maxsplit=1) == [
        "Saved",
        "your message “please shout”, 1 assistant message, 1 tool result",
    ]
    assert lines[2].split() == ["Tools", "shout", "ok"]
    assert lines[3].split() == ["Unknown", "nothing"]
    assert "showing 3 of 3 messages" in aside
    assert aside.count("failed: provider.timeout]") == 3


def test_an_answer_has_no_power_over_the_terminal(talk: Talk) -> None:
    """Control characters become visible, also those of tool calls and titles."""
    call = ModelReply(tool_calls=(ToolCall(id="1", name="shout", arguments='{"text":"\x1b[2J"}'),))
    output, aside = talk([call, "\x1b]52;c;x\x07\tend"], "\x9b31m", "/sessions")
    assert output == "\\x1b]52;c;x\\x07\tend\n"
    assert not set(aside) & {"\x1b", "\x07", "\x9b"}


@pytest.mark.parametrize(
    ("typed", "found"),
    [("new", "new"), ("SES", "sessions"), ("he", "help"), ("ren", "rename"), ("exp", "export")],
)
def test_unique_prefixes_name_a_command(typed: str, found: str) -> None:
    """Upper case is no other name."""
    assert find_command(typed) == found


@pytest.mark.parametrize("typed", ["", "re", "ex", "delete-everything"])
def test_what_names_no_single_command_is_refused(typed: str) -> None:
    """An ambiguous prefix is not guessed at."""
    with pytest.raises(CommandUnknown):
        find_command(typed)


def test_text_is_cut_by_columns_and_marked() -> None:
    """A wide letter is never cut in half."""
    assert cut("short", 5) == "short"
    assert cut("会話会話", 6) == "会話…"
    assert width(cut("a会話会話", 6)) <= 6
    assert safe("a\tb\nc\r\nd\x00\u202e") == "a\tb\nc\nd\\x00\\u202e"
