"""Run the batch scripts of docs/cluster.md with a real Slurm, and let jobs fail."""

import os
import re
import sys
from pathlib import Path

import pytest

from remuda import config
from remuda.record import Record
from tests.mpi.killing import assert_complete, configured
from tests.mpi.starting import ENVIRONMENT, ROOT
from tests.slurm.cluster import Cluster, Job, kill, missing
from tests.training.test_run import assert_same_run

REASON = missing()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON or "Slurm is installed")

SCRIPTS = ("mpirun", "srun")  # who starts the ranks, in the order of the documentation
RUNS = {"mpirun": "runs/cells", "srun": "runs/classes"}
RECIPES = r"cellular-mnist-4x4|class-parallel-cifar10"
SIZES = {"nodes": 2, "ntasks": 2, "ntasks-per-node": 1, "cpus-per-task": 1, "time": "00:10:00"}
ROUNDS = 12


def both(test):
    """Run a test with both scripts, as part of the long series."""
    return pytest.mark.soak(pytest.mark.parametrize("launcher", SCRIPTS)(test))


def quick(first):
    """Run a test with one script always, and with the other as part of the long series."""
    other = SCRIPTS[1 - SCRIPTS.index(first)]
    cases = [first, pytest.param(other, marks=pytest.mark.soak)]
    return pytest.mark.parametrize("launcher", cases)


@pytest.fixture(scope="module")
def cluster():
    cluster = Cluster()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(autouse=True)
def pmix(cluster, launcher):
    if launcher == "srun" and not cluster.has_pmix():
        pytest.skip("Slurm cannot load PMIx: install libpmix-dev")


def documented(launcher):
    """Return a batch script as the documentation prints it."""
    text = (ROOT / "docs" / "cluster.md").read_text()
    scripts = re.findall(r"```sh\n(#!/bin/bash\n.*?)```", text, re.DOTALL)
    assert len(scripts) == len(SCRIPTS)
    return scripts[SCRIPTS.index(launcher)]


def adapted(launcher, recipe, **sizes):
    """Return a script with this machine's sizes, installation and recipe."""
    script = documented(launcher)
    for option, value in {**SIZES, **sizes}.items():
        script, found = re.subn(rf"(?m)^(#SBATCH --{option})=.*", rf"\1={value}", script)
        assert found == 1, option
    script = script.replace("--wait=60", "--wait=5")
    script = re.sub(r"(?m)^#SBATCH --gpus-per-node=.*\n", "", script)
    script = re.sub(r"(?m)^(module load|source) .*\n", "", script)
    script, found = re.subn(RECIPES, str(recipe), script)
    assert found == 1
    return script


class Submitted(Job):
    """A job that runs a documented batch script with a short run."""

    def __init__(self, cluster, launcher, folder, *settings, rounds=ROUNDS, **sizes):
        folder.mkdir(exist_ok=True)
        recipe = folder / "recipe.toml"
        # The launcher must not restart the run itself, because the batch script is tested.
        always = ("engine.restarts=0", f"run.rounds={rounds}")
        values = configured("class-parallel", *always, *settings)
        recipe.write_text(config.to_toml(values))
        path = os.pathsep.join([str(Path(sys.executable).parent), cluster.environment["PATH"]])
        environment = {**ENVIRONMENT, **cluster.environment, "PATH": path, "HOME": str(folder)}
        environment["PYTHONPATH"] = str(ROOT)
        super().__init__(cluster, adapted(launcher, recipe, **sizes), folder, environment)
        self.run = folder / RUNS[launcher]

    def has_reached(self, t):
        path = self.run / "rounds.jsonl"
        return path.exists() and path.read_text().count("\n") >= t

    def lose(self, rank, t, num_restarts=0):
        """Kill a rank after round t and a number of restarts."""
        self.wait(lambda: self.num_restarts == num_restarts and self.has_reached(t))
        self.wait(lambda: rank in self.ranks())
        kill(self.ranks()[rank])


@pytest.fixture(scope="module")
def undisturbed(cluster, tmp_path_factory):
    """Return the folder of a run that ended normally."""
    made = {}

    def get(launcher):
        if launcher not in made:
            job = Submitted(cluster, launcher, tmp_path_factory.mktemp(launcher))
            assert job.end() == ("COMPLETED", 0), job.log
            assert job.num_restarts == 0
            assert_complete(job.run, ROUNDS)
            made[launcher] = job.run
        return made[launcher]

    return get


