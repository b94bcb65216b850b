"""Whole runs: the files that they leave, how they stop, and that resuming them is exact."""

import dataclasses
import json
import os
import shutil
import signal

import pytest
import torch
from PIL import Image

import remuda
from remuda import config
from remuda.config import EngineConfig
from remuda.errors import StoppedByFailure, UserError
from remuda.record import Record
from remuda.system.signals import STOP_SIGNALS
from remuda.tensors import trees
from remuda.training.assemble import assemble, pytorch_settings
from remuda.training.progress import Progress
from remuda.training.run import Interrupted
from tests.record.reading import tensors

pytestmark = pytest.mark.usefixtures("empty_pages")


def make(values, **run):
    return config.from_dict({**values, "run": {**values["run"], **run}})


def final_tensors(folder):
    checkpoint, _ = Record.open(folder).newest()
    return tensors(checkpoint)


def losses(folder):
    timing = ("seconds", "images_per_second", "memory", "verbs", "routines")
    lines = Record.open(folder).rounds()
    return [{k: v for k, v in line.items() if k not in timing} for line in lines]


def pictures(folder):
    return {path.name: path.read_bytes() for path in Record.open(folder).sample_grids()}


def assert_same_run(one, other):
    assert losses(one) == losses(other)
    assert trees.equal(final_tensors(one), final_tensors(other))
    assert pictures(one) == pictures(other)


class StopAfter(Progress):
    """Act as a user who presses Ctrl-C after round t."""

    def __init__(self, t):
        self.t = t

    def round(self, line):
        if line["round"] == self.t:
            raise KeyboardInterrupt


class Notes(Progress):
    """Keep the messages of a run."""

    def __init__(self):
        self.texts = []

    def note(self, text):
        self.texts.append(text)


def test_the_files_of_a_run(tiny, tmp_path):
    folder = remuda.run(make(tiny), tmp_path / "run")
    files = {"config.toml", "data.json", "environment.json", "status.json", "rounds.jsonl"}
    found = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    assert found == {*files, "samples", "checkpoints", "index.html"}
    lines = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == [1, 2, 3, 4]
    for line in lines:
        assert len(line["generator_loss"]) == len(line["discriminator_loss"]) == 3
    assert lines[-1]["images"] == 4 * 3 * 2 * 4 and lines[-1]["seconds"] > 0
    grids = [path.name for path in Record.open(folder).sample_grids()]
    assert grids == ["round-000002.png", "round-000004.png"]
    (environment,) = json.loads((folder / "environment.json").read_text())
    assert environment["packages"]["torch"] and environment["device"] == "cpu"
    assert Record.open(folder).config == make(tiny)


@pytest.mark.parametrize("strategy", config.STRATEGIES)
def test_interrupted_and_resumed_equals_never_stopped(tiny, tmp_path, strategy):
    tiny["strategy"] |= {"name": strategy, "shift": 0.2, "cutout": 0.4, "colour": 1.0}
    tiny["strategy"] |= {"ada_target": 0.1, "ada_images": 40.0}
    tiny["networks"] = {"name": "dcgan", "width": 8, "latent": 8}
    if config.STRATEGIES[strategy]().num_members(0, 10) < 10:
        tiny["run"]["members"] = 0  # one member or a grid
    whole = remuda.run(make(tiny), tmp_path / "whole")
    for stop in (1, 2, 3):  # before, at and after the first checkpoint
        parts = tmp_path / f"parts-{stop}"
        with pytest.raises(Interrupted, match="remuda resume"):
            remuda.run(make(tiny), parts, StopAfter(stop))
        remuda.resume(parts)
        assert_same_run(whole, parts)
        assert (parts / "index.html").exists()


def test_reputations_are_resumed_and_start_again_with_other_members(tiny, tmp_path):
    tiny["strategy"] |= {"name": "md-gan", "aggregate": "reputation", "num_fake_batches": 1}
    whole = remuda.run(make(tiny), tmp_path / "whole")
    parts = tmp_path / "parts"
    with pytest.raises(Interrupted, match="remuda resume"):
        remuda.run(make(tiny), parts, StopAfter(3))
    remuda.resume(parts)
    assert_same_run(whole, parts)
    assert final_tensors(parts)["server/agreement"].any()
    remuda.resume(parts, rounds=6, members=5)
    assert final_tensors(parts)["server/agreement"].shape == (5, 5)
    assert len(Record.open(parts).rounds()[-1]["reputation"]) == 5


