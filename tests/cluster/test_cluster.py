"""Test that the batch scripts of the documentation train first, then resume."""

import os
import re
import subprocess

import pytest
import typer

from remuda import recipes
from remuda.cli import app
from tests.test_docs import DOCS, blocks

SCRIPTS = [text for text in blocks(DOCS / "cluster.md", "sh") if text.startswith("#!/bin/bash")]
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
OPTION = re.compile(r"#SBATCH --([a-z-]+)(?:=(\S+))?")


def options(script):
    lines = [line for line in script.splitlines() if line.startswith("#SBATCH")]
    matches = [OPTION.fullmatch(line) for line in lines]
    assert all(matches), lines
    return {match[1]: match[2] for match in matches if match}


@pytest.fixture
def cluster(tmp_path):
    """Create stand-ins for the commands of a node; remuda logs its arguments and its caller."""
    folder = tmp_path / "remuda" / "bin"
    folder.mkdir(parents=True)
    (folder / "activate").write_text("")
    for name, script in {
        "module": "",
        "srun": '[ "$1 $2" = "--mpi=pmix --wait=60" ] && shift 2 && BY=srun exec "$@"',
        "remuda": 'echo "${BY:-batch}" "$@" >> calls',
    }.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return tmp_path


def run(script, cluster):
    """Run a batch script and return who calls remuda, the command, and its arguments."""
    asked = options(script)
    environment = {
        "HOME": str(cluster),
        "PATH": f"{cluster / 'remuda' / 'bin'}:{os.environ['PATH']}",
        "SLURM_NTASKS": asked["ntasks"],
        "SLURM_CPUS_PER_TASK": asked["cpus-per-task"],
    }
    (cluster / "calls").unlink(missing_ok=True)
    subprocess.run(
        ["bash", "-eu"],
        input=script,
        text=True,
        cwd=cluster,
        env=environment,
        check=True,
        timeout=60,
    )
    (call,) = (cluster / "calls").read_text().splitlines()
    by, command, *words = call.split()
    COMMANDS[command].make_context(command, list(words))  # every flag is known
    return by, command, words


@pytest.mark.parametrize("script", SCRIPTS, ids=["cpu", "gpu"])
def test_a_batch_script_trains_and_then_resumes(script, cluster):
    by, command, words = run(script, cluster)
    assert command == "train" and "mpi" in words
    config = recipes.recipe(words[0])
    assert int(options(script)["ntasks"]) <= config.strategy.num_members(config.run.members, 10)
    folder = cluster / words[words.index("--out") + 1]
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("")
    assert run(script, cluster)[:2] == (by, "resume")


@pytest.mark.parametrize("script", SCRIPTS, ids=["cpu", "gpu"])
def test_the_signal_of_slurm_reaches_the_ranks(script, cluster):
    """Slurm signals ranks that it has started; otherwise the script, which signals remuda."""
    by = run(script, cluster)[0]
    assert options(script)["signal"].startswith("USR1@" if by == "srun" else "B:USR1@")
    assert ("trap 'kill -USR1 $!' USR1" in script) == (by == "batch")


def test_the_scripts_request_enough_nodes_for_their_tasks():
    for asked in map(options, SCRIPTS):
        assert int(asked["ntasks"]) <= int(asked["nodes"]) * int(asked["ntasks-per-node"])
