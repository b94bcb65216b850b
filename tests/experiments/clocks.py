"""A clock for tests of predictions."""


class Clock:
    """A clock that only advances by the costs of the work that a test defines."""

    def __init__(self):
        self.seconds = 0.0

    def spend(self, seconds):
        self.seconds += seconds

    def perf_counter(self):
        return self.seconds
