"""Show runs in trackers, which are programs or services outside of remuda.

``run.trackers`` names the trackers of a run. ``remuda.training.tracking`` sends the run to them.
"""

from remuda.system.choices import Choices
from remuda.system.trackers.base import Link, State, Tracker

__all__ = ["TRACKERS", "Link", "State", "Tracker"]

TRACKERS: Choices[type[Tracker]] = Choices(
    {
        "tensorboard": "remuda.system.trackers.tensorboard:TensorBoard",
        "wandb": "remuda.system.trackers.wandb:WeightsAndBiases",
        "mlflow": "remuda.system.trackers.mlflow:MLflow",
    }
)
