"""Define the signals that ask a run to stop."""

import signal

# These are Ctrl-C, the signal that batch systems send before they kill a job, and a signal that
# users can tell a batch system to send. mpirun forwards only the last one to its ranks.
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
