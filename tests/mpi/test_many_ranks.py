"""Many ranks write to the launcher at the same time; users see only complete lines of rank 0."""

import re

import pytest

from remuda import config
from tests.mpi.killing import configured
from tests.mpi.starting import remuda

LINE = re.compile(r"training 16 members from round 1 to 2 in |round [12]/2 |samples: |page: |took ")


@pytest.mark.soak
@pytest.mark.parametrize("attempt", range(5))
def test_sixteen_ranks_leave_no_trace_of_their_markers(tmp_path, attempt):
    recipe = tmp_path / "recipe.toml"
    settings = ["run.members=16", "run.rounds=2", "run.sample_every=2"]
    recipe.write_text(config.to_toml(configured("fl-gan", *settings)))
    words = ("train", recipe, "--engine", "mpi", "--ranks", 16, "--out", tmp_path / "run")
    result = remuda(*words, timeout=600)
    assert result.returncode == 0 and result.stderr == "", result.stderr
    stray = [line for line in result.stdout.splitlines() if not LINE.match(line)]
    assert not stray and not re.search(r"[^\n\x20-\x7e]", result.stdout), result.stdout
