"""`tinyagent --show-completion` and `--install-completion`: the scripts, printed or put in place.

Invariant: a file of completion's own is written, in the directory where the shell looks for such;
no start-up file of a person is ever edited, what has to stand there is said.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sessions_api.cli.completion.scripts import SCRIPTS
from sessions_api.cli.output import Output


class Shell(StrEnum):
    """The shells that a script is for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


_THEN = {
    Shell.BASH: "New shells find it, if they load the package bash-completion.",
    Shell.ZSH: "In ~/.zshrc there has to be: fpath+=~/.zfunc; autoload -Uz compinit; compinit",
    Shell.FISH: "New shells find it.",
}


def show(shell: Shell | None) -> None:
    """Print the script of a shell."""
    if shell is not None:
        Output().text(SCRIPTS[shell])
        raise typer.Exit


def install(shell: Shell | None) -> None:
    """Write the script of a shell where it looks for such."""
    if shell is None:
        return
    from sessions_api.private_file import write_private  # noqa: PLC0415 - for this alone

    path = _place_of(shell)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, [SCRIPTS[shell].encode()])
    Output().lines([str(path)])
    Output().note(_THEN[shell])
    raise typer.Exit


def _place_of(shell: Shell) -> Path:
    home = Path.home()
    match shell:
        case Shell.BASH:
            data = os.environ.get("XDG_DATA_HOME") or home / ".local" / "share"
            return Path(data) / "bash-completion" / "completions" / "tinyagent"
        case Shell.ZSH:
            return home / ".zfunc" / "_tinyagent"
        case Shell.FISH:
            config = os.environ.get("XDG_CONFIG_HOME") or home / ".config"
            return Path(config) / "fish" / "completions" / "tinyagent.fish"


Show = Annotated[
    Shell | None,
    typer.Option(
        "--show-completion",
        is_eager=True,
        callback=show,
        help="Print the script that completes commands, sessions and titles in a shell.",
    ),
]
Install = Annotated[
    Shell | None,
    typer.Option(
        "--install-completion",
        is_eager=True,
        callback=install,
        help="Write that script where the shell looks for it.",
    ),
]
