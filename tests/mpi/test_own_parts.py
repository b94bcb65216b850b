"""Runs on ranks with the user's own code."""

import numpy as np

from remuda.record import Reader
from tests.mpi.starting import remuda
from tests.own import TEXT

RECIPE = """
[networks]
name = "mine.py:Tiny"
[strategy]
name = "md-gan"
loss = "mine.py:LOGISTIC"
batch_size = 4
steps_per_round = 2
[run]
members = 3
rounds = 2
[engine]
device = "cpu"
"""


def test_ranks_use_the_code_and_resume_it_if_trusted(tmp_path):
    (tmp_path / "mine.py").write_text(TEXT)
    (tmp_path / "mine.toml").write_text(RECIPE)
    recipe, run = tmp_path / "mine.toml", tmp_path / "run"
    ranks = ("--engine", "mpi", "--ranks", 2)
    result = remuda("train", recipe, *ranks, "--out", run)
    assert result.returncode == 0, result.stderr
    (tmp_path / "mine.py").unlink()
    result = remuda("resume", run, *ranks, "--rounds", 4)
    assert result.returncode == 2 and "add --trust" in result.stderr, result.stderr
    result = remuda("resume", run, *ranks, "--rounds", 4, "--trust")
    assert result.returncode == 0, result.stderr
    (tmp_path / "mine.py").write_text(TEXT)
    here = tmp_path / "here"
    assert remuda("train", recipe, "--rounds", 4, "--out", here).returncode == 0
    for ours, theirs in zip(Reader(run).rounds(), Reader(here).rounds(), strict=True):
        np.testing.assert_allclose(ours["generator_loss"], theirs["generator_loss"], rtol=1e-4)
