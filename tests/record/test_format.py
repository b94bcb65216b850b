"""A run folder that an older version wrote still works.

``format-2`` was written by revision 143f1e7: class-parallel on digits, stopped in round 3 of 4,
with the checkpoint of round 2. Its config.toml has ``engine.on_loss = "rehome"``, and its lost
ranks are in losses.jsonl, which was made by hand.
"""

import io
import shutil
import warnings
from pathlib import Path

import pytest
from rich.console import Console

import remuda
from remuda.record import Reader, Record
from remuda.reports import page, status

# The older version, trained without a stop.
DISCRIMINATOR_LOSSES = {
    1: [0.6925853490829468, 0.7021616697311401],
    2: [0.6931173801422119, 0.6964244842529297],
    3: [0.6944546699523926, 0.7011658549308777],
    4: [0.690049409866333, 0.6996537446975708],
}
GENERATOR_LOSSES = {
    1: [0.31373918056488037, 0.4509369432926178],
    2: [0.3138885200023651, 0.45075368881225586],
    3: [0.31401288509368896, 0.45061829686164856],
    4: [0.31472980976104736, 0.4500507414340973],
}
FID = 743.6164393004663  # of round 4, on 50 samples, against the two classes of the run
NEW_NAME = "fid_50_train_lenet_2-classes"  # the older version compared with all classes


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run").mkdir()
    shutil.copytree(Path(__file__).with_name("format-2"), tmp_path / "run", dirs_exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # about engine.on_loss
        yield tmp_path / "run"


def shown(folder):
    console = Console(width=300, record=True, file=io.StringIO())
    status.show(folder, console)
    return console.export_text()


def test_it_resumes_to_the_same_losses(folder):
    remuda.resume(folder)
    record = Record.open(folder)
    lines = record.rounds()
    assert [line["round"] for line in lines] == [1, 2, 3, 4]
    for line in lines:
        t = line["round"]
        assert line["discriminator_loss"] == pytest.approx(DISCRIMINATOR_LOSSES[t], abs=1e-4)
        assert line["generator_loss"] == pytest.approx(GENERATOR_LOSSES[t], abs=1e-4)
    assert [checkpoint.round for checkpoint in record.checkpoints()] == [4]
    assert record.config.engine.on_failure == "move" and "on_loss" not in record.settings_text
    assert [score.round for score in record.scores()] == [2, 4]
    assert [score.name for score in record.scores()] == ["fid_50_train_lenet", NEW_NAME]
    assert record.scores()[-1].value == pytest.approx(FID, rel=1e-3)


def test_it_samples_and_is_scored(folder):
    model = remuda.load(folder)
    assert model.round == 2 and model.sample(4, labels=1).shape == (4, 1, 8, 8)
    (value,) = remuda.score(folder, device="cpu", kinds="fid", samples=50)
    old, new = Reader.open(folder).scores()
    assert (old.round, old.name) == (2, "fid_50_train_lenet")
    assert (new.round, new.name) == (2, NEW_NAME) and new.value == value.value
    assert value.value == pytest.approx(743.8593410335416, rel=1e-3)


def test_it_has_a_page_and_a_status(folder):
    text = page.write(folder).read_text()
    assert "fid_50_train_lenet" in text and "on_loss" in text
    assert "stopped, round 3 of 4" in shown(folder)
    assert "after round 1: lost 1 rank (1) on node-2 with members 1; rehome" in shown(folder)


def test_it_can_be_compared(folder, tmp_path):
    new = remuda.run(Record.open(folder).config, tmp_path / "new")
    with pytest.raises(remuda.UserError, match="same settings and the same seed"):
        remuda.compare([folder, new])
    comparison = remuda.compare([folder])
    assert comparison.groups[0].runs[0].num_rounds == 3
    assert "fid_50_train_lenet" in comparison.render()
