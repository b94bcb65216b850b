"""The phases of the training loop, driven by hand: their order, interruptions and failures."""

from contextlib import ExitStack
from dataclasses import FrozenInstanceError, replace

import pytest
import torch

from remuda.errors import Interrupted, RanksLost, UserError, resume_command
from remuda.record import Record
from remuda.tensors import trees
from remuda.training.herd import Herd
from remuda.training.loop import PHASES
from remuda.training.saving import Saver
from remuda.training.state import Phase
from tests.training.driving import Driver
from tests.training.test_run import assert_same_run

START = [Phase.ASSEMBLE, Phase.OPEN, Phase.RESTORE, Phase.WATCH, Phase.BEGIN, Phase.KEEP]
ROUND = [Phase.COMPUTE, Phase.RECORD, Phase.KEEP]


@pytest.fixture(autouse=True)
def rounds_and_checkpoints_send_messages(monkeypatch):
    """Send a message where a real engine would; this process hosts all members itself."""

    def sending(method):
        def send_first(herd, *arguments):
            herd.communicator.max_over_ranks(0)
            return method(herd, *arguments)

        return send_first

    monkeypatch.setattr(Herd, "step", sending(Herd.step))
    save = Saver.save

    def send_and_save(saver, *arguments):
        saver.herd.communicator.max_over_ranks(0)
        save(saver, *arguments)

    monkeypatch.setattr(Saver, "save", send_and_save)


@pytest.fixture
def start(tiny, tmp_path):
    """Return a function that makes drivers of runs with three rounds."""
    tiny["run"] |= {"rounds": 3, "checkpoint_every": 1, "sample_every": 3}
    with ExitStack() as drivers:

        def make(name="run", action="stop", is_new=True, **run):
            values = {**tiny, "run": {**tiny["run"], **run}}
            driver = Driver(values, tmp_path / name, action, is_new)
            drivers.callback(driver.close)
            return driver

        yield make


def test_phases_of_a_new_and_a_resumed_run(start):
    first = start(rounds=1)
    first.run()
    first.close()
    assert first.phases == [*START, *ROUND, Phase.FINISH]
    resumed = start(is_new=False)
    resumed.run()
    assert resumed.phases == [*START, *ROUND, *ROUND, Phase.FINISH]


@pytest.mark.parametrize("phase, saved", [(Phase.COMPUTE, 1), (Phase.RECORD, 2), (Phase.KEEP, 1)])
def test_an_interruption_saves_the_last_whole_round(start, phase, saved):
    driver = start(checkpoint_every=1 if phase is Phase.KEEP else 3)
    driver.run_until(phase, after=1)
    driver.communicator.event = KeyboardInterrupt()
    sentence = f"stopped after round {saved}; resume with: {resume_command(driver.training.folder)}"
    with pytest.raises(Interrupted) as caught:
        driver.run()
    assert str(caught.value) == sentence
    assert driver.phases[-3:] == [phase, Phase.MEET, Phase.STOP]
    assert Record.open(driver.training.folder).newest()[0].round == saved


def test_an_interruption_before_the_start_has_nothing_to_save(start):
    driver = start()
    driver.run_until(Phase.RESTORE)
    driver.communicator.event = KeyboardInterrupt()
    with pytest.raises(Interrupted, match=r"^stopped; resume with: "):
        driver.run()
    assert driver.phases[-3:] == [Phase.RESTORE, Phase.MEET, Phase.STOP]


LOST = "rank 1 on node7 was lost"
FAILURES = [
    (Phase.ASSEMBLE, 0, f"{LOST} before anything was recorded: start the run again"),
    (Phase.RESTORE, 0, f"{LOST}; resume with: "),
    (Phase.WATCH, 0, f"{LOST}; resume with: "),
    (Phase.COMPUTE, 1, f"{LOST} after round 1; resume with: "),
    (Phase.RECORD, 1, f"{LOST} after round 2; resume with: "),  # round 2 is already recorded
    (Phase.KEEP, 1, f"{LOST} after round 1; resume with: "),
    (Phase.FINISH, 3, f"{LOST} after round 3; resume with: "),
]


@pytest.mark.parametrize("phase, after, sentence", FAILURES)
def test_a_lost_rank_stops_the_run_with_one_sentence(start, phase, after, sentence):
    driver = start(action="stop")
    driver.run_until(phase, after)
    driver.communicator.event = RanksLost("ranks were lost")
    with pytest.raises(UserError) as caught:
        driver.run()
    assert driver.phases[-3:] == [phase, Phase.MEET, Phase.NOTE]
    folder = driver.training.folder
    if phase is Phase.ASSEMBLE:
        assert str(caught.value) == sentence and not folder.exists()
        return
    assert str(caught.value) == sentence + resume_command(folder)
    (failure,) = Record.open(folder).failures()
    assert (failure["ranks"], failure["hosts"], failure["action"]) == ([1], ["node7"], "stop")


