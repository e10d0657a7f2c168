"""Chat on a terminal that draws: what is typed, what is seen, and what is left when it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from screens import CTRL_C, CTRL_D, ENTER, ESC, TAB, UP, Screen, drawing
from terminal_chat import LONG_COUNT
from tinyagent_process import TIMEOUT_S

if TYPE_CHECKING:
    from tinyagent_process import Call, Tinyagent

PROGRAM = (sys.executable, str(Path(__file__).with_name("terminal_chat.py")))


def chat(tinyagent: Tinyagent) -> Screen:
    """Chat with a model that does what it is told."""
    return Screen(drawing(tinyagent), program=PROGRAM)


def typed_file(tinyagent: Tinyagent) -> Path:
    """Return the only file of typed lines."""
    home = Path(tinyagent.environment["TINYAGENT_STATE_HOME"])
    (found,) = home.glob("workspaces/*/chat-history.jsonl")
    return found


def typed_in(tinyagent: Tinyagent) -> list[str]:
    """Return the typed lines that are kept, the oldest first."""
    return [json.loads(one) for one in typed_file(tinyagent).read_text().splitlines() if one]


def stored(call: Call) -> list[dict[str, object]]:
    """Return the messages of the latest session."""
    messages: list[dict[str, object]] = json.loads(call("sessions", "show", "latest", "--json")[1])[
        "messages"
    ]
    return messages


# --- typing -----------------------------------------------------------------------------------


def test_typed_lines_are_recalled_in_the_next_chat(tinyagent: Tinyagent) -> None:
    """They are the owner's alone; what answers a question is not among them."""
    with Screen(drawing(tinyagent)) as first:
        first.prompt()
        first.type(f"hello there{ENTER}")
        first.see("No model was asked")
        first.prompt()
        first.type(f"/delete{ENTER}")
        first.see("[y/N]")
        first.type(f"no{ENTER}")
        first.see("Nothing was deleted")
        first.prompt()
        first.type(CTRL_D)
        assert first.leave() == 0
    assert typed_file(tinyagent).stat().st_mode & 0o777 == 0o600
    with Screen(drawing(tinyagent)) as second:
        second.prompt()
        second.type(UP)
        second.see("> /delete")
        second.type(UP)
        second.see("> hello there")
        second.type(ENTER)
        second.see("No model was asked")
        second.prompt()
        second.type(CTRL_D)
        assert second.leave() == 0
    assert typed_in(tinyagent) == ["hello there", "/delete", "hello there"]
    tinyagent("sessions", "delete", "latest", "--yes")
    assert typed_in(tinyagent) == ["/delete"]


def test_escape_enter_begins_a_line_of_the_same_message(call: Call, tinyagent: Tinyagent) -> None:
    """Enter alone sends it."""
    with chat(tinyagent) as screen:
        screen.prompt()
        screen.type(f"one{ESC}{ENTER}two")
        screen.see("> one\n. two")
        screen.type(ENTER)
        screen.see("You said 7")
        screen.prompt()
        screen.type(CTRL_D)
        assert screen.leave() == 0
    assert stored(call)[0]["content"] == "one\ntwo"


def test_tab_completes_commands_and_sessions(call: Call, tinyagent: Tinyagent) -> None:
    """What is completed for a session is its handle, found by its title."""
    session_id = json.loads(call("run", "会話 about tea", "--json")[1])["session_id"]
    with Screen(drawing(tinyagent)) as screen:
        screen.prompt()
        screen.type(f"/resu{TAB}")
        screen.see("> /resume")
        screen.type(f" tea{TAB}")
        screen.see(f"> /resume {session_id[-8:]}")
        screen.type(ENTER)
        screen.see("showing 2 of 2")
        screen.prompt()
        screen.type(CTRL_D)
        assert screen.leave() == 0


def test_ten_thousand_pasted_lines_are_one_message(call: Call, tinyagent: Tinyagent) -> None:
    """The prompt shows a label, the store has every line; it is sent with what stands around it."""
    lines = "\n".join(f"line {number} with 会話" for number in range(10_000))
    with chat(tinyagent) as screen:
        screen.prompt()
        screen.type("look: ")
        screen.paste(lines)
        screen.see("> look: [Paste 1: 10,000 lines]")
        screen.type(f" thanks{ENTER}")
        screen.see("You said")
        screen.prompt()
        screen.type(CTRL_D)
        assert screen.leave() == 0
    assert stored(call)[0]["content"] == f"look: {lines} thanks"


def test_control_c_clears_what_is_typed_and_asks_before_it_leaves(tinyagent: Tinyagent) -> None:
    """At an empty prompt it says how to leave, and the chat goes on."""
    with chat(tinyagent) as screen:
        screen.prompt()
        screen.type("half a thought")
        screen.see("> half a thought")
        screen.type(CTRL_C)
        screen.prompt()
        assert "half" not in screen.text
        screen.type(CTRL_C)
        screen.see("Leave with Ctrl-D")
        screen.prompt()
        screen.type(f"still here{ENTER}")
        screen.see("You said 10")
        screen.prompt()
        screen.type(CTRL_D)
        assert screen.leave() == 0


