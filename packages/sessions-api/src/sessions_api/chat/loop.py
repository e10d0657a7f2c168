"""The chat loop: lines in, answers out, everything else beside them.

Owns the conversation as a person sees it. Answers go to `output`, all else (tool calls, notices,
errors, what commands show) to `aside`, so that a pipe gets the answers alone. Invariants: a line
that begins with a slash never reaches a model; Ctrl-C stops a turn and not the chat, and what was
saved stays; a place to resume is named at the end only when it exists.

Must not: open or close the agent, exit the process, or decide anything about a run.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from sessions_api.chat.choosing import SHOWN_COUNT, choose_session
from sessions_api.chat.commands import CommandUnknown, find_command, help_lines
from sessions_api.errors import SessionsError
from sessions_api.private_file import write_private
from sessions_api.problems import problem_of
from sessions_api.providers.base import TextDelta
from sessions_api.runs.events import RunFinished, ToolFinished, ToolStarted
from sessions_api.showing.aftermath import aftermath
from sessions_api.showing.listing import handle, session_lines, shown_title
from sessions_api.showing.liveness import shown_run, shown_session
from sessions_api.showing.terminal_text import Ink, cut, one_line, prints_on_terminal, safe
from sessions_api.showing.transcript import call_text, transcript
from state_store import StateStoreError, StoreDamaged

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessions_api.agent import Agent
    from sessions_api.chat.lines import Lines
    from sessions_api.runs.events import RunEvent

PROMPT = "> "
SHOWN_AGAIN = 5
_RESULT_COLUMNS = 70


class Chat:
    """A conversation with *agent*, in its active session or in a new one.

    `failed_count` counts turns that failed. One thread; the agent stays open afterwards.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        lines: Lines,
        output: TextIO,
        aside: TextIO,
        ink: Ink | None = None,
        resume_with: str = "tinyagent --resume {}",
    ) -> None:
        self.failed_count = 0
        self._agent = agent
        self._lines = lines
        self._output = output
        self._aside = aside
        self._ink = ink or Ink()
        self._resume_with = resume_with
        self._saved: str | None = None
        self._told_count = 0
        self._mid_line = False
        self._streamed = False
        self._commands: dict[str, Callable[[str], None]] = {
            "new": self._new,
            "sessions": self._sessions,
            "resume": self._resume,
            "rename": self._rename,
            "export": self._export,
            "help": self._help,
        }

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
                self._end_line()
            with suppress(OSError):
                self._mid_line = False
                self._tell_notices()
                if saved is not None:
                    self._say("Resume: " + self._resume_with.format(handle(saved)))
        except KeyboardInterrupt:  # pressed once more: it leaves already, and says where to
            self._saved = saved
            self._farewell()

    # --- the loop -----------------------------------------------------------------------------

    def _welcome(self) -> None:
        self._tell_notices()
        if self._agent.sessions.active is not None:
            self._show_again()
        elif self._lines.asks:
            self._say(self._ink.dim("A new session begins with your first message. Help: /help"))

    def _tell_notices(self) -> None:
        notices = self._agent.notices
        for notice in notices[self._told_count :]:
            self._say(safe(notice))
        self._told_count = len(notices)

    def _talk(self) -> None:
        interrupted = False
        while True:
            try:
                line = self._lines.read(PROMPT)
            except KeyboardInterrupt:
                self._say("")
                if interrupted or not self._lines.asks:
                    raise
                interrupted = True
                self._say("Leave with Ctrl-D, or with Ctrl-C once more.")
                continue
            interrupted = False
            if line is None:
                if self._lines.asks:
                    self._say("")
                return
            if not line.strip():
                continue
            if line.startswith("/") and not line.startswith("//"):
                if not self._command(line[1:]):
                    return
            else:
                self._turn(line[1:] if line.startswith("//") else line)

    def _turn(self, text: str) -> None:
        self._streamed = False
        try:
            with self._agent.stream(text) as stream:
                for event in stream:
                    self._show(event)
        except KeyboardInterrupt:
            kept = " What was said and done so far is saved." if self._agent.saving else ""
            self._say(f"Stopped.{kept}")
        except (SessionsError, StateStoreError) as error:
            if isinstance(error, StoreDamaged) or isinstance(error.__cause__, StoreDamaged):
                raise  # nothing that is said from now on would be kept
            self.failed_count += 1
            self._problem(error)
        self._note_saved()

    def _show(self, event: RunEvent) -> None:
        match event:
            case TextDelta(text=text):
                self._write(safe(text))
            case ToolStarted(call=call):
                self._say(self._ink.dim(f"· {call_text(call)} …"))
            case ToolFinished(call=call, outcome=outcome, content=content):
                shown = cut(one_line(content), _RESULT_COLUMNS)
                self._say(self._ink.dim(f"· {one_line(call.name)}: {outcome}: {shown}"))
            case RunFinished(result=result):
                if not self._streamed:
                    self._write(safe(result.text))
                self._end_line()

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
            self._say(f"There is no command /{one_line(word)}. {unknown}")
            return True
        if name == "exit":
            return False
        try:
            self._commands[name](rest.strip())
        except (SessionsError, StateStoreError, OSError, ValueError) as error:
            self._problem(error)
        return True

    def _new(self, title: str) -> None:
        if title:
            self._agent.sessions.create(title)
        else:
            self._agent.sessions.leave()
        self._say("A new session. The one before stays as it is.")

    def _sessions(self, _rest: str) -> None:
        sessions = self._agent.sessions
        page = sessions.list(SHOWN_COUNT)
        if not page.items:
            self._say("There is no session here yet.")
            return
        listed = [shown_session(one, sessions) for one in page.items]
        for line in session_lines(listed, ink=self._ink, columns_wide=self._columns_wide()):
            self._say(line)

    def _resume(self, ref: str) -> None:
        chosen: str | None = ref
        if not ref and self._lines.asks:
            chosen = choose_session(
                self._agent.sessions,
                self._lines,
                self._say,
                ink=self._ink,
                columns_wide=self._columns_wide(),
            )
        if not chosen:
            self._say("Name a session: /resume REF")
            return
        self._agent.sessions.resume(chosen)
        self._show_again()

    def _rename(self, title: str) -> None:
        active = self._agent.sessions.active
        if not title or active is None:
            self._say("Name it once it has a message: /rename TITLE")
            return
        self._agent.sessions.rename(active.id, title)
        self._say(f"This session is now called {one_line(title)}.")

    def _export(self, file_name: str) -> None:
        if not file_name:
            self._say("Name the file: /export FILE")
            return
        path = Path(os.path.expanduser(file_name))  # noqa: PTH111 - a name may begin with "~" and no user
        write_private(path, self._agent.sessions.export())
        self._say(f"Written: {one_line(str(path))}")

    def _help(self, _rest: str) -> None:
        for line in help_lines():
            self._say(line)

    # --- showing ------------------------------------------------------------------------------

    def _show_again(self) -> None:
        sessions = self._agent.sessions
        session = sessions.get()
        messages = sessions.messages().items
        runs = [shown_run(run) for run in sessions.runs().items]
        screen = aftermath(
            runs,
            messages,
            sessions.tool_executions(),
            ink=self._ink,
            then=(("a message", "goes on from what was completed"), ("/new", "starts afresh")),
        )
        for line in screen:
            self._say(line)
        shown = messages[-SHOWN_AGAIN:]
        self._say(
            self._ink.dim(
                f"{shown_title(session.title)}: showing {len(shown)} of {len(messages)} messages"
            )
        )
        for line in transcript(shown, runs, ink=self._ink, show_times=False):
            self._say(line)

    def _problem(self, error: BaseException) -> None:
        problem = problem_of(error)
        self._say(self._ink.alarm(f"Error: {one_line(problem.message)}"))
        self._say(one_line(problem.hint))

    def _write(self, text: str) -> None:
        if not text:
            return
        self._output.write(text)
        self._output.flush()
        self._streamed = True
        self._mid_line = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._mid_line:
            self._mid_line = False
            self._output.write("\n")
            self._output.flush()

    def _say(self, line: str) -> None:
        self._end_line()
        self._aside.write(f"{line}\n")
        self._aside.flush()

    def _columns_wide(self) -> int | None:
        return shutil.get_terminal_size().columns if prints_on_terminal(self._aside) else None