@both
def test_rank_0_is_lost(cluster, launcher, tmp_path, undisturbed):
    """The job is requeued, and its result is that of a run without failures."""
    job = Submitted(cluster, launcher, tmp_path / "job")
    job.lose(0, 5)
    assert job.end() == ("COMPLETED", 0), job.log
    assert job.num_restarts == 1
    assert_complete(job.run, ROUNDS)
    assert_same_run(undisturbed(launcher), job.run)


@pytest.mark.parametrize("node", ["n1", "n2"], ids=["of the script", "other"])
@both
def test_a_node_loses_its_power(cluster, launcher, node, tmp_path):
    """The job continues on other nodes."""
    job = Submitted(cluster, launcher, tmp_path / "job", rounds=100)
    job.wait(lambda: job.has_reached(5))
    try:
        cluster.power_off(node)
        assert job.end() == ("COMPLETED", 0), job.log
    finally:
        cluster.power_on(node)
    assert job.num_restarts == 1, job.log
    assert_complete(job.run, 100)


@both
def test_the_time_limit_is_near(cluster, launcher, tmp_path, undisturbed):
    job = Submitted(cluster, launcher, tmp_path / "job")
    job.wait(lambda: job.has_reached(5))
    target = ["--batch"] if "B:USR1" in documented(launcher) else []
    cluster.run("scancel", "--signal=USR1", *target, job.id)
    assert job.end() == ("COMPLETED", 0), job.log
    assert job.num_restarts == 1 and "resume with" in job.log
    assert_same_run(undisturbed(launcher), job.run)


@both
def test_the_run_continues_after_the_time_limit(cluster, launcher, tmp_path):
    """Slurm sends the signal itself, and a second job continues with the next round."""
    batch = "B:" if "B:USR1" in documented(launcher) else ""
    # Slurm sends the signal up to one minute earlier.
    sizes = {"time": "00:02:00", "signal": f"{batch}USR1@30"}
    job = Submitted(cluster, launcher, tmp_path / "job", rounds=100_000, **sizes)
    job.wait(lambda: "stopped after round" in job.log)
    saved = int(re.findall(r"stopped after round (\d+)", job.log)[0])
    job.wait(lambda: f"from round {saved + 1} to" in job.log and job.has_reached(saved + 5))
    assert job.num_restarts == 1
    cluster.run("scancel", job.id)
    job.end()
    rounds = [line["round"] for line in Record.open(job.run).rounds()]
    assert rounds == list(range(1, len(rounds) + 1))


@quick("srun")
def test_a_cancelled_job_is_not_requeued(cluster, launcher, tmp_path):
    """With srun, the ranks receive the signal themselves and save the run."""
    job = Submitted(cluster, launcher, tmp_path / "job", "run.checkpoint_every=0", rounds=3000)
    job.wait(lambda: job.has_reached(5))
    cluster.run("scancel", job.id)
    state, _ = job.end()
    assert state == "CANCELLED" and job.num_restarts == 0, job.log
    if launcher == "srun":
        assert_saved(job)


@pytest.mark.soak
@pytest.mark.parametrize("launcher", ["mpirun"])
def test_a_job_is_saved_before_it_is_stopped(cluster, launcher, tmp_path):
    job = Submitted(cluster, launcher, tmp_path / "job", "run.checkpoint_every=0", rounds=3000)
    job.wait(lambda: job.has_reached(5))
    cluster.run("scancel", "--batch", "--signal=TERM", job.id)
    assert job.end() == ("FAILED", 130) and job.num_restarts == 0, job.log
    assert_saved(job)


def assert_saved(job):
    """Check that the newest checkpoint is that of the last complete round."""
    record = Record.open(job.run)
    checkpoint, problems = record.newest()
    assert checkpoint is not None and not problems
    assert checkpoint.round == len(record.rounds())
    assert f"stopped after round {checkpoint.round}; resume with" in job.log


@quick("srun")
def test_a_mistake_of_the_user_is_not_requeued(cluster, launcher, tmp_path):
    job = Submitted(cluster, launcher, tmp_path / "job", "run.members=1")
    assert job.end() == ("FAILED", 2), job.log
    assert job.num_restarts == 0 and "2 ranks are more than the 1 member" in job.log


@both
def test_restarts_are_limited(cluster, launcher, tmp_path):
    job = Submitted(cluster, launcher, tmp_path / "job", rounds=3000)
    for attempt in range(4):
        job.lose(0, 3 * attempt, attempt)
    state, status = job.end()
    assert state == "FAILED" and status > 2, job.log
    message = f"Not requeued after 3 restarts. To resume {RUNS[launcher]}, submit again."
    assert job.num_restarts == 3 and message in job.log
