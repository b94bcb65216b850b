"""Read back what trackers have received, with each tracker's own tools."""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from remuda.record import Record


@dataclass
class Seen:
    """What a tracker has received."""

    settings: dict = field(default_factory=dict)  # or the text that shows them
    values: dict = field(default_factory=dict)  # name: list of (round, value)
    pictures: list = field(default_factory=list)  # rounds
    state: str = ""
    ids: set = field(default_factory=set)
    parameters: dict = field(default_factory=dict)  # hyper-parameters of TensorBoard


def from_tensorboard(folder: Path, shown: str = "samples") -> Seen:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    events = EventAccumulator(str(folder / "tensorboard"), {"tensors": 0, "images": 0}).Reload()
    texts = {
        tag.partition("/")[0]: events.Tensors(tag)[-1].tensor_proto.string_val[0].decode()
        for tag in events.Tags()["tensors"]
        if tag.endswith("/text_summary")
    }
    (start,) = events.PluginTagToContent("hparams").values()
    info = HParamsPluginData.FromString(start).session_start_info
    return Seen(
        settings=texts["settings"],
        values={
            tag: [(event.step, event.value) for event in events.Scalars(tag)]
            for tag in events.Tags()["scalars"]
        },
        pictures=[event.step for event in events.Images(shown)],
        state=texts.get("state", ""),
        ids={folder.name},
        parameters=dict(info.hparams.items()),
    )


def from_mlflow(folder: Path, shown: str = "samples") -> Seen:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("remuda")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    names, number = run.data.metrics, run.info.run_id
    artifacts = [Path(item.path).stem for item in client.list_artifacts(number, shown)]
    return Seen(
        settings=run.data.params,
        values={
            name: [
                (metric.step, metric.value) for metric in client.get_metric_history(number, name)
            ]
            for name in names
        },
        pictures=sorted(int(name.removeprefix("round-")) for name in artifacts),
        state=run.info.status,
        ids={number},
    )


def from_wandb(folder: Path, shown: str = "samples") -> Seen:
    """Read the only file of an offline run."""
    seen = Seen()
    (path,) = (folder / "wandb").glob("offline-run-*/*.wandb")
    for record in _records(path):
        kind = record.WhichOneof("record_type")
        if kind == "run":
            seen.ids.add(record.run.run_id)
        elif kind == "config":
            for item in record.config.update:
                seen.settings[item.key] = json.loads(item.value_json)
        elif kind == "summary":
            found = {item.key: item.value_json for item in record.summary.update}
            seen.state = json.loads(found.get("state", json.dumps(seen.state)))
        elif kind == "history":
            _add_history(seen, record.history.item, shown)
    return seen


def _add_history(seen: Seen, items, shown: str) -> None:
    line = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}
    t = line.pop("round")
    if f"{shown}/path" in line:
        seen.pictures.append(t)
        return
    for name, value in line.items():
        if not name.startswith("_"):
            seen.values.setdefault(name, []).append((t, value))


def _records(path: Path) -> Iterator:
    """Yield the records of a W&B file, which has the format of LevelDB's log."""
    from wandb.proto import wandb_internal_pb2

    data, block = path.read_bytes(), 32768
    at, text = 7, b""  # W&B's own header has 7 bytes
    while at + 7 <= len(data):
        left = block - at % block
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        piece = data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 2):  # a whole record, or its first piece
            text = b""
        text += piece
        if kind in (1, 4):  # a whole record, or its last piece
            record = wandb_internal_pb2.Record()
            record.ParseFromString(text)
            yield record


READERS = {"tensorboard": from_tensorboard, "wandb": from_wandb, "mlflow": from_mlflow}


def read(folder: Path, tracker: str) -> Seen:
    """Return what a tracker has received from a run."""
    assert Record.open(folder).trackers()[tracker]
    return READERS[tracker](folder)


def pictures(folder: Path, tracker: str, kind: str) -> list[int]:
    """Return the rounds whose pictures of a kind, samples or cells, a tracker has received."""
    return READERS[tracker](folder, kind).pictures
