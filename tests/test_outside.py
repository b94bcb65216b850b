"""Use remuda from outside: own networks, a kill, a resume, and the model in another program."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import remuda as library
from remuda.record import Reader
from tests.training.test_run import assert_same_run

pytest.importorskip("onnxruntime", reason="needs remuda[onnx]")

ROOT = Path(__file__).parents[1]
SHORT = ["--set", "strategy.steps_per_round=4", "--set", "networks.width=6", "--rounds", "12"]
SHORT += ["--set", "run.checkpoint_every=1", "--device", "cpu"]
# Runs in another process, in which remuda cannot be imported.
ELSEWHERE = """
import sys
sys.modules["remuda"] = sys.modules["torch"] = None
import json, runpy
import numpy as np
model = runpy.run_path("load.py")["load"]()
noise = np.array(json.load(sys.stdin), np.float32)
print(json.dumps(model.sample(len(noise), labels=[3] * len(noise), noise=noise).tolist()))
"""


def remuda(*words, cwd, kill_after_rounds=0):
    """Run a command as a user types it; kill it with SIGKILL after some rounds."""
    words = [sys.executable, "-m", "remuda", *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    process = subprocess.Popen(
        words, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while kill_after_rounds and process.poll() is None and time.monotonic() < deadline:
        if Reader(cwd / "run").num_rounds() >= kill_after_rounds:
            process.kill()
        time.sleep(0.01)
    printed, complaints = process.communicate(timeout=120)
    return process.returncode, printed, complaints


def test_own_networks_from_the_first_round_to_another_program(tmp_path):
    for name in ("own_networks.py", "own_networks.toml"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    recipe = ["train", "own_networks.toml", *SHORT]
    status, _, complaints = remuda(*recipe, "--out", "whole", cwd=tmp_path)
    assert status == 0, complaints

    # Train, kill, and resume without the user's file.
    status, *_ = remuda(*recipe, "--out", "run", cwd=tmp_path, kill_after_rounds=3)
    assert status == -9 and Reader(tmp_path / "run").num_rounds() < 12
    (tmp_path / "own_networks.py").unlink()
    status, _, complaints = remuda("resume", "run", cwd=tmp_path)
    assert status == 2 and "brings its own code" in complaints and "--trust" in complaints
    status, _, complaints = remuda("resume", "run", "--trust", cwd=tmp_path)
    assert status == 0, complaints
    assert_same_run(tmp_path / "whole", tmp_path / "run")

    # Sample, score and export.
    for words in (
        ["sample", "run", "--trust", "--label", "all", "--n", 2],
        ["score", "run", "--trust", "--with", "fid", "--n", 200, "--device", "cpu"],
        ["export", "run", "--trust", "--to", "onnx"],
    ):
        status, _, complaints = remuda(*words, cwd=tmp_path)
        assert status == 0, complaints
    assert (tmp_path / "run" / "sample.png").exists()
    assert [score.name for score in Reader(tmp_path / "run").scores()] == ["fid_200_train_lenet"]

    # Run the model without remuda and PyTorch.
    noise = torch.randn(5, 32, generator=torch.Generator().manual_seed(0))
    done = subprocess.run(
        [sys.executable, "-I", "-c", ELSEWHERE],
        input=json.dumps(noise.tolist()),
        cwd=tmp_path / "run" / "export-onnx",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    expected = library.load(tmp_path / "run", trust=True).sample(5, labels=3, noise=noise)
    found = np.array(json.loads(done.stdout))
    assert np.abs(found - expected.numpy().astype(int)).max() <= 1, "equal but for rounding"
