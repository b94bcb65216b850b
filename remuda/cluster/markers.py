"""The bytes that ranks write to stderr to tell the launcher how far they have come.

A marker is a single byte, so it stays intact when the output of several ranks is interleaved. A
newline follows it, because mpirun forwards only complete lines.
"""

MPI_STARTED = b"\x02"
COMMAND_SUCCEEDED = b"\x03"
