"""The best checkpoint and an early end on ranks."""

import json

from remuda import config, load, run
from remuda.record import Reader
from tests.mpi.starting import remuda
from tests.mpi.test_training import VALUES

SCORES = {"every": 1, "samples": 60, "kinds": "fid"}


def train_on_two_ranks(folder, *words):
    settings = [word for setting in words for word in ("--set", setting)]
    values = {**VALUES, "scores": SCORES, "run": {"rounds": 4, "members": 5, "keep_best": "fid"}}
    (folder / "small.toml").write_text(config.to_toml(config.from_dict(values)))
    words = ["train", folder / "small.toml", "--engine", "mpi", "--ranks", 2, *settings]
    result = remuda(*words, "--out", folder / "run")
    assert result.returncode == 0, result.stderr
    return values, Reader.open(folder / "run"), result.stdout


def test_ranks_keep_the_same_best_checkpoint_as_one_process(tmp_path):
    values, ranks, _ = train_on_two_ranks(tmp_path, "run.keep_checkpoints=1")
    values["run"]["keep_checkpoints"] = 1
    one = Reader.open(run(config.from_dict(values), tmp_path / "stacked"))
    saved = [[checkpoint.round for checkpoint in reader.checkpoints()] for reader in (one, ranks)]
    assert saved[0] == saved[1] and len(ranks.best_checkpoint().files) == 2
    assert {ranks.best().round, 4} == set(saved[1]) and ranks.best().round == one.best().round
    assert load(ranks.folder, "best").round == ranks.best().round


def test_all_ranks_end_early(tmp_path):
    _, reader, printed = train_on_two_ranks(tmp_path, "run.max_minutes=1e-6")
    assert [line["round"] for line in reader.rounds()] == [1]
    assert reader.newest()[0].round == reader.best().round == 1
    why = json.loads((reader.folder / "status.json").read_text())["why"]
    assert why.startswith("stopped after") and f"{why}, with round 1" in printed
