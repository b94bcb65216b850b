"""The best checkpoint stays, whatever is pruned or killed, and scores do not delay rounds."""

import os
import signal
import statistics
import threading

import pytest
import torch

import remuda
from remuda import config
from remuda.errors import UserError
from remuda.record import Reader, Record, manifests
from remuda.tensors import trees
from remuda.training import recorder
from remuda.training.state import Phase
from tests.training.driving import Driver
from tests.training.grading import NAME, Grader, with_scores
from tests.training.test_run import StopAfter, assert_same_run
from tests.training.test_showing import Times

pytestmark = pytest.mark.usefixtures("empty_pages")

VALUES = {1: 5, 2: 3, 3: 4, 4: 6, 5: 2, 6: 7, 7: 8, 8: 9}
BEST = 5


@pytest.fixture
def values(tiny):
    run = {"rounds": 8, "checkpoint_every": 0, "keep_checkpoints": 1, "sample_every": 99}
    return with_scores(tiny, **run)


@pytest.fixture
def grade(monkeypatch):
    """Return a function that installs a grader."""

    def install(grader):
        monkeypatch.setattr(recorder, "score_round", grader)
        return grader

    return install


@pytest.fixture
def overlapped(monkeypatch):
    """Score in the background, as on a GPU."""
    monkeypatch.setattr(recorder, "is_overlapped", lambda device: True)


def saved(folder):
    return [checkpoint.round for checkpoint in Reader.open(folder).checkpoints()]


def scored(folder):
    return {score.round: score.value for score in Reader.open(folder).scores()}


def test_the_best_checkpoint_stays(values, tmp_path, grade):
    grade(Grader(VALUES))
    folder = remuda.run(config.from_dict(values), tmp_path / "run")
    assert saved(folder) == [BEST, 8]
    reader = Reader.open(folder)
    assert reader.best().round == BEST and reader.chosen_score == NAME
    model, same = remuda.load(folder, "best"), remuda.load(folder, BEST)
    assert model.round == BEST and remuda.load(folder).round == 8
    assert trees.equal(model.state, same.state)
    grade(Grader({9: 1}))
    remuda.resume(folder, rounds=9)
    assert saved(folder) == [9] and reader.best().round == 9


def test_a_resumed_run_keeps_the_same_best(values, tmp_path, grade):
    grade(Grader(VALUES))
    whole = remuda.run(config.from_dict(values), tmp_path / "whole")
    for stop in (4, 5, 7):
        parts = tmp_path / f"parts-{stop}"
        with pytest.raises(remuda.Interrupted):
            remuda.run(config.from_dict(values), parts, StopAfter(stop))
        remuda.resume(parts)
        assert_same_run(whole, parts)
        assert saved(parts) == [BEST, 8] and scored(parts) == scored(whole)


def killing(t):
    def kill(reached):
        if reached == t:
            os.kill(os.getpid(), signal.SIGKILL)

    return kill


def kill_in_prune(t):
    """Kill the process while it removes old checkpoints after round t."""
    prune = manifests.prune

    def cut(folder, reached, keep, protected=()):
        if reached == t:
            found = {c.round for c in manifests.list_all(folder)}
            for old in sorted(found - set(protected) - {t}):  # one is gone, the others stay
                manifests.shutil.rmtree(folder / f"round-{old:06d}")
                break
            os.kill(os.getpid(), signal.SIGKILL)
        prune(folder, reached, keep, protected)

    manifests.prune = cut


def train_in_a_child(values, folder, prepare):
    """Train in a forked process that kills itself."""
    child = os.fork()
    if child == 0:
        try:
            prepare()
            remuda.run(config.from_dict(values), folder)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL


KILLS = {
    "before the score of the best": (lambda: Grader(VALUES, before=killing(5)), None, 2),
    "after its score, before its checkpoint": (lambda: Grader(VALUES, after=killing(5)), None, 2),
    "while old checkpoints are removed": (lambda: Grader(VALUES), 5, 5),
    "after the best": (lambda: Grader(VALUES, before=killing(7)), None, 5),
}


@pytest.mark.parametrize("is_overlapped", [False, True])
@pytest.mark.parametrize("name", KILLS)
def test_a_kill_leaves_the_old_or_the_new_best(
    values, tmp_path, grade, monkeypatch, name, is_overlapped
):
    monkeypatch.setattr(recorder, "is_overlapped", lambda device: is_overlapped)
    make, prune, expected = KILLS[name]

    def prepare():
        recorder.score_round = make()
        if prune:
            kill_in_prune(prune)

    train_in_a_child(values, tmp_path / "run", prepare)
    reader = Reader.open(tmp_path / "run")
    assert reader.best().round == expected
    assert remuda.load(tmp_path / "run", "best").round == expected
    grade(Grader(VALUES))
    remuda.resume(tmp_path / "run")
    assert saved(tmp_path / "run") == [BEST, 8]
    assert scored(tmp_path / "run") == VALUES, "a score that was outstanding is not lost"


def test_the_best_of_the_rounds_that_are_left_counts(values, tmp_path, grade):
    """If the newest checkpoint is damaged, later scores are forgotten, and with them the best."""
    values["run"]["keep_checkpoints"] = 3
    grade(Grader({**VALUES, 8: 1}))
    folder = remuda.run(config.from_dict(values), tmp_path / "run")
    newest = Reader.open(folder).best_checkpoint()
    assert newest.round == 8
    newest.files[0].write_bytes(b"damaged")
    with pytest.raises(UserError, match="round-000008 is damaged"):
        remuda.load(folder, "best")
    driver = Driver(values, folder, is_new=False)
    driver.run_until(Phase.COMPUTE)
    assert driver.reached == 7
    assert saved(folder) == [6, 7, 8] and Reader.open(folder).best().round == 6
    driver.close()


