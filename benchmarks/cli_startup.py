"""Measure how long the command takes to start, against a Typer program that only prints.

    uv run python benchmarks/cli_startup.py
    uv run python benchmarks/cli_startup.py --rounds 40 --sessions 1000

Each round starts every program once, in another order each time, so that a loaded machine is loaded
for all of them. Shown are the medians of wall and CPU time (user and system, of the process) in
milliseconds and the median of the rounds' ratios to "hello". On a busy machine the CPU column is
the one to look at. `sessions list` reads a store of *sessions* sessions, twenty of which it shows;
"Tab" is a completion of a session's title; "python" is the interpreter that does nothing.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sessions_api import Agent

HELLO = """\
import typer

app = typer.Typer()


@app.command()
def hello() -> None:
    typer.echo("hello")


@app.command()
def goodbye() -> None:
    typer.echo("goodbye")


app()
"""
TINYAGENT = ("-c", "import sys; from sessions_api.cli import main; sys.exit(main())")
REFERENCE = "hello"


def programs(hello: Path) -> dict[str, tuple[str, ...]]:
    """Return what is started, by name, without the interpreter."""
    return {
        "python": ("-c", "pass"),
        REFERENCE: (str(hello), "hello"),
        "tinyagent --version": (*TINYAGENT, "--version"),
        "tinyagent sessions list": (*TINYAGENT, "sessions", "list"),
        "Tab": (*TINYAGENT, "tinyagent sessions show sess", ""),
    }


def started(arguments: tuple[str, ...], environment: dict[str, str], where: Path) -> list[float]:
    """Start a program, wait for its end, and return wall and CPU time in milliseconds."""
    before = os.times()
    began = time.perf_counter()
    subprocess.run(  # noqa: S603 - programs of this file's own
        [sys.executable, *arguments],
        cwd=where,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    wall = time.perf_counter() - began
    after = os.times()
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    return [wall * 1000, cpu * 1000]


def main() -> None:
    """Make a store, start everything in turn, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--sessions", type=int, default=200)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        workspace, home, hello = Path(folder, "ws"), Path(folder, "home"), Path(folder, "hello.py")
        workspace.mkdir()
        hello.write_text(HELLO, encoding="utf-8")
        with Agent(workspace, provider="offline", state_home=home) as agent:
            for number in range(given.sessions):
                agent.sessions.create(f"session {number}")
        environment = {**os.environ, "TINYAGENT_STATE_HOME": str(home), "HOME": folder}
        asked = programs(hello)
        taken: dict[str, list[list[float]]] = {name: [] for name in asked}
        for number in range(given.rounds + 1):
            for name in random.sample(list(asked), len(asked)):
                of_tab = {"_TINYAGENT_COMPLETE": "bash"} if name == "Tab" else {}
                figures = started(asked[name], environment | of_tab, workspace)
                if number:  # the first round fills the caches
                    taken[name].append(figures)
    print(f"{'':<26}{'wall ms':>9}{'CPU ms':>9}{'x wall':>9}{'x CPU':>9}")
    for name, rounds in taken.items():
        medians = [statistics.median(column) for column in zip(*rounds, strict=True)]
        ratios = [
            statistics.median(
                one[at] / floor[at] for one, floor in zip(rounds, taken[REFERENCE], strict=True)
            )
            for at in (0, 1)
        ]
        print(f"{name:<26}" + "".join(f"{one:>9.0f}" for one in medians), end="")
        print("".join(f"{one:>9.2f}" for one in ratios))


if __name__ == "__main__":
    main()
