"""Decide whether a run ends before its last round. Only rank 0 does this."""

from dataclasses import asdict
from pathlib import Path

from remuda.config import RunConfig
from remuda.errors import resume_command
from remuda.record import Record
from remuda.record.endings import Ending, ending, num_stale
from remuda.system.background import Background
from remuda.training.pace import is_due


class Stopping:
    """Adds up the time of the rounds, and watches the score of ``run.keep_best``."""

    def __init__(self, record: Record, scoring: Background):
        self.record = record
        self.scoring = scoring  # writes the scores
        self.seconds = 0.0  # of all rounds so far

    def begin(self, config: RunConfig, reached: int) -> Ending | None:
        """Return why the run has ended with the round that it has reached, or None."""
        self.seconds = sum(line["seconds"] for line in self.record.iterate_rounds())
        return self._find(config, reached)

    def round(self, config: RunConfig, t: int, seconds: float) -> Ending | None:
        """Return why the run ends with round t, which took some seconds, or None."""
        self.seconds += seconds
        has_news = is_due(t - 1, config.scores.every, is_last=False)
        return self._find(config, t, has_news)

    def _find(self, config: RunConfig, t: int, has_news: bool = True) -> Ending | None:
        run, scores = config.run, []
        if t >= run.rounds:
            return None
        if run.patience and has_news:
            scores = self.record.training_scores()
            # Wait for a score only if it may end the run. So the last round does not depend on the
            # time that scoring takes.
            if num_stale(scores, run.keep_best, t) + 1 >= run.patience:
                self.scoring.wait()
                scores = self.record.training_scores()
        return ending(asdict(run), scores, t, self.seconds)


def nothing_left(folder: Path, reached: int, end: Ending | None) -> str:
    """Return a message for the user who resumes a run that has ended."""
    if end is None:
        return (
            f"{folder} has reached its last round, {reached}: nothing is left to train; to train "
            "longer, use remuda resume with a larger --rounds"
        )
    return (
        f"{folder} {end.why}, with round {reached}: nothing is left to train; to train longer, run "
        f"{resume_command(folder)} --set {end.remedy}"
    )
