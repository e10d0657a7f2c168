"""Options that several commands share, and how a command gets them.

Owns the `command` decorator: a command is a function whose first parameter is a `Call`; the
options of the families it names are added to its own, and arrive in that call. Invariant: every
way in which a command can end passes through here and becomes an exit code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import typer

from sessions_api.cli.completion.candidates import complete_sessions
from sessions_api.cli.failures import UsageInvalid, exit_code_of, problem_lines
from sessions_api.cli.grammar import CHOOSE
from sessions_api.cli.output import Output
from sessions_api.cli.signals import INTERRUPTED, Stopped

Work = TypeVar("Work", bound=Callable[..., None])
Family = dict[str, tuple[Any, Any]]  # parameter name: (annotation, default)

PLACE: Family = {
    "workspace": (
        Annotated[
            str,
            typer.Option("--workspace", "-w", metavar="DIR", help="The project directory."),
        ],
        ".",
    ),
    "no_color": (Annotated[bool, typer.Option("--no-color", help="No colours.")], False),
    "debug": (
        Annotated[bool, typer.Option("--debug", help="Say where a failure happened.")],
        False,
    ),
}
JSON: Family = {
    "json": (Annotated[bool, typer.Option("--json", help="One JSON object on output.")], False),
}
PROVIDER: Family = {
    "provider": (
        Annotated[
            str | None,
            typer.Option("--provider", help="anthropic, offline, openai or openai-responses."),
        ],
        None,
    ),
    "model": (Annotated[str | None, typer.Option("--model", help="The model's id.")], None),
    "base_url": (
        Annotated[
            str | None,
            typer.Option("--base-url", metavar="URL", help="The address of a compatible service."),
        ],
        None,
    ),
    "accept_endpoint": (
        Annotated[
            bool,
            typer.Option(
                "--accept-endpoint",
                help="Send the history to another endpoint than it was held with.",
            ),
        ],
        False,
    ),
}
RESUME: Family = {
    "go_on": (
        Annotated[bool, typer.Option("--continue", "-c", help="Go on with the latest session.")],
        False,
    ),
    "resume": (
        Annotated[
            str | None,
            typer.Option(
                "--resume",
                "-r",
                metavar="[REF]",
                help="Go on with a session: latest, whole id, its last digits (4 or more), "
                "exact title; without one, choose.",
                autocompletion=complete_sessions,
            ),
        ],
        None,
    ),
}
TOOLS: Family = {
    "no_tools": (
        Annotated[bool, typer.Option("--no-tools", help="Show the model no files.")],
        False,
    ),
    "allow_writes": (
        Annotated[
            bool,
            typer.Option(
                "--allow-writes",
                help="Let the model write files of the workspace, and not only read them.",
            ),
        ],
        False,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a command was called with, of the options that commands share."""

    workspace: str = "."
    no_color: bool = False
    debug: bool = False
    json: bool = False
    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    accept_endpoint: bool = False
    go_on: bool = False
    resume: str | None = None
    no_tools: bool = False
    allow_writes: bool = False

    @property
    def out(self) -> Output:
        """Where to write."""
        return Output(json=self.json, color=not self.no_color)

    @property
    def chooses(self) -> bool:
        """Whether `--resume` stood without a reference."""
        return self.resume == CHOOSE and not self.go_on

    @property
    def ref(self) -> str | None:
        """Which session to go on with, None for a new one; UsageInvalid when two are named."""
        if self.go_on and self.resume is not None:
            raise UsageInvalid(
                "--continue and --resume exclude each other.", hint="Leave one of them out."
            )
        return "latest" if self.go_on else self.resume


def command(app: typer.Typer, name: str, *families: Family, **settings: Any) -> Any:
    """Make the decorated function the command *name* of *app*, with the options of *families*.

    Its other parameters are Typer's own business; its docstring is its help.
    """
    shared = {name: one for family in families for name, one in family.items()}

    def register(work: Work) -> Work:
        own = list(inspect.signature(work, eval_str=True).parameters.values())[1:]

        def carry_out(**given: Any) -> None:
            call = Call(**{name: given.pop(name) for name in shared})
            raise typer.Exit(_guarded(work, call, given))

        _present_as(carry_out, work, [*own, *_parameters(shared)])
        app.command(name, **settings)(carry_out)
        return work

    return register


def declared(*families: Family) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declare the options of *families* on a group; see `UsualCommandGroup`."""
    shared = {name: one for family in families for name, one in family.items()}

    def declare(callback: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(callback, eval_str=True).parameters.values())

        def do_nothing(**given: Any) -> None:
            del given

        _present_as(do_nothing, callback, [*own, *_parameters(shared)])
        return do_nothing

    return declare


def _parameters(shared: Family) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )
        for name, (annotation, default) in shared.items()
    ]


def _present_as(
    function: Callable[..., Any], work: Callable[..., Any], parameters: list[inspect.Parameter]
) -> None:
    """Make *function* look to Typer like *work* with *parameters*."""
    keyword_only = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    function.__name__ = work.__name__
    function.__doc__ = work.__doc__
    function.__annotations__ = {one.name: one.annotation for one in keyword_only}
    function.__signature__ = inspect.Signature(keyword_only)  # type: ignore[attr-defined]  # what inspect.signature looks for


def _guarded(work: Callable[..., None], call: Call, given: dict[str, Any]) -> int:
    out = call.out
    try:
        work(call, **given)
        out.flush()
    except BrokenPipeError:
        return 0
    except KeyboardInterrupt as stop:
        return _stopped(stop, out, "Interrupted", INTERRUPTED)
    except Stopped as stop:
        return _stopped(stop, out, f"Ended by {stop.signal_name}", stop.exit_code)
    except typer.Exit as leaving:
        return leaving.exit_code
    except Exception as error:  # noqa: BLE001 - the border: whatever it was becomes two lines
        return report(error, out, debug=call.debug, workspace=call.workspace)
    return 0


def report(error: Exception, out: Output, *, debug: bool, workspace: str = ".") -> int:
    """Tell about *error*, met in *workspace*, where it belongs and return its exit code."""
    from sessions_api.problems import problem_of  # noqa: PLC0415 - for a failure alone

    if debug:
        from sessions_api.cli.debug import debug_lines  # noqa: PLC0415 - for --debug alone

        for line in debug_lines(error):
            out.note(line)
    problem = problem_of(error, workspace=workspace)
    if out.json:
        _record_failure(
            out,
            {
                "kind": problem.kind,
                "message": problem.message,
                "hint": problem.hint,
                "retryable": problem.retryable,
            },
            problem.facts,
        )
    for line in problem_lines(problem):
        out.note(line)
    return exit_code_of(error)


def _stopped(stop: BaseException, out: Output, said: str, exit_code: int) -> int:
    hint = "What was committed before is kept."
    if out.json:
        facts = {name: stop.__dict__[name] for name in STOPPED_FACTS if name in stop.__dict__}
        problem = {"kind": "cancelled", "message": f"{said}.", "hint": hint, "retryable": True}
        _record_failure(out, problem, facts)
    out.note(f"{said}. {hint}")
    return exit_code


# What a command that was stopped in the middle of a run writes on the exception for JSON.
STOPPED_FACTS = ("session_id", "run_id")


def _record_failure(out: Output, problem: dict[str, Any], facts: Any) -> None:
    try:
        out.record({"error": problem, **facts})
        out.flush()
    except Exception:  # noqa: BLE001, S110 - standard output is what failed; it is told aside
        pass
