"""What importing the package does, and what it does where files cannot be locked: nothing."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import TYPE_CHECKING

import loguru

from run_journal import Journal, SessionRenamed

if TYPE_CHECKING:
    from pathlib import Path
    from types import SimpleNamespace


def _python(code: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_importing_the_package_does_nothing(tmp_path: Path) -> None:
    """No handler, thread, signal, hook, file or child, and no loguru: an import is only that."""
    code = (
        "import json, logging, os, signal, sys, threading, warnings\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, arguments: opened.append(str(arguments[0]))\n"
        "    if event == 'open' and (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR) else None)\n"
        "def state():\n"
        "    return [logging.root.level, logging.root.handlers, logging.raiseExceptions,\n"
        "        sorted(logging.root.manager.loggerDict), threading.active_count(),\n"
        "        [str(signal.getsignal(n)) for n in range(1, 32)], sys.excepthook.__module__,\n"
        "        threading.excepthook.__module__, len(warnings.filters), sorted(os.environ),\n"
        "        os.getcwd(), sys.getrecursionlimit()]\n"
        "before = json.dumps(state())\n"
        "import run_journal\n"
        "assert json.dumps(state()) == before\n"
        "assert 'loguru' not in sys.modules and 'fcntl' not in sys.modules\n"
        "print([path for path in opened if '__pycache__' not in path])\n"
    )
    assert _python(code) == "[]\n"
    assert list(tmp_path.iterdir()) == []


def test_a_journal_leaves_loguru_and_logging_as_they_were(
    directory: Path, ids: SimpleNamespace
) -> None:
    """Handlers, levels, patcher, extra, activations: before, while and after; logging as well."""

    def state() -> list[object]:
        core = vars(loguru.logger)["_core"]
        return [
            *(dict(vars(core)[name]) for name in ("handlers", "levels", "extra", "enabled")),
            *(vars(core)[name] for name in ("patcher", "activation_none", "min_level")),
            list(core.activation_list),
            (logging.root.level, list(logging.root.handlers), logging.root.disabled),
            sorted(logging.root.manager.loggerDict),
        ]

    before = state()
    with Journal(directory, workspace_id=ids.workspace) as journal:
        assert journal.write(SessionRenamed(session_id=ids.session)) is not None
        assert state() == before
    assert state() == before


def test_the_standard_logging_gets_nothing_from_a_journal(
    directory: Path, ids: SimpleNamespace
) -> None:
    """Not a line of ours reaches a root logger that listens to everything."""
    records: list[logging.LogRecord] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler, level = Keeping(level=0), logging.root.level
    logging.root.addHandler(handler)
    logging.root.setLevel(0)
    try:
        with Journal(directory, workspace_id=ids.workspace) as journal:
            assert journal.write(SessionRenamed(session_id=ids.session)) is not None
            logging.getLogger("application").info("its own")
    finally:
        logging.root.removeHandler(handler)
        logging.root.setLevel(level)
    assert [record.getMessage() for record in records] == ["its own"]


def test_where_files_cannot_be_locked_journals_are_read_and_not_written(
    journal: Journal, ids: SimpleNamespace
) -> None:
    """A system without `fcntl`, such as Windows: importing and reading work, writing says why."""
    journal.write(SessionRenamed(session_id=ids.session))
    code = (
        "import os, pathlib, signal, sys\n"
        "sys.modules['fcntl'] = None\n"
        "for name in ('O_NOFOLLOW', 'O_CLOEXEC', 'O_NONBLOCK', 'O_NOCTTY'):\n"
        "    delattr(os, name)\n"
        "del signal.SIGHUP\n"
        "import run_journal\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "assert len(list(run_journal.read(path))) == 1 and run_journal.verify(path).ok\n"
        "assert len(list(run_journal.follow(path, stop=lambda: True))) == 1\n"
        "with run_journal.Uninterrupted():\n"
        "    pass\n"
        "try:\n"
        "    run_journal.Journal(path.parent, workspace_id=sys.argv[2])\n"
        "except run_journal.JournalUnavailable as error:\n"
        "    print(error.reason, error.hint, sep='\\n')\n"
    )
    reason, hint = _python(code, journal.path_for(ids.session), ids.workspace).splitlines()
    assert "flock" in reason
    assert "Linux" in hint
    assert "WSL" in hint
