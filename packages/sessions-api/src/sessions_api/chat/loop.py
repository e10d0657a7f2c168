"""The chat loop: lines in, answers out, everything else beside them.

Owns the conversation as a person sees it. Answers go to `output`, all else (tool calls, notices,
errors, what commands show) to `aside`, so that a pipe gets the answers alone. Invariants: a line
that begins with a slash never reaches a model; Ctrl-C stops a turn and not the chat, and what was
saved stays; a place to resume is named at the end only when it exists.

Must not: open or close the agent, exit the process, or decide anything about a run.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from sessions_api.chat.acting import ChatCommands
from sessions_api.chat.commands import CommandUnknown, find_command
from sessions_api.chat.screen import Screen
from sessions_api.errors import SessionsError
from sessions_api.providers.base import ReasoningDelta, TextDelta
from sessions_api.runs.events import RunFinished
from sessions_api.showing.listing import handle
from sessions_api.showing.terminal_text import Ink, one_line, safe
from sessions_api.showing.tool_calls import tool_line
from state_store import StateStoreError, StoreDamaged

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sessions_api.agent import Agent
    from sessions_api.chat.lines import Lines
    from sessions_api.chat.live import LiveAnswer
    from sessions_api.runs.events import RunEvent, RunResult

PROMPT = "> "


class Chat:
    """A conversation with *agent*, in its active session or in a new one.

    `failed_count` counts turns that failed. *live* shows answers as Markdown that grows.
    `exports_dir` finds where /export writes when no file is named; None where there is no such
    place. One thread; the agent stays open afterwards.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        lines: Lines,
        output: TextIO,
        aside: TextIO,
        ink: Ink | None = None,
        live: LiveAnswer | None = None,
        resume_with: str = "tinyagent --resume {}",
        exports_dir: Callable[[], Path | None] = lambda: None,
    ) -> None:
        self.failed_count = 0
        self._agent = agent
        self._lines = lines
        self._screen = Screen(output=output, aside=aside, ink=ink or Ink(), live=live)
        self._commands = ChatCommands(
            agent,
            lines=lines,
            screen=self._screen,
            show_result=self._show_result,
            exports_dir=exports_dir,
        )
        self._resume_with = resume_with
        self._saved: str | None = None
        self._told_count = 0
        self._streamed = False

    def run(self) -> None:
        """Talk until the lines end or /exit; Ctrl-C twice at the prompt raises KeyboardInterrupt.

        However it ends, the command that resumes is shown last if there is something to resume.
        """
        try:
            self._welcome()
            self._talk()
        finally:
            self._note_saved()
            self._farewell()

    def _farewell(self) -> None:
        saved, self._saved = self._saved, None
        try:
            with suppress(OSError):  # the terminal or the reader of the pipe may be gone
                self._screen.end_line()
            with suppress(OSError):
                self._screen.drop_line()
                self._tell_notices()
                if saved is not None:
                    self._screen.say("Resume: " + self._resume_with.format(handle(saved)))
        except KeyboardInterrupt:  # pressed once more: it leaves already, and says where to
            self._saved = saved
            self._farewell()

    # --- the loop -----------------------------------------------------------------------------

    def _welcome(self) -> None:
        self._tell_notices()
        if self._agent.sessions.active is not None:
            self._commands.show_again()
        elif self._lines.asks:
            hint = "A new session begins with your first message. Help: /help"
            self._screen.say(self._screen.ink.dim(hint))

    def _tell_notices(self) -> None:
        notices = self._agent.notices
        for notice in notices[self._told_count :]:
            self._screen.say(safe(notice))
        self._told_count = len(notices)

    def _talk(self) -> None:
        interrupted = False
        while True:
            try:
                line = self._lines.read(PROMPT)
            except KeyboardInterrupt:
                self._screen.say("")
                if interrupted or not self._lines.asks:
                    raise
                interrupted = True
                self._screen.say("Leave with Ctrl-D, or with Ctrl-C once more.")
                continue
            interrupted = False
            if line is None:
                if self._lines.asks:
                    self._screen.say("")
                return
            if not line.strip():
                continue
            if line.startswith("/") and not line.startswith("//"):
                if not self._command(line[1:]):
                    return
            else:
                self._turn(line[1:] if line.startswith("//") else line)

    def _turn(self, text: str) -> None:
        self._attempt(lambda: self._stream(text))

    def _attempt(self, turn: Callable[[], None]) -> None:
        """Let a turn happen; however it ends, the chat goes on, and what was saved is known."""
        self._streamed = False
        try:
            with self._lines.unseen():
                turn()
        except KeyboardInterrupt:
            kept = " What was said and done so far is saved." if self._agent.saving else ""
            self._screen.say(f"Stopped.{kept}")
        except (SessionsError, StateStoreError) as error:
            if isinstance(error, StoreDamaged) or isinstance(error.__cause__, StoreDamaged):
                raise  # nothing that is said from now on would be kept
            self.failed_count += 1
            self._screen.problem(error)
        self._note_saved()
        with suppress(StateStoreError):  # a wish about showing; the next turn notes it
            self._commands.keep_reasoning()

    def _stream(self, text: str) -> None:
        with self._agent.stream(text) as stream:
            for event in stream:
                self._show(event)

    def _show(self, event: RunEvent) -> None:
        match event:
            case TextDelta(text=text):
                self._streamed = True
                self._screen.answer(safe(text))
            case ReasoningDelta(text=text):
                if self._commands.shows_reasoning:
                    self._screen.think(safe(text))
            case RunFinished(result=result):
                if not self._streamed:
                    self._show_result(result)
                self._screen.end_line()
            case _:
                if (line := tool_line(event, self._screen.ink)) is not None:
                    self._screen.say(line)

    def _show_result(self, result: RunResult) -> None:
        """Show an answer that came as a whole."""
        if self._commands.shows_reasoning:
            for message in result.messages:
                self._screen.think(safe(message.reasoning_content or ""))
        self._screen.answer(safe(result.text))
        self._screen.end_line()

    def _note_saved(self) -> None:
        active = self._agent.sessions.active
        if active is not None and self._agent.saving:
            self._saved = active.id

    # --- commands -----------------------------------------------------------------------------

    def _command(self, typed: str) -> bool:
        """Carry out a command; False when it is the one that leaves."""
        word, _, rest = typed.partition(" ")
        try:
            name = find_command(word)
        except CommandUnknown as unknown:
            self._screen.say(f"There is no command /{one_line(word)}. {unknown}")
            return True
        if name == "exit":
            return False
        if name == "retry":
            self._attempt(lambda: self._commands.carry_out(name, rest.strip()))
            return True
        try:
            self._commands.carry_out(name, rest.strip())
        except (SessionsError, StateStoreError, OSError, ValueError) as error:
            self._screen.problem(error)
        if self._saved in self._commands.deleted:
            self._saved = None
        return True
