"""Forked children of a job, and what they say until they end or are killed.

Owns the pipes. A store is met in children alone, so that the process that forks them has one thread
and nothing open. Invariant: a line that a child wrote before it was killed reaches the parent, and
one that was cut by the kill is not taken for a line; no child holds a pipe of another one open, so
that the end of a child is the end of its lines.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

Say = Callable[..., None]
Listen = Callable[[], Any]
Work = Callable[[Say, Listen], None]
PIPE_READ_BYTES = 1 << 20


class Children:
    """The children of this process. For a process with one thread and no open store."""

    def __init__(self) -> None:
        self._living: set[Child] = set()

    def fork(self, work: Work) -> Child:
        """Start a child that calls ``work(say, listen)`` and ends.

        *say* sends a fact (values that JSON knows) to the parent; *listen* waits for the next
        `tell` and returns what was told.
        """
        facts_end, say_end = os.pipe()
        listen_end, tell_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            for sibling in self._living:
                sibling.close()
            os.close(facts_end)
            os.close(tell_end)
            _live(work, say_end, listen_end)
        os.close(say_end)
        os.close(listen_end)
        child = Child(pid, facts_end, tell_end)
        self._living.add(child)
        return child

    def kill(self, child: Child) -> None:
        """Kill *child* at this instant and take in what it had said."""
        os.kill(child.pid, signal.SIGKILL)
        status = self.wait(child)
        assert os.WIFSIGNALED(status), f"a child failed before it was killed ({status})"

    def stop(self, child: Child) -> None:
        """Stop *child*, which has stopped when this returns: the signal alone takes its time."""
        os.kill(child.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)

    def finish(self, child: Child) -> None:
        """Wait until *child* ends by itself, which has to be in good order."""
        status = self.wait(child)
        assert status == 0, f"a child ended with {status}; the last it said is {child.facts[-1:]}"

    def ask(self, work: Work) -> list[list[Any]]:
        """Let a child do *work* from beginning to end and return its facts."""
        child = self.fork(work)
        self.finish(child)
        return child.facts

    def hear(self) -> None:
        """Take in all that any child has said by now. Never waits."""
        for child in self._living:
            child.hear()

    def wait(self, child: Child) -> int:
        """Wait until *child* ends, in whatever way; return its status, as `os.waitpid` gives it."""
        child.hear_to_the_end()
        status = os.waitpid(child.pid, 0)[1]
        child.close()
        self._living.discard(child)
        return status


class Child:
    """One forked process, as its parent sees it. `facts` is what it has said so far."""

    def __init__(self, pid: int, facts_end: int, tell_end: int) -> None:
        self.pid = pid
        self.facts: list[list[Any]] = []
        self._facts_end = facts_end
        self._tell_end = tell_end
        self._rest = b""
        os.set_blocking(facts_end, False)

    def hear(self) -> bool:
        """Take in what has been said by now; False when nothing can come any more."""
        while True:
            try:
                data = os.read(self._facts_end, PIPE_READ_BYTES)
            except BlockingIOError:
                return True
            if not data:
                return False
            *lines, self._rest = (self._rest + data).split(b"\n")
            self.facts += [json.loads(line) for line in lines]

    def wait_for(self, fact_count: int) -> None:
        """Wait until there are *fact_count* facts. AssertionError when the child ends before."""
        while len(self.facts) < fact_count:
            select.select([self._facts_end], [], [])
            going_on = self.hear()
            assert going_on or len(self.facts) >= fact_count, "a child ended too early"

    def hear_to_the_end(self) -> None:
        """Take in what is said until the child has ended."""
        while self.hear():
            select.select([self._facts_end], [], [])

    def tell(self, what: Any = None) -> None:
        """Let the child's *listen* return *what*, once."""
        os.write(self._tell_end, json.dumps(what).encode() + b"\n")

    def close(self) -> None:
        """Close this process's ends of the pipes."""
        os.close(self._facts_end)
        os.close(self._tell_end)


def _live(work: Work, say_end: int, listen_end: int) -> NoReturn:
    """Be the child: work, say why it failed if it did, and end without the parent's clean-up."""
    status = 1
    try:

        def say(*fact: Any) -> None:
            os.write(say_end, json.dumps(fact).encode() + b"\n")

        with os.fdopen(listen_end, "rb") as told:

            def listen() -> Any:
                return json.loads(told.readline() or b"null")

            work(say, listen)
        status = 0
    except BaseException:  # noqa: BLE001 - whatever it was, the parent's code must not run here
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)