def test_what_is_typed_during_an_answer_waits_unseen(tinyagent: Tinyagent) -> None:
    """It does not spoil the answer, and stands at the next prompt."""
    with chat(tinyagent) as screen:
        screen.prompt()
        screen.type(f"wait{ENTER}")
        screen.see("and no more")
        screen.type("early")
        screen.read_what_is_there()
        assert "early" not in screen.shown
        (tinyagent.workspace / "go on").touch()
        screen.see("You said 4: wait", "> early")
        screen.type(f" bird{ENTER}")
        screen.see("You said 10: early bird")


# --- answers ----------------------------------------------------------------------------------


def test_a_long_answer_is_there_whole_and_once(tinyagent: Tinyagent) -> None:
    """Also what scrolled away while it grew; Markdown is shown as such."""
    with chat(tinyagent) as screen:
        screen.prompt()
        screen.type(f"long{ENTER}")
        screen.see(f"ends here: {LONG_COUNT - 1}.")
        screen.prompt()
        ends = re.findall(r"ends\s+here:\s+(\d+)\.", screen.everything)
        assert [int(one) for one in ends] == list(range(LONG_COUNT))
        assert len(re.findall(r"Paragraph \d+ has some words", screen.everything)) == LONG_COUNT
        screen.type(f"code{ENTER}")
        screen.see("line_99 = 99")
        screen.prompt()
        numbers = [int(one) for one in re.findall(r"line_(\d+) = ", screen.everything)]
        assert numbers == list(range(100))
        assert "```" not in screen.everything


def test_an_answer_is_seen_before_it_is_whole(tinyagent: Tinyagent) -> None:
    """Also its last piece, though none follows; Ctrl-C stops it and says what is kept."""
    with chat(tinyagent) as screen:
        screen.prompt()
        screen.type(f"wait{ENTER}")
        screen.see("The first part and no more")
        screen.type(CTRL_C)
        screen.see("Stopped.")
        screen.prompt()
        assert screen.everything.count("The first part and no more") == 1
        assert "Stopped. What was said and done so far is saved." in screen.text
        screen.type(f"and now{ENTER}")
        screen.see("You said 7: and now")
        screen.prompt()
        screen.type(CTRL_D)
        assert screen.leave() == 0
        assert "Resume: tinyagent --resume " in screen.text


def test_no_answer_has_power_over_the_terminal(tinyagent: Tinyagent) -> None:
    """Neither live nor shown again: control sequences are visible, links are no hyperlinks."""
    with chat(tinyagent) as screen:
        screen.prompt()
        screen.type(f"wild{ENTER}")
        screen.see("\\x1b]0;title\\x07")
        screen.prompt()
        for seen in ("link (http://example.org/a)", "\\x9b31mred", "&#27;[31m", "<script>x"):
            assert seen in screen.text.replace("\n", " ")
        screen.type(CTRL_D)
        assert screen.leave() == 0
        for power in ("\x1b]", "\x07", "\x9b", "\x1b[2J"):
            assert power not in screen.shown
    with Screen(drawing(tinyagent), "-c") as again:
        again.see("showing 2 of 2")
        again.prompt()
        again.type(f"/sessions{ENTER} ")
        again.see("1 of 1 shown", "A [link]")
        again.type(ESC)
        again.prompt()
        again.type(CTRL_D)
        assert again.leave() == 0
        for power in ("\x1b]", "\x07", "\x9b"):
            assert power not in again.shown


def test_wide_letters_and_those_from_right_to_left_stay_whole(
    call: Call, tinyagent: Tinyagent
) -> None:
    """At the prompt and in the answer."""
    with chat(tinyagent) as screen:
        screen.prompt()
        screen.type(f"world{ENTER}")
        screen.until(lambda: "שלום עולם end" in screen.text)
        screen.prompt()
        screen.type("会話 👍 é שלום")
        screen.until(lambda: "שלום" in screen.rows[screen._screen.cursor.y])
        screen.type(f"{ENTER}")
        screen.see("You said")
        screen.prompt()
    assert stored(call)[2]["content"] == "会話 👍 é שלום"


@pytest.mark.parametrize(
    ("options", "environment"),
    [((), {"NO_COLOR": "1"}), (("--no-color",), {}), ((), {"TERM": "dumb"})],
)
def test_without_colours_an_answer_is_plain_text(
    tinyagent: Tinyagent, options: tuple[str, ...], environment: dict[str, str]
) -> None:
    """As the model wrote it, with nothing but letters."""
    with Screen(drawing(tinyagent, **environment), *options) as screen:
        screen.prompt()
        screen.type(f"*a*{ENTER}")
        screen.see("“*a*”")
        assert "\x1b[1m" not in screen.shown
        assert "\x1b[3m" not in screen.shown


