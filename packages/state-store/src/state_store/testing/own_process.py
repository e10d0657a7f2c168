"""A job in a process of its own, whose children it may fork and kill as it likes.

The process is a fresh interpreter with one thread and nothing open, because a fork beside threads
or open databases tests something else. Invariant: what a job is given and what it returns is JSON;
what it raises is shown whole by `JobFailed`.

Source of the fork rules: SQLite, "How To Corrupt An SQLite Database File"; POSIX, fork.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from state_store.testing.address import StoreAddress, named

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PROGRAM = "from state_store.testing.own_process import main; main()"


class JobFailed(AssertionError):
    """The job raised; its output is the message."""


def run_in_own_process(
    job: Callable[..., Any],
    addresses: Sequence[StoreAddress],
    *,
    timeout_s: float,
    **parameters: Any,
) -> dict[str, Any]:
    """Call *job*, a function of a module, with *addresses* and *parameters*; return its answer."""
    task = {
        "job": f"{job.__module__}:{job.__name__}",
        "addresses": [asdict(address) for address in addresses],
        "parameters": parameters,
    }
    paths = os.pathsep.join(path for path in sys.path if path)
    # Its children share its group, so that a job that is given up leaves none of them behind.
    with subprocess.Popen(  # noqa: S603 - this interpreter
        [sys.executable, "-W", "error", "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        process_group=0,
    ) as process:
        try:
            output, _ = process.communicate(json.dumps(task), timeout=timeout_s)
        finally:
            _end_group(process.pid)
    if process.returncode != 0:
        raise JobFailed(f"{task['job']} with {parameters} failed:\n{output}")
    answer: dict[str, Any] = json.loads(output.splitlines()[-1])
    return answer


def main() -> None:
    """Do the job that standard input describes."""
    task = json.load(sys.stdin)
    addresses = [StoreAddress(**address) for address in task["addresses"]]
    answer = named(task["job"])(addresses, **task["parameters"])
    print(json.dumps(answer))  # noqa: T201 - the answer to the process that started this one


def _end_group(group: int) -> None:
    try:
        os.killpg(group, 9)
    except ProcessLookupError:
        return  # every one of them has ended by itself
