"""The decision table as people read it: what the document says is what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from workspace_identity import Verdict
from workspace_identity.table import TABLE, rendered_table

DOCUMENT = Path(__file__).parents[3] / "docs" / "identity.md"


@pytest.mark.skipif(not DOCUMENT.exists(), reason="docs/ is in the repository, not in the sdist")
def test_the_table_in_the_document_is_that_of_the_code() -> None:
    """Rendered from the rows that `decide` takes its verdicts from, and found word for word."""
    text = DOCUMENT.read_text(encoding="utf-8")
    first = text.index("| # |")
    last = text.index("\n\n", first)
    assert text[first:last] + "\n" == rendered_table()


def test_the_rows_are_numbered_and_every_verdict_has_one() -> None:
    """Fourteen rows, looked at in order; no verdict is out of reach."""
    assert list(TABLE) == list(range(1, 15))
    assert {row.verdict for row in TABLE.values()} == set(Verdict)


def test_a_row_that_gives_an_id_away_or_doubts_it_tells_people() -> None:
    """A kept history at another place, or an empty one where there may be more, is never silent."""
    silent = {row.number for row in TABLE.values() if not row.notice}
    assert silent == {1, 2, 4, 6, 7, 8, 9, 10, 14}