# Scores in the background


def test_slow_scores_do_not_delay_rounds(values, tmp_path, grade, overlapped):
    slow = 0.4
    grader = grade(Grader(VALUES, seconds=slow))
    values["scores"]["every"] = 4
    times = Times()
    folder = remuda.run(config.from_dict(values), tmp_path / "run", times)
    assert statistics.median(times.rounds[1:]) < slow / 2
    assert max(times.rounds[5:]) < slow / 2, "rounds 6 to 8 run while round 4 is scored"
    assert grader.rounds == [4, 8] and scored(folder) == {4: 6, 8: 9}, "the end waits for scores"


def test_a_checkpoint_is_written_after_the_score_of_its_round(values, tmp_path, grade, overlapped):
    gate = threading.Event()
    grade(Grader(VALUES, before=lambda t: gate.wait(60)))
    values["scores"]["every"] = 2
    driver = Driver(values, tmp_path / "run")
    driver.run_until(Phase.KEEP, after=4)
    assert saved(tmp_path / "run") == [] and scored(tmp_path / "run") == {}
    gate.set()
    driver.run()
    assert saved(tmp_path / "run") == [2, 8]
    driver.close()


def test_scores_in_the_background_are_the_same(values, tmp_path, monkeypatch):
    values["scores"] = {"every": 2, "samples": 50, "kinds": "fid,kid,class-kid,is"}
    values["run"]["rounds"] = 4
    one = remuda.run(config.from_dict(values), tmp_path / "one")
    threads = set()
    evaluate = remuda.scores.Evaluator.score

    def noting(*arguments):
        threads.add(threading.current_thread().name)
        return evaluate(*arguments)

    monkeypatch.setattr(recorder, "is_overlapped", lambda device: True)
    monkeypatch.setattr(remuda.scores.Evaluator, "score", noting)
    other = remuda.run(config.from_dict(values), tmp_path / "other")
    assert threads == {"scores"}
    first, second = (
        {(s.round, s.name): (s.value, s.spread, s.floor, s.classes) for s in Record(run).scores()}
        for run in (one, other)
    )
    assert first == second and {t for t, _ in first} == {2, 4}
    assert_same_run(one, other)


def test_an_error_in_the_background_ends_the_run(values, tmp_path, grade, overlapped):
    def fail(t):
        raise OSError(28, "No space left on device")

    grade(Grader(VALUES, before=fail))
    with pytest.raises(UserError, match=r"cannot write to .*No space left.*free some space"):
        remuda.run(config.from_dict(values), tmp_path / "run")
    grade(Grader(VALUES))
    assert scored(remuda.resume(tmp_path / "run")) == VALUES


def test_a_collapsed_round_has_no_score_and_training_continues(
    values, tmp_path, monkeypatch, overlapped
):
    notes = []

    class Notes(remuda.Progress):
        def note(self, text):
            notes.append(text)

    def collapse(*arguments):
        raise UserError("all samples are equal")

    monkeypatch.setattr(remuda.scores.Evaluator, "score", collapse)
    folder = remuda.run(config.from_dict(values), tmp_path / "run", Notes())
    assert notes == [f"round {t} has no scores: all samples are equal" for t in range(1, 9)]
    assert saved(folder) == [8] and Reader.open(folder).best() is None


# What the user sees


@pytest.mark.parametrize(
    "change, sentence",
    [
        (
            {"scores": {"every": 0}},
            r"keep_best=fid needs scores during training: set scores\.",
        ),
        ({"run": {"keep_best": "kid"}}, r"run\.keep_best=kid is not among .*fid_50_train_lenet"),
        ({"run": {"keep_best": "fid_10k"}}, r"keep_best=fid_10k .*scores\.samples or"),
    ],
)
def test_a_score_that_is_never_computed_is_refused(values, tmp_path, change, sentence):
    changed = {name: {**values[name], **change.get(name, {})} for name in values}
    with pytest.raises(UserError, match=sentence):
        remuda.run(config.from_dict(changed), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_without_a_best_checkpoint(tiny, values, tmp_path, grade):
    plain = remuda.run(config.from_dict(tiny), tmp_path / "plain")
    with pytest.raises(UserError, match=r"keeps no best checkpoint: .*--set run\.keep_best=fid"):
        remuda.load(plain, "best")
    grade(Grader(VALUES))
    values["scores"]["every"] = 4
    with pytest.raises(remuda.Interrupted):
        remuda.run(config.from_dict(values), tmp_path / "run", StopAfter(2))
    with pytest.raises(UserError, match=f"no checkpoint that is scored with {NAME} yet: train"):
        remuda.load(tmp_path / "run", "best")


def test_the_best_checkpoint_can_be_scored_again(values, tmp_path, grade):
    grade(Grader(VALUES))
    folder = remuda.run(config.from_dict(values), tmp_path / "run")
    found = remuda.score(folder, checkpoint="best", device="cpu", samples=60)
    assert found[0].name == "fid_60_train_lenet_3-classes"
    assert Reader.open(folder).has_scores(BEST)
    assert torch.isfinite(torch.tensor(found[0].value))
