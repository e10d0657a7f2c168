from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_example_in_the_readme_prints_what_it_says(tmp_path: Path) -> None:
    """Run as written, in an empty folder; the block after it is its output."""
    blocks = re.findall(r"```(?:python)?\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", blocks[0]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == blocks[1]
    assert done.stderr == ""