def test_a_window_may_be_any_size_and_change_it(tinyagent: Tinyagent) -> None:
    """Too narrow for Markdown or for anything, then wide again."""
    with chat(tinyagent) as screen:
        screen.prompt()
        screen.resize(rows=24, columns=30)
        screen.type(f"narrow{ENTER}")
        screen.see("You said 6: narrow")
        screen.prompt()
        screen.resize(rows=3, columns=8)
        screen.type(f"tiny{ENTER}")
        screen.until(lambda: "4: tiny" in screen.everything.replace("\n", ""))
        screen.resize(rows=30, columns=100)
        screen.type(f"wait{ENTER}")
        screen.see("and no more")
        screen.resize(rows=24, columns=60)
        screen.type(CTRL_C)
        screen.see("Stopped.")
        screen.prompt()
        screen.type(CTRL_D)
        assert screen.leave() == 0


# --- how it ends ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stopping", "code", "where"),
    [
        (signal.SIGTERM, 143, "at the prompt"),
        (signal.SIGTERM, 143, "in a stream"),
        (signal.SIGTERM, 143, "in a tool"),
        (signal.SIGHUP, 129, "in a tool"),
        (signal.SIGHUP, 129, "in the picker"),
    ],
)
def test_a_signal_commits_the_run_and_restores_the_terminal(
    call: Call, tinyagent: Tinyagent, stopping: signal.Signals, code: int, where: str
) -> None:
    """C03: what was said is there, the run is cancelled, the terminal is as it was before."""
    with chat(tinyagent) as screen:
        before = screen.settings()
        screen.prompt()
        screen.type(f"hello{ENTER}")
        screen.see("You said 5")
        screen.prompt()
        typed, seen = {
            "at the prompt": ("half", "> half"),
            "in a stream": (f"wait{ENTER}", "and no more"),
            "in a tool": (f"nap{ENTER}", "nap({"),
            "in the picker": (f"/sessions{ENTER}", "1 of 1 shown"),
        }[where]
        screen.type(typed)
        screen.see(seen)
        screen.process.send_signal(stopping)
        assert screen.leave() == code
        assert "Resume: tinyagent --resume " in screen.text
        assert screen.settings() == before
        assert screen.shown.count("\x1b[?2004h") == screen.shown.count("\x1b[?2004l")
        assert screen.shown.count("\x1b[?1049h") == screen.shown.count("\x1b[?1049l")
        assert screen.shown.count("\x1b[?25l") <= screen.shown.count("\x1b[?25h")
    runs = json.loads(call("runs", "latest", "--json")[1])["runs"]
    ends = [run["error_type"] for run in runs]
    assert ends == ([None, "cancelled"] if where in {"in a stream", "in a tool"} else [None])


def test_a_terminal_that_goes_away_ends_the_chat(tinyagent: Tinyagent) -> None:
    """Its window is closed: the system says so by SIGHUP, and nothing can be written any more."""
    with Screen(drawing(tinyagent)) as screen:
        screen.prompt()
        screen.type(f"hello{ENTER}")
        screen.see("No model was asked")
        screen.prompt()
        screen.hang_up()
        assert screen.process.wait(TIMEOUT_S) == 129
    assert tinyagent.json("sessions")["sessions"][0]["message_count"] == 2


def test_after_a_kill_one_screen_says_what_is_known(tinyagent: Tinyagent) -> None:
    """What was saved, which tool ran, what is unknown, what to type; C28: the provider is gone."""
    with chat(tinyagent) as killed:
        killed.prompt()
        killed.type(f"nap, please{ENTER}")
        killed.see("nap({")
        os.kill(killed.process.pid, signal.SIGKILL)
        assert killed.leave() == -signal.SIGKILL
    with Screen(drawing(tinyagent), "-c") as screen:
        screen.prompt()
        seen = screen.text
        for said in (
            "The last run was interrupted",
            "your message “nap, please”, 1 assistant message",
            "nap  unknown",
            "whether nap took effect",
            "/retry",
            "tinyagent runs retry",
            "showing 2 of 2 messages",
        ):
            assert said in seen
        screen.type(CTRL_D)
        assert screen.leave() == 0


def test_a_pipe_never_loads_what_a_terminal_needs(tinyagent: Tinyagent) -> None:
    """Neither line editing nor Markdown: a quarter of a second each time."""
    script = (
        "import sys; from sessions_api.cli import main; code = main(['chat']); "
        "heavy = {'prompt_toolkit', 'markdown_it', 'pygments'} & set(sys.modules); "
        "print(sorted(heavy), file=sys.stderr); sys.exit(code)"
    )
    with tinyagent.start(program=(sys.executable, "-c", script)) as process:
        _, errors = process.communicate()
    assert process.returncode == 0
    assert errors.splitlines()[-1] == "[]"
