"""The shape of a workspace id: the lower-case canonical text of a version-4 UUID (RFC 9562).

Ids become names of directories, so the shape is a regular expression and nothing more lenient:
`uuid.UUID()` also takes braces, `urn:`, plus signs, full-width digits and the nil UUID.
"""

from __future__ import annotations

import re

WORKSPACE_ID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def is_workspace_id(text: str) -> bool:
    """Say whether *text* is exactly one workspace id."""
    return WORKSPACE_ID.fullmatch(text.encode("utf-8", "surrogatepass")) is not None


def new_workspace_id() -> str:
    """Return a fresh random id."""
    from uuid import uuid4  # noqa: PLC0415 - a usual open needs no new id

    return str(uuid4())
