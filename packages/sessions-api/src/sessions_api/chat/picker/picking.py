"""Choosing a session on the whole screen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TextIO

    from sessions_api.chat.picker.places import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """What came of it: the session that was taken, and those that were deleted on the way.

    `root` is the directory of the workspace that the session is in, None for this one.
    """

    session_id: str | None
    root: Path | None
    deleted: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picker:
    """Lets the person at the terminal of `output` choose a session, first among those of `here`."""

    output: TextIO
    here: Place

    def pick(self) -> Picked:
        """Return the choice; KeyboardInterrupt on Ctrl-C."""
        # prompt_toolkit costs a quarter of a second.
        from sessions_api.chat.picker.mode import Picking  # noqa: PLC0415 - see above
        from sessions_api.chat.picker.screen import PickerScreen  # noqa: PLC0415 - see above
        from sessions_api.chat.terminal import terminal_output  # noqa: PLC0415 - see above

        picking = Picking()
        PickerScreen(picking, self.here, output=terminal_output(self.output)).run()
        chosen = picking.chosen
        return Picked(
            session_id=None if chosen is None else chosen.session.id,
            root=None if chosen is None else chosen.place.root,
            deleted=frozenset(picking.deleted),
        )