@pytest.mark.parametrize("phase", [Phase.COMPUTE, Phase.RECORD, Phase.FINISH])
def test_moved_members_start_again_from_the_last_checkpoint(start, phase):
    undisturbed, driver = start("undisturbed"), start(action="move", checkpoint_every=2)
    undisturbed.run()
    driver.run_until(phase, after=3 if phase is Phase.FINISH else 2)
    driver.communicator.event = RanksLost("ranks were lost")
    before = len(driver.phases)
    driver.run()
    saved = 3 if phase is Phase.FINISH else 2
    rounds = ROUND * (3 - saved)
    assert driver.phases[before:] == [phase, Phase.MEET, Phase.NOTE, *START, *rounds, Phase.FINISH]
    assert_same_run(undisturbed.training.folder, driver.training.folder)


def test_with_drop_the_remaining_members_continue_with_the_same_round(start):
    driver = start(action="drop")
    driver.run_until(Phase.COMPUTE, after=1)
    driver.communicator.event = RanksLost("ranks were lost")
    before = len(driver.phases)
    driver.run()
    failed = [Phase.COMPUTE, Phase.MEET, Phase.NOTE, Phase.SHRINK, Phase.KEEP]
    assert driver.phases[before:] == [*failed, *ROUND, *ROUND, Phase.FINISH]


def test_a_failure_before_a_round_is_recorded_does_not_lose_the_round(start, monkeypatch):
    report = Herd.report

    def send_and_report(herd, metrics):
        herd.communicator.max_over_ranks(0)
        return report(herd, metrics)

    monkeypatch.setattr(Herd, "report", send_and_report)
    driver = start(action="drop")
    driver.run_until(Phase.RECORD, after=1)
    driver.communicator.event = RanksLost("ranks were lost")
    state, before = driver.training.ahead.state, len(driver.phases)
    driver.run_until(Phase.KEEP, after=2)
    failed = [Phase.RECORD, Phase.MEET, Phase.NOTE, Phase.SHRINK, Phase.RECORD]
    assert driver.phases[before:] == failed
    assert driver.training.reached.state is state
    driver.run()
    assert [line["round"] for line in Record.open(driver.training.folder).rounds()] == [1, 2, 3]


def test_ranks_meet_again_if_another_one_fails_meanwhile(start):
    driver = start(action="move")
    driver.run_until(Phase.COMPUTE, after=1)
    driver.communicator.event = RanksLost("ranks were lost")
    driver.advance()
    driver.communicator.event = RanksLost("more ranks were lost")
    driver.run_until(Phase.ASSEMBLE)
    assert driver.phases[-4:] == [Phase.COMPUTE, Phase.MEET, Phase.MEET, Phase.NOTE]


@pytest.mark.parametrize(
    "other, reached, following",
    [
        ([1, -1], 1, Phase.COMPUTE),  # rank 1 has recorded round 1 and computed no other
        ([1, 2], 1, Phase.RECORD),
        ([2, -1], 2, Phase.COMPUTE),
        ([-1, -1], 0, Phase.ASSEMBLE),
    ],
    ids=["behind", "equal", "ahead", "without a state"],
)
def test_ranks_meet_at_a_round_that_all_have_computed(start, other, reached, following):
    driver = start()
    driver.run_until(Phase.RECORD, after=1)  # round 2 is computed, but not recorded
    recorded, computed = other
    driver.communicator.others = [[recorded, False, True, computed, False]]
    driver.training = replace(driver.training, phase=Phase.MEET)
    driver.advance()
    assert (driver.reached, driver.training.phase) == (reached, following)


def test_a_full_disk_ends_the_run_with_one_sentence(start, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    driver = start()
    driver.run_until(Phase.RECORD, after=1)
    monkeypatch.setattr(Record, "add_round", fail)
    with pytest.raises(UserError) as caught:
        driver.run()
    folder, sentence = driver.training.folder, str(caught.value)
    assert sentence.startswith(f"cannot write to {folder} ([Errno 28] No space left on device): ")
    assert f"then run {resume_command(folder)}; earlier checkpoints are intact" in sentence
    driver.close()
    assert Record.open(folder).newest()[0].round == 1


@pytest.mark.parametrize("phase", [Phase.COMPUTE, Phase.RECORD, Phase.KEEP])
def test_a_phase_that_fails_can_run_again_from_the_same_value(start, phase):
    driver = start()
    driver.run_until(phase, after=1)
    training, fields = driver.training, dict(vars(driver.training))
    state = trees.map(torch.clone, training.reached.state)
    driver.communicator.event = RanksLost("ranks were lost")
    with pytest.raises(RanksLost):
        PHASES[phase](driver.session, training)
    assert all(value is fields[name] for name, value in vars(training).items())
    assert trees.equal(training.reached.state, state)
    with pytest.raises(FrozenInstanceError):
        training.phase = Phase.DONE
    once, twice = (PHASES[phase](driver.session, training) for _ in range(2))
    assert once.phase is twice.phase is not phase
    assert trees.equal(once.ahead.state, twice.ahead.state)
