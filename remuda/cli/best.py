"""Follow the best score of a run while it trains."""

from pathlib import Path

from remuda.errors import UserError
from remuda.record import endings
from remuda.record.reader import Reader
from remuda.scores.directions import direction
from remuda.system import look


class BestScore:
    """The best score so far: by run.keep_best, otherwise by the first score with a direction."""

    def __init__(self, folder: Path):
        self.folder, self._text = folder, ""
        self._seen: tuple[int, int] | None = None  # time and size of scores.jsonl

    def read(self) -> str:
        """Return the best score in words, such as ``best fid 12.3``, or an empty string."""
        try:
            found = (self.folder / "scores.jsonl").stat()
        except OSError:
            self._seen, self._text = None, ""
            return ""
        now = found.st_mtime_ns, found.st_size
        if now != self._seen:
            self._seen, self._text = now, self._find()
        return self._text

    def _find(self) -> str:
        try:
            reader = Reader.open(self.folder)
            scores = reader.training_scores()
            name = reader.chosen_score
        except (OSError, UserError):  # written at this moment, or damaged: status reports it
            return self._text
        if not name:
            names = (score.name for score in scores if direction(score.name, score.better))
            name = next(names, "")
        ranked = endings.ranking(scores, name)
        if not ranked:
            return ""
        return f"best {ranked[0].name.partition('_')[0]} {look.number(ranked[0].value)}"
