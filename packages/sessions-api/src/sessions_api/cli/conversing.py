"""`tinyagent chat`, `run`, `runs retry`, `sessions new` and `sessions resume`: a model is asked.

Invariants: a reference that does not resolve starts nothing; `run` needs its conversation saved
unless told otherwise, chat goes on without and says so; the command that resumes is named only
where something was saved.
"""

from __future__ import annotations

import shlex
import sys
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sessions_api.cli.completion.candidates import complete_sessions
from sessions_api.cli.failures import FAILED, UsageInvalid
from sessions_api.cli.opened import agent_for, reading, resolved, resolved_run
from sessions_api.cli.options import (
    JSON,
    PLACE,
    PROVIDER,
    RESUME,
    STOPPED_FACTS,
    TOOLS,
    Call,
    command,
)
from sessions_api.cli.runs import RunRef  # noqa: TC001 - Typer reads it
from sessions_api.showing.listing import handle
from sessions_api.showing.terminal_text import (
    has_cursor,
    on_terminal,
    prints_on_terminal,
    safe,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions_api.agent import Agent
    from sessions_api.chat.lines import Lines
    from sessions_api.chat.live import LiveAnswer
    from sessions_api.runs.events import RunResult
    from sessions_api.sessions import Sessions
    from sessions_api.state import Persistence
    from state_store import Session
    from workspace_identity import WorkspacePaths

Text = Annotated[
    str | None, typer.Argument(metavar="[TEXT|-]", help="The message; - or a pipe reads input.")
]
Ephemeral = Annotated[bool, typer.Option("--ephemeral", help="Save nothing.")]
Title = Annotated[str | None, typer.Option("--title", help="Its title.")]
AllowUnsafe = Annotated[
    bool, typer.Option("--allow-unsafe", help="Even if tools that may not run twice had started.")
]
Note = Annotated[
    str | None, typer.Option("--note", help="Tell the model this too; it is added to the message.")
]
NoChat = Annotated[bool, typer.Option("--no-chat", help="Print the id and nothing more.")]
MaybeRef = Annotated[
    str | None,
    typer.Argument(
        metavar="[REF]",
        help="latest, id, last digits or exact title; or choose.",
        autocompletion=complete_sessions,
    ),
]


def add_to(app: typer.Typer, *, sessions: typer.Typer, runs: typer.Typer) -> None:
    """Add `chat` and `run` to the command line, `retry` to `tinyagent runs`, `new` and `resume`."""
    command(app, "chat", PLACE, PROVIDER, RESUME, TOOLS)(chat)
    command(app, "run", PLACE, JSON, PROVIDER, RESUME, TOOLS)(run)
    command(runs, "retry", PLACE, JSON, PROVIDER, TOOLS)(retry_run)
    command(sessions, "new", PLACE, JSON, PROVIDER, TOOLS)(new_session)
    command(sessions, "resume", PLACE, PROVIDER, TOOLS)(resume_session)


def chat(call: Call) -> None:
    """Chat in this workspace."""
    if call.ref is None:
        _chat(call)
    elif call.chooses:
        _chat_in_chosen(call)
    else:
        _chat(call, *resolved(call, call.ref))


def resume_session(call: Call, ref: MaybeRef = None) -> None:
    """Chat in a session."""
    if ref is None:
        _chat_in_chosen(call)
    else:
        _chat(call, *resolved(call, ref))


def new_session(call: Call, *, title: Title = None, no_chat: NoChat = False) -> None:
    """Create a session and print its id; on a terminal, chat in it."""
    if title is not None and not title.strip():
        raise UsageInvalid("The title is empty.", hint="Give one, or leave --title out.")
    with agent_for(call, persistence="required") as agent:
        _tell_notices(call, agent)
        session = agent.sessions.create(title)
    if call.json:
        from sessions_api.cli.json_shapes import session_json  # noqa: PLC0415 - for --json alone

        with reading(call) as opened:
            workspace_id = opened.state.workspace_id
        call.out.record({"session": session_json(session, workspace_id=workspace_id)})
    else:
        call.out.lines([session.id])
    if not (no_chat or call.json) and on_terminal() and prints_on_terminal(sys.stdout):
        call.out.flush()
        _chat(call, session)


def _chat(call: Call, session: Session | None = None) -> None:
    from sessions_api.chat.loop import Chat  # noqa: PLC0415 - not for --help

    # Without its history a session cannot be gone on with, so best effort is for new ones alone.
    persistence: Persistence = "best-effort" if session is None else "required"
    with agent_for(call, persistence=persistence) as agent:
        if session is not None:
            agent.sessions.resume(session.id)
        lines = _lines(call, agent.sessions)
        talk = Chat(
            agent,
            lines=lines,
            output=sys.stdout,
            aside=sys.stderr,
            ink=call.out.aside_ink,
            live=_live(call),
            resume_with=_resume_with(call),
            exports_dir=lambda: _exports_dir(call),
        )
        talk.run()
    if talk.failed_count and not lines.asks:
        raise typer.Exit(FAILED)


def _exports_dir(call: Call) -> Path | None:
    paths = _paths(call)
    return None if paths is None else paths.exports


def _paths(call: Call) -> WorkspacePaths | None:
    from workspace_identity import inspect_workspace  # noqa: PLC0415 - not for --help

    return inspect_workspace(call.workspace).paths


def _lines(call: Call, sessions: Sessions) -> Lines:
    from sessions_api.chat.lines import StreamLines, TerminalLines  # noqa: PLC0415 - not for --help

    if not (on_terminal() and prints_on_terminal(sys.stdout)):
        return StreamLines(sys.stdin or StringIO(), prompts=sys.stderr if on_terminal() else None)
    if not has_cursor():
        return TerminalLines()
    from sessions_api.chat.picker import Picker  # noqa: PLC0415 - for such a terminal alone
    from sessions_api.chat.picker.places import OpenWorkspace  # noqa: PLC0415 - the same
    from sessions_api.chat.terminal import PromptLines  # noqa: PLC0415 - the same
    from sessions_api.typed_lines import FILE_NAME, TypedLines  # noqa: PLC0415 - the same

    here = OpenWorkspace(sessions=sessions, directory=Path(call.workspace))
    paths = _paths(call)
    typed = None if paths is None else paths.state_dir / FILE_NAME
    return PromptLines(
        sys.stdout,
        typed_lines=TypedLines(typed),
        sessions=sessions,
        picker=Picker(here=here, output=sys.stdout),
    )


def _live(call: Call) -> LiveAnswer | None:
    if not (call.out.ink.color and has_cursor()):
        return None
    from sessions_api.chat.live import LiveAnswer  # noqa: PLC0415 - for such a terminal alone

    return LiveAnswer(sys.stdout)


def _chat_in_chosen(call: Call) -> None:
    """Let a person choose a session, and chat in it, in its own workspace."""
    from sessions_api.chat.choosing import choose_session  # noqa: PLC0415 - not for --help
    from sessions_api.chat.lines import TerminalLines  # noqa: PLC0415 - not for --help

    if not (on_terminal() and prints_on_terminal(sys.stdout)):
        raise UsageInvalid(
            "There is nobody to choose a session.", hint="Name it: --resume REF, or --continue."
        )
    if has_cursor():
        from sessions_api.chat.picker import Picker  # noqa: PLC0415 - for such a terminal alone
        from sessions_api.chat.picker.places import Workspace  # noqa: PLC0415 - the same

        here = Workspace(directory=Path(call.workspace))
        picked = Picker(here=here, output=sys.stdout).pick()
        ref = picked.session_id
        if picked.root is not None:
            call = replace(call, workspace=str(picked.root))
    else:
        with reading(call) as opened:
            ref = choose_session(
                opened.sessions,
                TerminalLines(),
                call.out.note,
                ink=call.out.aside_ink,
                columns_wide=call.out.columns_wide,
            )
    if ref is None:
        raise typer.Exit(0)
    _chat(call, *resolved(call, ref))


def run(
    call: Call,
    text: Text = None,
    *,
    ephemeral: Ephemeral = False,
) -> None:
    """Ask once and print the answer; on standard error, how to go on."""
    if ephemeral and call.ref is not None:
        raise UsageInvalid(
            "--ephemeral saves nothing, so it cannot go on with a session.",
            hint="Leave out --ephemeral, or --continue and --resume.",
        )
    if call.chooses:
        raise UsageInvalid("--resume needs a session here.", hint="Name it: --resume REF")
    message = _message(text)
    (session,) = (None,) if call.ref is None else resolved(call, call.ref)
    persistence: Persistence = "ephemeral" if ephemeral else "required"
    with agent_for(call, persistence=persistence) as agent:
        told_count = _tell_notices(call, agent)
        if session is not None:
            agent.sessions.resume(session.id)
        with _telling(call, agent, told_count=told_count):
            _print_answer(call, _answer(call, agent, message))


def retry_run(
    call: Call, run: RunRef, *, allow_unsafe: AllowUnsafe = False, note: Note = None
) -> None:
    """Try a failed run again with the same input, and print the answer."""
    found = resolved_run(call, run)
    with agent_for(call, persistence="required") as agent:
        told_count = _tell_notices(call, agent)
        with _telling(call, agent, told_count=told_count):
            _print_answer(call, agent.retry(found.id, allow_unsafe=allow_unsafe, note=note))


@contextmanager
def _telling(call: Call, agent: Agent, *, told_count: int) -> Iterator[None]:
    """Tell what there is to tell after a run, however it ends."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as stop:
        _add_facts(stop, agent)
        raise
    finally:
        _tell_notices(call, agent, told_count=told_count)
        _tell_resume(call, agent)


def _answer(call: Call, agent: Agent, message: str) -> RunResult:
    """Ask, and show on standard error which tools are called meanwhile."""
    from sessions_api.showing.tool_calls import tool_line  # noqa: PLC0415 - not for --help

    with agent.stream(message) as stream:
        for event in stream:
            if (line := tool_line(event, call.out.aside_ink)) is not None:
                call.out.note(line)
    if stream.result is None:
        raise AssertionError("a stream that ends has a result, or raises")
    return stream.result


def _message(text: str | None) -> str:
    if text is not None and text != "-":
        return text
    if sys.stdin is None:
        raise UsageInvalid(
            "Standard input is closed.", hint='Give the message: tinyagent run "hello"'
        )
    if text is None and prints_on_terminal(sys.stdin):
        raise UsageInvalid("There is no message.", hint='Give it: tinyagent run "hello"')
    return sys.stdin.read().removesuffix("\n")


def _print_answer(call: Call, result: RunResult) -> None:
    if not call.json:
        call.out.text(result.text)
        call.out.flush()  # before the line on standard error that says how to go on
        return
    from sessions_api.cli.json_shapes import usage_json  # noqa: PLC0415 - for --json alone

    call.out.record(
        {
            "session_id": result.session_id,
            "run_id": result.run_id,
            "status": result.status,
            "text": result.text,
            "usage": usage_json(result.usage),
            "cost": result.cost,
            "error_type": None,
        }
    )


def _add_facts(stop: BaseException, agent: Agent) -> None:
    """Note on the exception which run was stopped; it travels on to where JSON is written."""
    if (active := agent.sessions.active) is None:
        return
    runs = agent.sessions.runs().items
    facts = (active.id, runs[-1].id if runs else None)
    stop.__dict__.update(zip(STOPPED_FACTS, facts, strict=True))


def _tell_notices(call: Call, agent: Agent, *, told_count: int = 0) -> int:
    """Tell the notices behind those that were told, and return how many there are."""
    notices = agent.notices
    for notice in notices[told_count:]:
        call.out.note(safe(notice))
    return len(notices)


def _tell_resume(call: Call, agent: Agent) -> None:
    active = agent.sessions.active
    if active is not None and agent.saving:
        call.out.note("Resume: " + _resume_with(call).format(handle(active.id)))


def _resume_with(call: Call) -> str:
    elsewhere = "" if call.workspace == "." else f" --workspace {shlex.quote(call.workspace)}"
    return "tinyagent --resume {}" + elsewhere.replace("{", "{{").replace("}", "}}")
