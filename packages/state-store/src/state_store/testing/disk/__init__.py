"""A disk that loses power or fails, for tests of whatever stores through apsw.

`PowerRecorder` writes down what SQLite and Python do to a directory, so that `images_of` can make
the files that a power loss at any point of it would leave. `FailingDisk` lets the n-th operation
fail. Both stand between SQLite and the system (an apsw VFS that is the default while they are
active) and between Python and the system (the functions of `os` that change directories), so
the code under test runs unchanged. Not for several threads.
"""

from state_store.testing.disk.failing import FAULTS, FailingDisk, Fault
from state_store.testing.disk.power import Acknowledgement, Image, PowerRecorder, Record, images_of

__all__ = [
    "FAULTS",
    "Acknowledgement",
    "FailingDisk",
    "Fault",
    "Image",
    "PowerRecorder",
    "Record",
    "images_of",
]
