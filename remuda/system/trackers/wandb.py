"""Send a run to Weights & Biases, or write its files to the folder ``wandb`` of the run.

WANDB_MODE=offline needs no account and no network. The other variables of W&B work as well, such
as WANDB_PROJECT and WANDB_ENTITY.
"""

import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from remuda.errors import UserError
from remuda.system.trackers.base import Link, State, Tracker, picture_name, require

EXIT_CODES: dict[State, int] = {"finished": 0, "stopped": 130, "failed": 1}


class WeightsAndBiases(Tracker):
    """Log to a W&B run, whose id stays the same after a resume."""

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.wandb = require("wandb", "wandb")
        self.run: Any = None
        self.kept: int | None = None  # the last round that W&B had when this process started
        self.reached = 0  # the last round that was logged
        mode = os.environ.get("WANDB_MODE", "online")
        if mode == "online" and not self._is_logged_in():
            raise UserError(
                "run.trackers contains wandb, but W&B has no API key: run wandb login, or set "
                "WANDB_MODE=offline, which needs no account"
            )

    def _is_logged_in(self) -> bool:
        if os.environ.get("WANDB_API_KEY"):
            return True
        try:
            return bool(self.wandb.login(prompt=False, verify=False))
        except self.wandb.errors.UsageError:
            return False

    def start(self, link: Link | None, settings: Mapping[str, Any]) -> Link:
        # W&B's console capture would redirect the output of this process.
        quiet = self.wandb.Settings(console="off", silent=True)
        old = self._offline_folders(link.id) if link else []
        self.run = self.wandb.init(
            project=os.environ.get("WANDB_PROJECT", "remuda"),
            name=self.folder.name,
            id=link.id if link else uuid.uuid4().hex[:8],
            resume="allow",
            reinit="create_new",  # the program may have W&B runs of its own
            dir=str(self.folder),
            settings=quiet,
        )
        if self.run.offline:
            # A killed run loses what W&B has not written yet, so write everything again.
            for path in set(old) - {Path(self.run.settings.sync_dir)}:
                shutil.rmtree(path)
            self.kept = 0
        elif link is not None:
            self.kept = int(self.run.summary.get("reached", 0))
        self.run.config.update(dict(settings), allow_val_change=True)
        # Steps of W&B must not decrease, but a picture may be ready after the next round.
        self.run.define_metric("round")
        self.run.define_metric("*", step_metric="round")
        return Link(id=self.run.id, place=self._place())

    def _offline_folders(self, run_id: str) -> list[Path]:
        return list((self.folder.resolve() / "wandb").glob(f"offline-run-*-{run_id}"))

    def _place(self) -> str:
        if not self.run.offline:
            return str(self.run.url)
        return f"wandb/{Path(self.run.settings.sync_dir).name}"

    def rewind(self, reached: int) -> int | None:
        kept, self.kept = self.kept, None
        return kept

    def log(self, t: int, values: Mapping[str, float]) -> None:
        self.reached = max(self.reached, t)
        self.run.log({"round": t, "reached": self.reached, **values})

    def picture(self, t: int, path: Path) -> None:
        self.run.log({"round": t, picture_name(path): self.wandb.Image(str(path))})

    def end(self, state: State) -> None:
        self.run.summary["state"] = state
        self.run.finish(exit_code=EXIT_CODES[state])
