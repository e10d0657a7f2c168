"""The contract with loguru's private constructors, and with the application's logger."""

from __future__ import annotations

import contextlib
import inspect
import subprocess
import sys
from typing import TYPE_CHECKING

import loguru
import pytest
from loguru._logger import Core, Logger

from run_journal import Journal, SessionRenamed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import SimpleNamespace


def _leave_alone(record: loguru.Record) -> None:
    """Patch nothing: loguru has no way to take a patcher back."""


@pytest.fixture
def application_log() -> Iterator[list[str]]:
    """Return what a handler of the application receives while the test runs."""
    seen: list[str] = []
    handler = loguru.logger.add(seen.append, format="{message}", level=0)
    yield seen
    with contextlib.suppress(ValueError):
        loguru.logger.remove(handler)
    loguru.logger.configure(patcher=_leave_alone)


def test_loguru_still_has_the_constructors_that_we_use() -> None:
    """The contract: these names and arguments; the version is capped for the same reason."""
    make_core: Callable[[], object] = Core
    assert not inspect.signature(Core).parameters
    assert list(inspect.signature(Logger).parameters) == [
        "core",
        "exception",
        "depth",
        "record",
        "lazy",
        "colors",
        "raw",
        "capture",
        "patchers",
        "extra",
    ]
    assert {"handlers", "patcher", "extra", "activation_list"} <= set(vars(make_core()))


def test_the_applications_handlers_see_nothing_and_lose_nothing(
    journal: Journal, ids: SimpleNamespace, application_log: list[str]
) -> None:
    """Our lines go to our file alone, the application's lines to its handlers alone."""
    loguru.logger.info("before")
    assert journal.write(SessionRenamed(session_id=ids.session)) is not None
    loguru.logger.info("after")
    assert application_log == ["before\n", "after\n"]
    assert journal.path_for(ids.session).read_bytes().count(b"\n") == 1


def test_the_application_cannot_drop_mute_or_rewrite_our_lines(
    journal: Journal, ids: SimpleNamespace, application_log: list[str]
) -> None:
    """`remove()`, `disable()`, a patcher and a context of the application do not reach us."""

    def spoil(record: loguru.Record) -> None:
        record["message"] = "spoiled"

    loguru.logger.configure(patcher=spoil)
    loguru.logger.disable("run_journal")
    try:
        with loguru.logger.contextualize(run_journal_delivery="spoiled"):
            assert journal.write(SessionRenamed(session_id=ids.session)) is not None
        loguru.logger.remove()
        assert journal.write(SessionRenamed(session_id=ids.session)) is not None
    finally:
        loguru.logger.enable("run_journal")
    assert journal.verify(ids.session).ok
    assert journal.verify(ids.session).line_count == 2


def test_importing_and_reading_do_without_loguru(journal: Journal, ids: SimpleNamespace) -> None:
    """Only making a `Journal` imports loguru, which costs more than all the rest."""
    journal.write(SessionRenamed(session_id=ids.session))
    code = (
        "import sys, pathlib, run_journal\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "assert len(list(run_journal.read(path))) == 1 and run_journal.verify(path).ok\n"
        "assert 'loguru' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code, journal.path_for(ids.session)], check=True)


def test_loguru_settings_in_the_environment_change_nothing(
    tmp_path: Path, ids: SimpleNamespace
) -> None:
    """LOGURU_… variables set the defaults of handlers; ours leave nothing to defaults."""
    code = (
        "import sys, pathlib, run_journal\n"
        "journal = run_journal.Journal(pathlib.Path(sys.argv[1]), workspace_id=sys.argv[2])\n"
        "assert journal.write(run_journal.SessionRenamed(session_id=sys.argv[3]))\n"
        "assert journal.verify(sys.argv[3]).ok\n"
    )
    environment = {
        "LOGURU_LEVEL": "CRITICAL",
        "LOGURU_FORMAT": "spoiled",
        "LOGURU_FILTER": "nobody",
        "LOGURU_SERIALIZE": "YES",
        "LOGURU_ENQUEUE": "YES",
        "LOGURU_CATCH": "YES",
        "LOGURU_DIAGNOSE": "YES",
    }
    arguments = [tmp_path / "logs", ids.workspace, ids.session]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
