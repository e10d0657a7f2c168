"""Programs that close descriptors which are not theirs, as daemons do, and what is theirs then."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path
    from types import SimpleNamespace

# Close everything, and open so many files that all numbers are taken again; with few open files
# the journal's have low ones.
PROGRAM = """
import os, pathlib, sys, run_journal
root, workspace_id, session_id, how = sys.argv[1:]
logs = pathlib.Path(root) / "logs"
journal = run_journal.Journal(logs, workspace_id=workspace_id, max_open_files=4)
event = run_journal.SessionRenamed(session_id=session_id)
assert journal.write(event)
if how == "fork" and os.fork():
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
os.closerange(3, 256)
others = [os.open(f"{root}/other-{n}", os.O_RDWR | os.O_CREAT, 0o600) for n in range(9)]
if how == "close":
    journal.close()
elif how == "delete":
    assert journal.delete(session_id)
else:
    assert journal.write(event).seq == 2
    assert journal.verify(session_id).ok
assert [os.fstat(other).st_size for other in others] == [0] * 9
assert journal.failed_count == 0
"""


@pytest.mark.parametrize("how", ["write", "fork", "close", "delete"])
def test_another_files_descriptor_is_neither_written_to_nor_closed(
    tmp_path: Path, ids: SimpleNamespace, how: str
) -> None:
    """The line goes to the journal all the same, and the file that got the number keeps it."""
    arguments = [tmp_path, ids.workspace, ids.session, how]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