@pytest.mark.parametrize("cut_off", ["draw_grid", "score_round"])
def test_a_resume_draws_and_scores_what_a_stop_cut_off(tiny, tmp_path, monkeypatch, cut_off):
    tiny["data"] = {"name": "digits"}
    tiny["scores"] = {"every": 2, "samples": 50, "kinds": "fid"}
    whole = remuda.run(make(tiny), tmp_path / "whole")

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"remuda.training.recorder.{cut_off}", interrupt)
        with pytest.raises(Interrupted, match="after round 2"):
            remuda.run(make(tiny), tmp_path / "cut")
    assert not Record.open(tmp_path / "cut").scores()
    cut = remuda.resume(tmp_path / "cut")
    assert_same_run(whole, cut)
    expected, found = (Record.open(run).scores() for run in (whole, cut))
    values = [(score.round, score.value) for score in expected]
    assert [(score.round, score.value) for score in found] == values
    assert [t for t, _ in values] == [2, 4]


def test_a_finished_run_can_train_more_rounds(tiny, tmp_path):
    whole = remuda.run(make(tiny, rounds=6), tmp_path / "whole")
    remuda.run(make(tiny), tmp_path / "longer")
    remuda.resume(tmp_path / "longer", rounds=6)
    assert_same_run(whole, tmp_path / "longer")
    assert Record.open(tmp_path / "longer").config.run.rounds == 6


def test_resuming_a_finished_run_changes_nothing(tiny, tmp_path):
    folder = remuda.run(make(tiny), tmp_path / "run")
    before = losses(folder), final_tensors(folder)
    remuda.resume(folder)
    assert losses(folder) == before[0] and trees.equal(final_tensors(folder), before[1])


def test_a_run_killed_before_its_first_checkpoint_starts_again(tiny, tmp_path):
    whole = remuda.run(make(tiny), tmp_path / "whole")
    tiny_config = make(tiny)
    record = Record.create(tmp_path / "killed", tiny_config, assemble(tiny_config).facts)
    record.add_round({"round": 1})
    (record.folder / "rounds.jsonl").open("a").write('{"round": 2, "genera')  # torn
    remuda.resume(record.folder)
    assert_same_run(whole, record.folder)


def test_a_torn_checkpoint_costs_only_the_rounds_since_the_previous_one(tiny, tmp_path):
    whole = remuda.run(make(tiny), tmp_path / "whole")
    folder = remuda.run(make(tiny), tmp_path / "torn")
    newest, _ = Record.open(folder).newest()
    (path,) = newest.files
    path.write_bytes(path.read_bytes()[:100])
    remuda.resume(folder)
    assert_same_run(whole, folder)


def keep_lines(path, number):
    """Keep the first lines of a file, as in a copy that was made while the run was training."""
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:number]))


def test_a_copy_whose_rounds_are_older_than_its_checkpoints_resumes_exactly(tiny, tmp_path):
    whole = remuda.run(make(tiny, checkpoint_every=1), tmp_path / "whole")
    copy = shutil.copytree(whole, tmp_path / "copy")
    keep_lines(copy / "rounds.jsonl", 2)
    notes = Notes()
    remuda.resume(copy, progress=notes)
    assert_same_run(whole, copy)
    assert [line.split("round-00000")[1] for line in notes.texts[:2]] == [
        f"{t} is newer than the last complete round of the record, 2; using an older one"
        for t in (4, 3)
    ]


def test_missing_lines_before_the_oldest_checkpoint_are_reported(tiny, tmp_path):
    folder = remuda.run(make(tiny), tmp_path / "run")
    keep_lines(folder / "rounds.jsonl", 1)
    notes = Notes()
    remuda.resume(folder, rounds=5, progress=notes)
    assert [line["round"] for line in Record.open(folder).rounds()] == [1, 5]
    assert "ends with round 1" in notes.texts[0]
    assert "without the lines of the rounds up to 4" in notes.texts[0]


