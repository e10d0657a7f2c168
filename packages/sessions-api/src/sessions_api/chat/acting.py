"""What the slash commands do: each calls the SDK and says what came of it.

Invariants: a command changes nothing that it does not name; what cannot be undone is asked first,
and where nobody can be asked it is not done. `deleted` holds the ids of sessions that are gone, so
that nobody is told to resume one.

Must not: read or write a stream but through `Screen` and `Lines`, or catch what a command raises.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from sessions_api.chat.choosing import SHOWN_COUNT, choose_session
from sessions_api.chat.commands import help_lines
from sessions_api.chat.exporting import export_to_file
from sessions_api.errors import UnsafeRetry
from sessions_api.showing import figures
from sessions_api.showing.aftermath import aftermath
from sessions_api.showing.hits import hit_lines
from sessions_api.showing.listing import handle, session_lines, shown_title
from sessions_api.showing.liveness import shown_run, shown_session
from sessions_api.showing.terminal_text import cut, one_line
from sessions_api.showing.transcript import transcript
from sessions_api.showing.usage import usage_facts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sessions_api.agent import Agent
    from sessions_api.chat.lines import Lines
    from sessions_api.chat.picker import Picker
    from sessions_api.chat.screen import Screen
    from sessions_api.runs.events import RunResult
    from state_store import Message, Session, Totals

SHOWN_AGAIN = 5
_INPUT_COLUMNS = 60
_NOTHING_SAID = "Nothing has been said in this session yet."


class ChatCommands:
    """The commands of one chat. `show_result` shows what a run that was tried again answered."""

    def __init__(
        self,
        agent: Agent,
        *,
        lines: Lines,
        screen: Screen,
        show_result: Callable[[RunResult], None],
        exports_dir: Callable[[], Path | None] = lambda: None,
    ) -> None:
        self._agent = agent
        self._lines = lines
        self._screen = screen
        self._show_result = show_result
        self._exports_dir = exports_dir
        self.deleted: set[str] = set()
        self.shows_reasoning = False

    def carry_out(self, name: str, rest: str) -> None:
        """Carry out the command *name*, with what was typed behind it."""
        getattr(self, f"_{name}")(rest)

    def show_again(self) -> None:
        """Show how the active session stands and what was said last in it."""
        sessions, screen = self._agent.sessions, self._screen
        session = sessions.get()
        self.shows_reasoning = session.show_reasoning
        messages = sessions.messages().items
        runs = [shown_run(run) for run in sessions.runs().items]
        screen.say_all(
            aftermath(
                runs,
                messages,
                sessions.tool_executions(),
                ink=screen.ink,
                then=(
                    ("a message", "goes on from what was completed"),
                    ("/retry", "tries the failed turn again"),
                    *((f"tinyagent runs retry {handle(one.id)}", "the same") for one in runs[-1:]),
                    ("/new", "starts afresh"),
                ),
            )
        )
        shown = messages[-SHOWN_AGAIN:]
        told = f"{shown_title(session.title)}: showing {len(shown)} of {len(messages)} messages"
        screen.say(screen.ink.dim(told))
        screen.say_all(
            transcript(
                shown, runs, ink=screen.ink, show_times=False, reasoning=self.shows_reasoning
            )
        )

    def keep_reasoning(self) -> None:
        """Note in the active session whether its reasoning is shown."""
        active = self._agent.sessions.active
        if active is not None and active.show_reasoning is not self.shows_reasoning:
            self._agent.sessions.show_reasoning(self.shows_reasoning)

    # --- which session ------------------------------------------------------------------------

    def _new(self, title: str) -> None:
        if title:
            self._agent.sessions.create(title)
        else:
            self._agent.sessions.leave()
        self._screen.say("A new session. The one before stays as it is.")

    def _sessions(self, _rest: str) -> None:
        if self._lines.picker is not None:
            self._pick(self._lines.picker)
            return
        sessions, screen = self._agent.sessions, self._screen
        page = sessions.list(SHOWN_COUNT)
        if not page.items:
            screen.say("There is no session here yet.")
            return
        listed = [shown_session(one, sessions) for one in page.items]
        screen.say_all(session_lines(listed, ink=screen.ink, columns_wide=screen.columns_wide))

    def _resume(self, ref: str) -> None:
        if not ref and self._lines.picker is not None:
            self._pick(self._lines.picker)
            return
        chosen: str | None = ref
        if not ref and self._lines.asks:
            chosen = choose_session(
                self._agent.sessions,
                self._lines,
                self._screen.say,
                ink=self._screen.ink,
                columns_wide=self._screen.columns_wide,
            )
        if not chosen:
            self._screen.say("Name a session: /resume REF")
            return
        self._agent.sessions.resume(chosen)
        self.show_again()

    def _pick(self, picker: Picker) -> None:
        try:
            picked = picker.pick()
        except KeyboardInterrupt:
            return
        self.deleted |= picked.deleted
        if picked.session_id is None:
            return
        if picked.root is not None:
            there = shlex.quote(str(picked.root))
            self._screen.say(
                "It belongs to another workspace. Go on with it there: tinyagent --resume "
                f"{handle(picked.session_id)} --workspace {one_line(there)}"
            )
            return
        self._agent.sessions.resume(picked.session_id)
        self.show_again()

    def _search(self, words: str) -> None:
        if not words:
            self._screen.say("Name what to find: /search WORDS")
            return
        page = self._agent.sessions.search(words)
        self._screen.say_all(hit_lines(page.items, ink=self._screen.ink))
        if not page.items:
            self._screen.say("Nothing has these words.")
        elif page.next_cursor:
            self._screen.say(
                f"The first {len(page.items)} are shown; all: tinyagent sessions search -n 0 WORDS"
            )

    def _fork(self, title: str) -> None:
        if (before := self._active()) is not None:
            fork = self._agent.sessions.fork(title=title or None)
            self._screen.say(
                f"You go on in a fork, {handle(fork.id)}. The session before stays as it is:"
                f" /resume {handle(before.id)}"
            )

    def _rename(self, title: str) -> None:
        active = self._agent.sessions.active
        if not title or active is None:
            self._screen.say("Name it once it has a message: /rename TITLE")
            return
        self._agent.sessions.rename(active.id, title)
        self._screen.say(f"This session is now called {one_line(title)}.")

    def _delete(self, rest: str) -> None:
        if (active := self._active()) is None:
            return
        if rest:
            self._screen.say("It deletes this session alone. Others: tinyagent sessions delete REF")
            return
        facts = (
            f"{handle(active.id)}  {shown_title(active.title)}  "
            f"{figures.count(active.message_count, 'message')}"
        )
        if not self._asked(f"{facts}\nDelete it for good?"):
            self._screen.say("Nothing was deleted.")
            return
        self._agent.sessions.delete(active.id)
        self.deleted.add(active.id)
        self._screen.say(f"Deleted: {handle(active.id)}. Your next message begins a new session.")

    # --- its turns ----------------------------------------------------------------------------

    def _undo(self, count: str) -> None:
        if self._active() is not None and (turns := self._turns(count)):
            before = self._agent.sessions.messages().items
            self._agent.sessions.undo(turns)
            gone = _typed_in(before, self._agent.sessions.messages().items)
            self._screen.say_all(f"Undone: {one}" for one in gone)
            self._screen.say("Nothing is deleted: /redo brings it back until you say something.")

    def _redo(self, count: str) -> None:
        if self._active() is not None and (turns := self._turns(count)):
            before = self._agent.sessions.messages().items
            self._agent.sessions.redo(turns)
            back = _typed_in(self._agent.sessions.messages().items, before)
            self._screen.say_all(f"Brought back: {one}" for one in back)

    def _turns(self, count: str) -> int:
        """Return how many turns are meant, 0 when that is no number."""
        turns = int(count) if count.isdecimal() and len(count) < 10 else 0  # noqa: PLR2004 - nobody has as many
        if count and not turns:
            self._screen.say("Say how many turns, or nothing for one: /undo 2")
        return turns if count else 1

    def _retry(self, option: str) -> None:
        if self._active() is None:
            return
        if option not in {"", "--allow-unsafe"}:
            self._screen.say("Try it again with: /retry, or /retry --allow-unsafe")
            return
        runs = [run for run in self._agent.sessions.runs().items if run.undone_at is None]
        if not runs:
            self._screen.say(_NOTHING_SAID)
            return
        try:
            result = self._agent.retry(runs[-1].id, allow_unsafe=bool(option))
        except UnsafeRetry as refused:
            if not self._lines.asks:
                raise
            if not self._asked(f"{one_line(str(refused))}\nRun such tools again?"):
                self._screen.say("Nothing was tried.")
                return
            result = self._agent.retry(runs[-1].id, allow_unsafe=True)
        self._show_result(result)

    # --- what is known of it ------------------------------------------------------------------

    def _usage(self, _rest: str) -> None:
        sessions = self._agent.sessions
        if sessions.active is not None:
            self._say_usage("This session", sessions.totals())
        self._say_usage("This workspace", sessions.workspace_totals())

    def _say_usage(self, whose: str, totals: Totals) -> None:
        self._screen.say(
            self._screen.ink.bold(f"{whose}: {figures.count(totals.run_count, 'run')}")
        )
        self._screen.say_all(f"  {name:<9} {value}" for name, value in usage_facts(totals))

    def _reasoning(self, _rest: str) -> None:
        self.shows_reasoning = not self.shows_reasoning
        self.keep_reasoning()
        shown = "shown" if self.shows_reasoning else "hidden"
        self._screen.say(f"The model's reasoning is {shown} from now on.")

    def _export(self, typed: str) -> None:
        if (active := self._active()) is not None:
            said = export_to_file(self._agent.sessions, active, typed, self._exports_dir)
            self._screen.say(said)

    def _help(self, _rest: str) -> None:
        self._screen.say_all(help_lines())

    # --- inside -------------------------------------------------------------------------------

    def _active(self) -> Session | None:
        """Return the active session; say so when there is none."""
        active = self._agent.sessions.active
        if active is None:
            self._screen.say(_NOTHING_SAID)
        return active

    def _asked(self, question: str) -> bool:
        """Ask, and return whether the answer is yes; silence is no, and so is nobody to ask."""
        *before, last = question.split("\n")
        self._screen.say_all(before)
        if not self._lines.asks:
            self._screen.say(f"{last} There is nobody to ask.")
            return False
        return (self._lines.ask(f"{last} [y/N] ") or "").strip().lower() in {"y", "yes"}


def _typed_in(more: tuple[Message, ...], less: tuple[Message, ...]) -> list[str]:
    """Return what was typed in *more* and is not in *less*, each on one line."""
    there = {message.seq for message in less}
    return [
        f"“{cut(one_line(message.content or ''), _INPUT_COLUMNS)}”"
        for message in more
        if message.role == "user" and message.seq not in there
    ]
