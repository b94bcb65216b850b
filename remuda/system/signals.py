"""The signals that ask a run to stop."""

import signal

# Ctrl-C, and the signals that batch systems send first or can be told to send.
# mpirun passes only the last one on to its ranks.
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
