"""An answer that grows on a terminal: its settled blocks for good, the last one live.

Owns the terminal's last lines while an answer is streamed. Invariants: what is settled is written
once and scrolls like any text; only the lines of the unsettled end are written over, never more
than fit on the screen, so nothing that scrolled away is lost or written twice; each picture is one
write that clears nothing before it is replaced, so nothing flickers.

A thread of its own writes, so that a burst of pieces is one picture, the last piece is seen though
no other follows, and Ctrl-C, which strikes the main thread, never leaves half a picture.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

_PICTURE_S = 0.04
_NARROWEST = 40
_LOWEST = 6
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
_CLEAR_LINE, _CLEAR_BELOW = "\x1b[K", "\x1b[J"


class LiveAnswer:
    """Answers on the terminal of *stream*, one after the other. One thread feeds it.

    What is fed must be safe for a terminal. `feed` and `finish` raise OSError when the terminal
    could not be written.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._painter: _Painter | None = None

    @property
    def fits(self) -> bool:
        """Whether an answer is under way, or the terminal is large enough to begin one."""
        columns, rows = _size(self._stream)
        return self._painter is not None or (columns >= _NARROWEST and rows >= _LOWEST)

    def feed(self, text: str) -> None:
        """Show *text* behind what was fed before."""
        if self._painter is None:
            self._painter = _Painter(self._stream)
            self._painter.start()
        self._painter.feed(text)

    def finish(self) -> None:
        """Write what is not settled yet for good; what is fed next is another answer."""
        painter = self._painter
        if painter is not None:
            painter.finish()
            self._painter = None
            painter.raise_failure()

    def drop(self) -> None:
        """Forget the answer that is under way; its terminal is gone."""
        self._painter = None


class _Painter(threading.Thread):
    """One answer. `_shown` are the live lines that stand above the cursor."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(name="answer", daemon=True)
        self._stream = stream
        self._pieces: list[str] = []
        self._woken = threading.Event()
        self._last = threading.Event()
        self._failure: OSError | None = None
        self._unsettled = ""
        self._shown: list[str] = []
        self._began = False

    def feed(self, text: str) -> None:
        self.raise_failure()
        self._pieces.append(text)
        self._woken.set()

    def finish(self) -> None:
        self._last.set()
        self._woken.set()
        self.join()

    def raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def run(self) -> None:
        """Paint until the last picture is painted."""
        try:
            while not self._last.is_set():
                self._woken.wait()
                self._woken.clear()
                self._take()
                if not self._last.is_set():
                    self._paint_growing()
                self._last.wait(_PICTURE_S)
            self._take()
            self._paint_whole()
        except OSError as error:
            self._failure = error
        except ValueError as error:  # the stream was closed
            self._failure = OSError(str(error))

    def _take(self) -> None:
        count = len(self._pieces)
        self._unsettled += "".join(self._pieces[:count])
        del self._pieces[:count]

    def _paint_growing(self) -> None:
        from sessions_api.chat.rendering import (  # noqa: PLC0415 - 0.1 s, for the first answer
            end_of,
            rendered,
            settled_length,
        )

        columns, rows = _size(self._stream)
        settled = settled_length(self._unsettled)
        ready, self._unsettled = self._unsettled[:settled], self._unsettled[settled:]
        room = max(1, rows - 2)
        live = rendered(end_of(self._unsettled, rows), columns)[-room:]
        self._paint(self._for_good(ready, columns), ["", *live] if self._began else live)

    def _paint_whole(self) -> None:
        columns, _ = _size(self._stream)
        text, self._unsettled = self._unsettled, ""
        self._paint(self._for_good(text, columns), [])

    def _for_good(self, text: str, columns: int) -> list[str]:
        """Return the lines of settled blocks, with an empty one between them and those before."""
        from sessions_api.chat.rendering import rendered  # noqa: PLC0415 - see above

        lines = rendered(text, columns)
        if lines and self._began:
            lines.insert(0, "")
        self._began = self._began or bool(lines)
        return lines

    def _paint(self, settled: list[str], live: list[str]) -> None:
        """Write *settled* and *live* over the live lines, in one write."""
        if not settled and live == self._shown:
            return
        lines = [*settled, *live]
        same = 0
        while same < min(len(lines), len(self._shown)) and lines[same] == self._shown[same]:
            same += 1
        up = len(self._shown) - same
        picture = f"\r\x1b[{up}A" if up else "\r"
        picture += "".join(f"{line}{_CLEAR_LINE}\n" for line in settled[same:])
        picture += _NO_WRAP
        picture += "".join(f"{line}{_CLEAR_LINE}\n" for line in live[max(0, same - len(settled)) :])
        picture += _WRAP + _CLEAR_BELOW
        self._shown = live
        self._stream.write(picture)
        self._stream.flush()


def _size(stream: TextIO) -> tuple[int, int]:
    size = os.terminal_size((80, 24))
    with suppress(OSError, ValueError):
        size = os.get_terminal_size(stream.fileno())
    return size.columns or 80, size.lines or 24
