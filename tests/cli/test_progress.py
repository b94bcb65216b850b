"""The bar fits any width, and keeps the round, the bar and the time left."""

import io
import json
import re
from dataclasses import asdict

import pytest
from rich.console import Console

from remuda.cli import best, progress, relay
from remuda.cli.progress import Bar, Lines
from remuda.cluster.markers import PROGRESS
from remuda.record.scores import Score
from tests.cli.screen import lines, on_terminal

WIDTHS = [40, 60, 80, 110, 200]
TINY = ["networks.name=mlp", "networks.hidden=4", "networks.latent=4", "engine.threads=1"]
METRICS = ["generator_fitness", "discriminator_fitness", "generator_lr", "discriminator_lr"]


def cellular(t: int) -> dict:
    """Return a round of a cellular run with many metrics."""
    line = {"round": t, "seconds": 0.5, "images": 100, "images_per_second": 4619.0}
    line |= {"discriminator_loss": [1.386] * 4, "generator_loss": [0.693] * 4}
    line |= {name: [0.25] * 4 for name in METRICS}
    return line | {"memory": 1.25 * 2**30, "mixture_weights": [[0.5, 0.5]] * 4}


@pytest.fixture
def clock(monkeypatch):
    """A clock that advances only when the test says so."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def shown(bar: Bar, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=True, no_color=True)
    bar.is_live = True
    with console.capture() as capture:
        console.print(bar)
    return re.sub(r"\x1b\[[0-9;]*m", "", capture.get()).rstrip("\n")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("rounds", [200, 50_000])
def test_the_round_the_bar_and_the_time_left_are_always_visible(clock, tmp_path, width, rounds):
    bar = Bar(Console(file=io.StringIO()), reads_best=False)
    bar.start(tmp_path, rounds, 0, 4)
    bar.best = "best fid 12.34"
    for t in (rounds - 3, rounds - 2):
        clock[0] += 1000.0
        bar.round(cellular(t))
    line = shown(bar, width)
    assert "\n" not in line and len(line) <= width, line
    assert re.match(rf"(round )?{rounds - 2:,}/{rounds:,} ━+─* 33 min 20 s", line), line


def test_unimportant_texts_are_dropped_first(clock, tmp_path):
    bar = Bar(Console(file=io.StringIO()), reads_best=False)
    bar.start(tmp_path, 200, 0, 4)
    bar.best = "best fid 12.34"
    clock[0] += 1.0
    bar.round(cellular(100))
    texts = ["best fid 12.34", "1.2 GiB", "G 0.693  D 1.386", "4,619 images/s", "generator_fitness"]
    counts = []
    for width in range(40, 201, 8):
        seen = [text in shown(bar, width) for text in texts]
        assert seen == sorted(seen, reverse=True), (width, seen)
        counts.append(sum(seen))
    assert counts == sorted(counts) and counts[0] == 0 and counts[-1] == len(texts)
    assert "left  best fid 12.34  1.2 GiB  G 0.693  D 1.386" in shown(bar, 80)


def test_the_time_left_shrinks_during_a_round(clock, tmp_path):
    bar = Bar(Console(file=io.StringIO()), reads_best=False)
    bar.start(tmp_path, 10, 0, 4)
    assert "left" not in shown(bar, 80)
    for t, seconds in ((1, 500.0), (2, 60.0)):  # the first round compiles
        clock[0] += seconds
        bar.round(cellular(t))
    assert "8 min 0 s left" in shown(bar, 80)
    clock[0] += 20.0
    assert "7 min 40 s left" in shown(bar, 80)
    clock[0] += 1000.0  # a slow round never makes the time left negative
    assert "7 min 0 s left" in shown(bar, 80)


def test_lines_show_memory_and_the_time_left(clock, tmp_path):
    console = Console(file=io.StringIO(), width=200)
    log = Lines(console)
    log.start(tmp_path, 9, 0, 4)
    for t in (1, 2, 9):
        clock[0] += 10.0
        log.round(cellular(t))
    first, _, second, last = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert first == f"training 4 members from round 1 to 9 in {tmp_path}"
    assert second.endswith("4,619 images/s  1.2 GiB  1 min 10 s left")
    assert last.startswith("round 9/9  ") and "left" not in last


def test_the_best_score_follows_the_record(tmp_path):
    found = best.BestScore(tmp_path)
    assert found.read() == ""
    (tmp_path / "config.toml").write_text('[run]\nkeep_best = ""\n')
    path = tmp_path / "scores.jsonl"
    path.write_text("")
    fields = {"num_samples": 10, "seed": 0, "reference": "", "num_reference": 0, "seconds": 1}
    fields |= {"reference_digest": "", "network": "", "network_digest": "", "precision": ""}
    for t, value in ((1, 30.5), (2, 12.25), (3, 20.0)):
        score = Score(round=t, name="fid_10_train_lenet", value=value, **fields)
        path.write_text(f"{path.read_text()}{json.dumps(asdict(score))}\n")
        assert found.read() == f"best fid {30.5 if t == 1 else 12.25}"


def test_rank_0_and_the_launcher_understand_each_other(tmp_path, capsys, clock):
    rank = relay.Relay(Console(quiet=True))
    console = Console(file=io.StringIO(), force_terminal=True, width=100, no_color=True)
    with relay.Receiver(console) as receiver:
        with rank:
            rank.start(tmp_path, 7, 0, 2)
            rank.round(cellular(3))
        sent = capsys.readouterr().out.rstrip("\n").split("\n")
        assert len(sent) == 4 and all(line.startswith(PROGRESS) for line in sent)
        assert all(len(line) < 1000 for line in sent), "mpirun may break long lines"
        for line in sent:
            receiver.show(line.removeprefix(PROGRESS))
        receiver.show('["rou')  # damaged
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert f"training 2 members in {tmp_path}" in text and "round 3/7 ━━" in text
    assert "1.2 GiB  G 0.693  D 1.386" in text


def test_a_narrow_terminal_without_colours_gets_a_bar(tmp_path):
    settings = [part for word in TINY for part in ("--set", word)]
    # The bar is drawn four times per second, so training must take longer than that.
    words = ["train", "standalone-digits", "--rounds", 400, "--device", "cpu", *settings]
    words += ["--set", "strategy.steps_per_round=1", "--out", tmp_path / "run"]
    status, received = on_terminal(
        *words, width=40, cwd=tmp_path, NO_COLOR="1", OMP_NUM_THREADS="1"
    )
    assert status == 0, received
    bars = [line for line in lines(received) if line.startswith("round ")]
    assert all(len(line) <= 40 for line in bars)
    assert re.match(r"round 400/400 ━+ in \d+ s", bars[-1]), bars
    assert any(re.match(r"round \d+/400 ━*─+ ", line) for line in bars), bars
    assert lines(received)[-3].startswith("samples:")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", received), "NO_COLOR"