def test_a_disk_that_is_full_at_the_very_end_leaves_a_run_to_resume(tiny, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("remuda.reports.page.write", fail)
        with pytest.raises(UserError, match=rf"cannot write to .*then run remuda resume {folder};"):
            remuda.run(make(tiny), folder)
    remuda.resume(folder)
    assert Record.open(folder).status()["state"] == "finished"


def test_an_unreadable_line_is_reported(tiny, tmp_path):
    folder = remuda.run(make(tiny), tmp_path / "run")
    (folder / "rounds.jsonl").write_text('{"round": 1,\n')
    with pytest.raises(UserError, match=r"rounds\.jsonl cannot be read .*remove the damaged line"):
        remuda.resume(folder, rounds=6)


def test_a_run_without_an_intact_checkpoint_is_refused(tiny, tmp_path):
    folder = remuda.run(make(tiny), tmp_path / "run")
    for path in (folder / "checkpoints").glob("*/*.safetensors"):
        path.write_bytes(b"torn")
    with pytest.raises(UserError, match=r"has no intact checkpoint"):
        remuda.resume(folder)


def test_a_diverging_member_is_named_and_earlier_checkpoints_stay(tiny, tmp_path):
    tiny["strategy"]["loss"] = "least-squares"
    remuda.run(make(tiny, rounds=2), tmp_path / "run")
    record = Record.open(tmp_path / "run")
    poisoned = config.to_dict(make(tiny, rounds=9))
    poisoned["strategy"]["discriminator_lr"] = 1e30
    record.replace_config(config.from_dict(poisoned))
    with pytest.raises(UserError, match=r"_loss of member \d became (nan|inf|-inf) in round [34]"):
        remuda.resume(tmp_path / "run")
    assert record.newest()[0].round == 2


def test_a_second_process_is_refused(tiny, tmp_path):
    folder = remuda.run(make(tiny), tmp_path / "run")
    with Record.open(folder).locked(), pytest.raises(UserError, match="another process"):
        remuda.resume(folder)


def test_a_process_that_was_replaced_ends_before_it_writes(tiny, tmp_path):
    """A restart removes the lock of the process that it replaces."""
    folder = remuda.run(make(tiny), tmp_path / "run")
    old, new = Record.open(folder), Record.open(folder)
    with old.locked():
        old.check_lock()
        (folder / ".lock").unlink()
        with pytest.raises(StoppedByFailure, match="another process has taken over"):
            old.check_lock()
        with new.locked():
            new.check_lock()
            with pytest.raises(StoppedByFailure, match="another process has taken over"):
                old.check_lock()

    class Replaced(Progress):
        def round(self, line):
            (folder / ".lock").unlink()

    with pytest.raises(StoppedByFailure, match="another process has taken over"):
        remuda.resume(folder, rounds=9, progress=Replaced())
    assert len(new.rounds()) == 5, "after round 4, one more was recorded"


def test_fewer_rounds_than_reached_are_refused(tiny, tmp_path):
    folder = remuda.run(make(tiny), tmp_path / "run")
    with pytest.raises(UserError, match="already reached round 4"):
        remuda.resume(folder, rounds=3)
    assert Record.open(folder).config.run.rounds == 4


def test_a_strategy_without_a_name_is_refused_before_anything_is_written(tiny, tmp_path):
    class Mine(config.STRATEGIES["class-parallel"]):
        pass

    with pytest.raises(UserError, match="Mine has no name in the section strategy"):
        remuda.run(dataclasses.replace(make(tiny), strategy=Mine(batch_size=4)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_used_folder_is_refused(tiny, tmp_path):
    folder = remuda.run(make(tiny), tmp_path / "run")
    with pytest.raises(UserError, match=r"not empty: remuda resume"):
        remuda.run(make(tiny), folder)


def test_threads_are_limited_to_the_usable_cores(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.setattr("remuda.training.assemble.usable_cores", lambda: 2)
    try:
        torch.set_num_threads(3)
        with pytorch_settings(EngineConfig()):
            assert torch.get_num_threads() == 2
        with pytorch_settings(EngineConfig(threads=5)):
            assert torch.get_num_threads() == 5
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_run_of_a_name_asks_for_its_configuration():
    with pytest.raises(UserError, match=r"not 'standalone-digits': use remuda\.recipe"):
        remuda.run("standalone-digits")  # type: ignore[arg-type]


def test_a_run_restores_the_settings_of_the_process_and_prints_nothing(tiny, tmp_path, capfd):
    tiny["engine"] |= {"threads": 1, "deterministic": True}
    names = ("CUBLAS_WORKSPACE_CONFIG", "OMP_NUM_THREADS")

    def settings():
        return (
            torch.get_num_threads(),
            torch.are_deterministic_algorithms_enabled(),
            torch.get_float32_matmul_precision(),
            torch.backends.cudnn.allow_tf32,
            [os.environ.get(name) for name in names],
            [signal.getsignal(number) for number in STOP_SIGNALS],
        )

    before_threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        before = settings()
        folder = remuda.run(make(tiny), tmp_path / "run")
        remuda.resume(folder, rounds=5)
        remuda.load(folder).sample(2)
        remuda.score(folder, device="cpu", kinds="tvd,is", samples=20)
        assert settings() == before
    finally:
        torch.set_num_threads(before_threads)
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_wrong_sizes_are_refused(tiny):
    for members in (11, -1):
        with pytest.raises(UserError, match=r"run\.members"):
            assemble(make(tiny, members=members))
    tiny["strategy"]["name"] = "standalone"
    with pytest.raises(UserError, match="standalone trains one member"):
        assemble(make(tiny))


def test_a_partition_that_does_not_suit_is_refused(tiny):
    tiny["data"]["partition"] = "iid"
    with pytest.raises(UserError, match=r"data\.partition=iid does not suit"):
        assemble(make(tiny))


@pytest.mark.parametrize("device", ["cuda:99", "tpu", "meta", "no such"])
def test_a_missing_device_is_refused(tiny, device):
    tiny["engine"]["device"] = device
    with pytest.raises(UserError, match=r"engine\.device"):
        assemble(make(tiny))


def write_toy_images(toy_data, root, first=0):
    from remuda.model.pictures import to_picture

    for i in range(first, len(toy_data.labels)):
        folder = root / toy_data.classes[toy_data.labels[i]]
        folder.mkdir(parents=True, exist_ok=True)
        to_picture(toy_data.images[i]).save(folder / f"{i}.png")


def test_members_with_unequal_shares_take_equal_steps(tmp_path, toy_data, monkeypatch):
    """With 12, 5 and 2 images, all members take as many steps as an epoch of the mean share."""
    write_toy_images(toy_data, tmp_path / "images")
    monkeypatch.chdir(tmp_path)
    values = {
        "data": {"name": "folder:images"},
        "networks": {"name": "mlp", "hidden": 8},
        "strategy": {"name": "class-parallel", "batch_size": 4},
        "engine": {"device": "cpu"},
        "run": {"rounds": 2},
    }
    folder = remuda.run(config.from_dict(values), tmp_path / "run")
    assert Record.open(folder).rounds()[-1]["images"] == 2 * 3 * 2 * 4
    monkeypatch.chdir("/")
    remuda.resume(folder, rounds=3)
    model = remuda.load(folder)
    assert model.sample(3, labels="light").shape == (3, 1, 8, 8)
    drawn = torch.bincount(model.draw_labels(1900), minlength=3)
    assert (drawn - torch.tensor([1200, 500, 200])).abs().max() < 100


def test_a_resume_with_other_data_is_refused(tiny, tmp_path, toy_data):
    images = tmp_path / "images"
    write_toy_images(toy_data, images)
    values = make({**tiny, "data": {"name": f"folder:{images}"}}, rounds=1, members=0)
    folder = remuda.run(values, tmp_path / "run")
    before = final_tensors(folder)

    (images / "grey" / "12.png").rename(tmp_path / "12.png")
    sentence = r"4 of class grey instead of 5: restore the old data, or start"
    with pytest.raises(UserError, match=sentence):
        remuda.resume(folder, rounds=2)
    (tmp_path / "12.png").rename(images / "grey" / "12.png")
    (images / "light").rename(images / "white")
    with pytest.raises(UserError, match="without the class light and with the class white"):
        remuda.resume(folder, rounds=2)
    (images / "white").rename(images / "light")
    for picture in images.glob("*/*.png"):
        Image.open(picture).resize((16, 16)).save(picture)
    with pytest.raises(UserError, match=r"shape \[1, 16, 16\] instead of \[1, 8, 8\]"):
        remuda.resume(folder, rounds=2)
    assert trees.equal(final_tensors(folder), before) and Record.open(folder).config.run.rounds == 1


@pytest.mark.parametrize("strategy", ["md-gan", "fl-gan"])
def test_a_resume_may_add_or_remove_members(tiny, tmp_path, strategy):
    tiny["strategy"]["name"] = strategy
    folder = remuda.run(make(tiny), tmp_path / "run")
    remuda.resume(folder, rounds=6, members=5)
    assert len(Record.open(folder).rounds()[-1]["generator_loss"]) == 5
    assert Record.open(folder).config.run.members == 5
    remuda.resume(folder, rounds=7, members=2)
    assert len(Record.open(folder).rounds()[-1]["generator_loss"]) == 2
    assert remuda.load(folder).sample(3).shape == (3, 1, 8, 8)


def test_a_resume_with_an_unknown_engine_is_refused_and_changes_nothing(tiny, tmp_path):
    folder = remuda.run(make(tiny), tmp_path / "run")
    with pytest.raises(UserError, match=r"engine\.name.*'foo' is unknown"):
        remuda.resume(folder, rounds=6, engine="foo")
    remuda.resume(folder, rounds=5)


def test_a_run_killed_before_its_first_checkpoint_with_more_members(tiny, tmp_path):
    """By then the record says six members, but the checkpoints have five."""
    tiny["strategy"] |= {"name": "fl-gan"}
    folder = remuda.run(make(tiny, members=5), tmp_path / "run")
    whole = remuda.resume(shutil.copytree(folder, tmp_path / "whole"), rounds=8, members=6)
    record = Record.open(folder)
    record.replace_config(make(tiny, members=6, rounds=8))
    assert remuda.load(folder).sample(3).shape[0] == 3
    assert_same_run(whole, remuda.resume(folder))
    remuda.resume(folder, members=4)  # nothing is left to train
    assert remuda.load(folder).sample(3).shape[0] == 3
    assert len(Record.open(remuda.resume(folder, rounds=9)).rounds()[-1]["generator_loss"]) == 4


def test_a_refused_run_leaves_no_folder(tiny, tmp_path):
    tiny["scores"] = {"every": 1, "kinds": "class-kid"}
    tiny["strategy"] |= {"name": "standalone"}
    tiny["run"]["members"] = 0
    with pytest.raises(UserError, match="generates images by label"):
        remuda.run(make(tiny), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_damaged_files_next_to_the_checkpoints(tiny, tmp_path):
    folder = remuda.run(make(tiny), tmp_path / "run")
    (folder / "samples" / "round-best.png").write_bytes(b"")
    remuda.resume(folder, rounds=5)
    (folder / "environment.json").write_text("[{")
    with pytest.raises(UserError, match=r"environment\.json cannot be read .*remove it"):
        remuda.resume(folder, rounds=6)
    (folder / "environment.json").unlink()
    remuda.resume(folder, rounds=6)
    (folder / "config.toml").write_text("engine = 3")
    with pytest.raises(UserError, match=r"run.config\.toml .*engine is not a table"):
        remuda.load(folder)
    wrong_name = '{"name": 1, "shape": [1, 8, 8], "classes": [], "counts": []}'
    for content in (wrong_name, '{"shape": 3}', "[]"):
        (folder / "data.json").write_text(content)
        with pytest.raises(UserError, match=r"data\.json cannot be read"):
            assert Record.open(folder).facts


def test_discarding_a_record_keeps_other_files(tiny, tmp_path):
    facts = assemble(make(tiny)).facts
    record = Record.create(tmp_path / "run", make(tiny), facts)
    (tmp_path / "run" / "notes.txt").write_text("mine")
    record.discard()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes.txt"]
    (tmp_path / "here").mkdir()
    (tmp_path / "link").symlink_to("here")
    Record.create(tmp_path / "link", make(tiny), facts).discard()
    assert list((tmp_path / "here").iterdir()) == []
    Record.create(tmp_path / "new", make(tiny), facts).discard()
    assert not (tmp_path / "new").exists()


def test_users_hear_of_changes_that_are_too_small_for_their_images(tiny):
    tiny["strategy"] |= {"shift": 0.25, "cutout": 0.05, "ada_target": 0.6}
    texts = []
    assemble(make(tiny), notify=texts.append)
    (text,) = texts
    assert text.startswith("strategy.cutout=0.05 changes no image") and "0.125 or more" in text
