"""The bytes that ranks write to stderr to tell the launcher how far they have come.

A marker is a single byte, so it stays intact when the output of several ranks is interleaved. A
newline follows it, because mpirun forwards only complete lines.
"""

MPI_STARTED = b"\x02"
ROOT_ALIVE = b"\x04"  # rank 0 writes it every few seconds
ROOT_LOST = b"\x05"  # a rank has ended because rank 0 was lost
# Rank 0, or a rank that crashes, writes the last marker of a job. It depends on the exit status:
# success, a crash, an error that the user can fix, a stop by lost ranks, a stop by the user.
ENDED = {0: b"\x0e", 1: b"\x0f", 2: b"\x10", 75: b"\x11", 130: b"\x12"}

ALL = (MPI_STARTED, ROOT_ALIVE, ROOT_LOST, *ENDED.values())

# On stdout, rank 0 starts the lines about its progress with this character. The launcher shows them
# as a bar (remuda.cli.relay).
PROGRESS = "\x1e"
