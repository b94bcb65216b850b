"""Send a run to MLflow, or write it to a database in the folder ``mlflow`` of the run.

MLFLOW_TRACKING_URI names a server or another database, and MLFLOW_EXPERIMENT_NAME an experiment.
"""

import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from remuda.system.trackers.base import Link, State, Tracker, flat, picture_name, require

FOLDER = "mlflow"
STATES: dict[State, str] = {"finished": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
# MLflow accepts at most this many parameters and metrics in one call, and characters in a value.
MOST_PARAMS, MOST_METRICS, MOST_CHARACTERS = 100, 1000, 500


class MLflow(Tracker):
    """Log to an MLflow run, whose id stays the same after a resume."""

    def __init__(self, folder: Path):
        super().__init__(folder)
        for module in ("mlflow", "sqlalchemy", "alembic"):
            require(module, "mlflow")
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param

        self.Client, self.Metric, self.Param = MlflowClient, Metric, Param
        for name in ("mlflow", "alembic"):  # they print messages about new databases
            logging.getLogger(name).setLevel(logging.WARNING)
        self.client: Any = None
        self.run_id = ""

    def start(self, link: Link | None, settings: Mapping[str, Any]) -> Link:
        given = os.environ.get("MLFLOW_TRACKING_URI")
        local = self.folder.resolve() / FOLDER
        if not given:
            local.mkdir(exist_ok=True)
        self.client = self.Client(tracking_uri=given or f"sqlite:///{local / 'mlflow.db'}")
        if link is not None:
            self.run_id = link.id
            self.client.update_run(self.run_id, status="RUNNING")
        else:
            artifacts = None if given else (local / "artifacts").as_uri()
            self.run_id = self._create_run(settings, artifacts)
        # MLflow's parameters cannot change, but a resume may have other settings.
        self.client.log_artifact(self.run_id, str(self.folder / "config.toml"))
        return Link(id=self.run_id, place=self._place(given))

    def _create_run(self, settings: Mapping[str, Any], artifacts: str | None) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "remuda")
        experiment = self.client.get_experiment_by_name(name)
        if experiment is None:
            number = self.client.create_experiment(name, artifact_location=artifacts)
        else:
            number = experiment.experiment_id
        run_id = self.client.create_run(number, run_name=self.folder.name).info.run_id
        texts = {key: str(value)[:MOST_CHARACTERS] for key, value in flat(settings).items()}
        params = [self.Param(key, text) for key, text in texts.items()]
        for i in range(0, len(params), MOST_PARAMS):
            self.client.log_batch(run_id, params=params[i : i + MOST_PARAMS])
        return run_id

    def _place(self, given: str | None) -> str:
        if not given:
            return f"{FOLDER}/mlflow.db"
        if not given.startswith("http"):
            return given
        number = self.client.get_run(self.run_id).info.experiment_id
        return f"{given.rstrip('/')}/#/experiments/{number}/runs/{self.run_id}"

    def log(self, t: int, values: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)  # milliseconds
        metrics = [self.Metric(name, value, now, t) for name, value in values.items()]
        for i in range(0, len(metrics), MOST_METRICS):
            self.client.log_batch(self.run_id, metrics=metrics[i : i + MOST_METRICS])

    def picture(self, t: int, path: Path) -> None:
        self.client.log_artifact(self.run_id, str(path), picture_name(path))

    def end(self, state: State) -> None:
        self.client.set_terminated(self.run_id, STATES[state])
