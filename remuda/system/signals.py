"""The signals that ask a run to stop."""

import signal

# Ctrl-C, the signal that batch systems send before they kill a job, and one that they can be told
# to send. mpirun forwards only the last one to its ranks.
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
