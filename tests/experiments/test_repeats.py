"""Runs with several seeds: which are trained, kept, resumed, and reported as failed."""

import dataclasses

import pytest
import torch

import remuda
from remuda import recipes
from remuda.errors import UserError
from remuda.experiments import repeats as repeating
from remuda.experiments.repeats import repeat
from remuda.record import Record
from remuda.reports.compare import compare
from remuda.training.progress import Progress
from remuda.training.run import Interrupted
from tests.training.test_run import StopAfter, assert_same_run


@pytest.fixture
def small():
    """Return the recipe of one pair on digits, shortened to a moment."""
    return recipes.recipe(
        "standalone-digits",
        "strategy.batch_size=4",
        "strategy.steps_per_round=2",
        "networks.hidden=8",
        "engine.device=cpu",
        "run.rounds=4",
        "run.checkpoint_every=1",
    )


def changed(config, section, **values):
    new = dataclasses.replace(getattr(config, section), **values)
    return dataclasses.replace(config, **{section: new})


class Listener(Progress):
    """Remembers which folders were trained, from which round."""

    def __init__(self):
        self.begun, self.notes = [], []

    def start(self, folder, rounds, reached, num_members):
        self.begun.append((folder.name, reached))

    def note(self, text):
        self.notes.append(text)


def test_each_seed_gets_its_folder(small, tmp_path):
    repeats = repeat(small, tmp_path, 3, first_seed=5)
    names = [folder.name for folder in repeats.finished]
    assert names == ["seed-005", "seed-006", "seed-007"] and not repeats.failed
    assert [Record.open(folder).config.run.seed for folder in repeats.finished] == [5, 6, 7]
    first, second = (
        Record.open(folder).rounds()[-1]["generator_loss"] for folder in repeats.finished[:2]
    )
    assert first != second
    repeats.refuse_failures()
    (group,) = compare([tmp_path]).groups
    assert (group.name, len(group.runs)) == ("standalone", 3)


def test_scores_that_an_interruption_cut_off_are_added(small, tmp_path, monkeypatch):
    config = changed(small, "scores", every=4, samples=50, kinds="fid")

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr("remuda.training.recorder.score_round", interrupt)
        repeat(config, tmp_path, 2)
    finished = repeat(config, tmp_path, 2).finished
    assert all(Record.open(folder).has_scores(4) for folder in finished)


def test_seeds_continue_with_the_settings_of_the_new_call(small, tmp_path):
    repeat(changed(small, "run", rounds=2), tmp_path, 2)
    repeat(changed(small, "scores", every=2, samples=50, kinds="fid"), tmp_path, 2)
    for seed in range(2):
        record = Record.open(tmp_path / f"seed-{seed:03d}")
        assert [score.round for score in record.scores()] == [2, 4]
        assert record.config.scores.every == 2


def test_a_refused_repeat_does_not_change_finished_seeds(small, tmp_path):
    repeat(small, tmp_path, 1)
    refused = repeat(changed(small, "scores", every=1, kinds="modes"), tmp_path, 1)
    assert "points of ring and grid" in refused.failed[tmp_path / "seed-000"]
    assert Record.open(tmp_path / "seed-000").config.scores == small.scores


def test_finished_seeds_are_kept_and_interrupted_ones_resumed(small, tmp_path):
    whole = repeat(small, tmp_path / "whole", 3)

    class StopInTheSecond(StopAfter):
        def round(self, line):
            if self.folder.name == "seed-001":
                super().round(line)

        def start(self, folder, rounds, reached, num_members):
            self.folder = folder

    with pytest.raises(
        Interrupted, match=r"remuda resume .*seed-001; to continue with all seeds, run"
    ):
        repeat(small, tmp_path / "parts", 3, progress=lambda: StopInTheSecond(3))
    assert not (tmp_path / "parts/seed-002").exists()
    listener = Listener()
    parts = repeat(small, tmp_path / "parts", 3, progress=lambda: listener)
    assert listener.begun == [("seed-001", 3), ("seed-002", 0)]
    assert listener.notes == [f"{tmp_path / 'parts/seed-000'} is finished"]
    for one, other in zip(whole.finished, parts.finished, strict=True):
        assert_same_run(one, other)


def test_more_seeds_and_more_rounds_later(small, tmp_path):
    repeat(small, tmp_path, 1)
    listener = Listener()
    repeats = repeat(changed(small, "run", rounds=5), tmp_path, 2, progress=lambda: listener)
    assert listener.begun == [("seed-000", 4), ("seed-001", 0)]
    assert [remuda.load(folder).round for folder in repeats.finished] == [5, 5]
    with pytest.raises(UserError, match=r"already reached round 5, more than run\.rounds=4"):
        repeat(small, tmp_path, 2)


def test_a_diverging_seed_is_named_and_the_others_continue(small, tmp_path, monkeypatch):
    train = repeating.run

    def diverge(config, folder, progress):
        if config.run.seed == 1:
            config = changed(config, "strategy", discriminator_lr=1e30, loss="least-squares")
        return train(config, folder, progress)

    monkeypatch.setattr(repeating, "run", diverge)
    repeats = repeat(small, tmp_path, 3)
    assert [folder.name for folder in repeats.finished] == ["seed-000", "seed-002"]
    with pytest.raises(
        UserError, match=r"1 of 3 seeds did not finish and are not compared: .*seed-001: .* became "
    ):
        repeats.refuse_failures()


def test_an_error_that_stops_every_seed_is_raised_at_once(small, tmp_path):
    with pytest.raises(UserError, match=r"engine\.device=cuda:77"):
        repeat(changed(small, "engine", device="cuda:77"), tmp_path / "runs", 3)
    assert not (tmp_path / "runs").exists()


def test_a_folder_with_other_runs_is_refused_before_training(small, tmp_path):
    remuda.run(
        changed(changed(small, "strategy", batch_size=5), "run", seed=1), tmp_path / "seed-001"
    )
    with pytest.raises(
        UserError, match=r"seed-001 was trained with a different strategy\.batch_size: choose"
    ):
        repeat(small, tmp_path, 2)
    assert not (tmp_path / "seed-000").exists()
    remuda.run(small, tmp_path / "seed-004")
    with pytest.raises(UserError, match=r"seed-004 was trained with a different run\.seed"):
        repeat(small, tmp_path, 1, first_seed=4)
    with pytest.raises(UserError, match=r"seed-004 is a run: choose another --out"):
        repeat(small, tmp_path / "seed-004", 1)


def test_impossible_counts_are_refused(small, tmp_path):
    for seeds in ((0, 0), (1, -1)):
        with pytest.raises(
            UserError, match="--seeds must be at least 1 and --first-seed at least 0"
        ):
            repeat(small, tmp_path, *seeds)


def test_more_seeds_than_the_compiler_caches(small, tmp_path, monkeypatch):
    """PyTorch refuses to compile a function for a ninth caller; each seed's herd is one."""

    class Herd:
        def __init__(self, seed):
            self.seed = seed

        def step(self, x):
            return x + self.seed

    def compile_and_step(config, folder, progress):
        step = torch.compile(
            Herd(config.run.seed).step, fullgraph=True, dynamic=False, backend="eager"
        )
        assert step(torch.zeros(1)) == config.run.seed

    monkeypatch.setattr(repeating, "run", compile_and_step)
    assert len(repeat(small, tmp_path, 10).finished) == 10


def test_an_engine_of_several_processes_is_refused(small, tmp_path):
    with pytest.raises(UserError, match=r"leave engine\.name at stacked"):
        repeat(changed(small, "engine", name="mpi"), tmp_path, 1)
