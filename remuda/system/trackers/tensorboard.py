"""Write TensorBoard's event files to the folder ``tensorboard`` of the run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from remuda.system.trackers.base import Link, State, Tracker, flat, picture_name, require

FOLDER = "tensorboard"


class TensorBoard(Tracker):
    """Write scalars, pictures, settings and the final state. No service is needed."""

    def __init__(self, folder: Path):
        super().__init__(folder)
        require("tensorboard", "tensorboard")
        self.writer: Any = None
        self.settings: Mapping[str, Any] = {}
        self.last = 0  # the last round that was written

    def start(self, link: Link | None, settings: Mapping[str, Any]) -> Link:
        self.settings = settings
        return Link(id=self.folder.name, place=FOLDER)

    def rewind(self, reached: int) -> int:
        from torch.utils.tensorboard import SummaryWriter

        if self.writer is not None:
            self.writer.close()
        # TensorBoard hides earlier events from purge_step on.
        self.writer = SummaryWriter(str(self.folder / FOLDER), purge_step=reached + 1)
        self.last = reached
        self._write_settings()
        return reached

    def _write_settings(self) -> None:
        """Write the settings as a table of text, and as the hyper-parameters of the run."""
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb

        settings = flat(self.settings)
        rows = [f"| `{key}` | `{value!r}` |" for key, value in settings.items()]
        self._write_text("settings", "\n".join(["| setting | value |", "|---|---|", *rows]))
        # TensorBoard compares numbers, truth values and texts.
        plain = {
            key: value if isinstance(value, bool | int | float) else str(value)
            for key, value in settings.items()
        }
        self.writer.file_writer.add_summary(hparams_pb(plain, trial_id=self.folder.name))
        self.writer.flush()

    def log(self, t: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, t)
        self.last = max(self.last, t)
        self.writer.flush()  # a killed run cannot flush

    def picture(self, t: int, path: Path) -> None:
        import numpy as np
        from PIL import Image

        with Image.open(path) as image:
            pixels = np.array(image.convert("RGB"))  # (height, width, 3)
        self.writer.add_image(picture_name(path), pixels, t, dataformats="HWC")
        self.writer.flush()

    def end(self, state: State) -> None:
        self._write_text("state", state)
        self.writer.close()

    def _write_text(self, name: str, text: str) -> None:
        self.writer.add_text(name, text, self.last)
        self.writer.flush()
