"""The bytes by which ranks tell the launcher, on stderr, how far they have come.

A marker is one byte: however the output of several ranks interleaves, nothing can tear it apart. A
newline follows it, because mpirun holds a line back until it is complete.
"""

MPI_STARTED = b"\x02"
COMMAND_SUCCEEDED = b"\x03"
