"""The command that starts the ranks shows the progress of rank 0 on its terminal."""

import re

from remuda import config
from tests.cli.screen import lines, on_terminal
from tests.mpi.starting import ROOT
from tests.mpi.test_training import VALUES


def test_ranks_get_a_bar_on_a_terminal(tmp_path):
    (tmp_path / "small.toml").write_text(config.to_toml(config.from_dict(VALUES)))
    words = ["train", tmp_path / "small.toml", "--engine", "mpi", "--ranks", "2"]
    status, received = on_terminal(*words, "--out", tmp_path / "a", width=60, PYTHONPATH=str(ROOT))
    assert status == 0, received
    shown = lines(received)
    bars = [line for line in shown if line.startswith("round ")]
    assert re.match(r"round 6/6 ━+ in \d+ s", bars[-1]), shown
    assert all(len(line) <= 60 for line in bars) and any("─" in line for line in bars)
    assert f"training 5 members in {tmp_path / 'a'}" in "".join(shown), "above the bar"
    assert shown.index(bars[-1]) < shown.index(next(x for x in shown if x.startswith("samples:")))
    assert "\x1e" not in received
