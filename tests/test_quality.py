"""Check that the page on quality agrees with its file of results, its chart and the recipes."""

import importlib.util
import json
import shlex
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image

from remuda import UserError, recipes
from remuda.record import Reader
from remuda.record.scores import Score

ROOT = Path(__file__).parents[1]
OUTDATED = "run python benchmarks/quality.py"


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("quality", ROOT / "benchmarks" / "quality.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


quality = load_script()
DATA = quality.read()


def test_the_page_has_the_tables_of_the_file():
    page = quality.PAGE.read_text()
    assert quality.filled(page, DATA) == page, OUTDATED
    changed = {**DATA, "run": [{**DATA["run"][0], "minutes": 99.5}, *DATA["run"][1:]]}
    assert "| 99.5 |" in quality.filled(page, changed)


def test_the_chart_has_the_numbers_of_the_file():
    with Image.open(quality.CHART) as chart:
        assert chart.info["Description"] == quality.plotted(DATA), OUTDATED


@pytest.mark.parametrize("run", DATA["run"], ids=lambda run: run["recipe"])
def test_commands_repeat_the_runs(run):
    words = shlex.split(run["command"])
    assert words[:3] == ["remuda", "train", run["recipe"]]
    assert run["recipe"] in quality.cifar10_recipes()
    flags = list(zip(words[3::2], words[4::2], strict=True))
    assert {flag for flag, _ in flags} <= {"--rounds", "--seed", "--set", "--device"}
    options = dict(flags)
    config = recipes.recipe(run["recipe"], *(value for flag, value in flags if flag == "--set"))
    assert int(options.get("--rounds", config.run.rounds)) == run["rounds"]
    assert int(options.get("--seed", config.run.seed)) == run["seed"]
    if "picture" in run:
        with Image.open(quality.PICTURES / run["picture"]) as picture:
            assert picture.format == "PNG"


def test_the_readme_quotes_the_best_run():
    best = min(run[quality.FID_50K] for run in DATA["run"] if quality.FID_50K in run)
    assert f"FID {best:.1f}" in (ROOT / "README.md").read_text()


# A new run


def make_score(t: int, name: str, value: float) -> Score:
    protocol = dict(num_samples=10_000, seed=0, reference="train", num_reference=50_000)
    digests = dict(reference_digest="", network="inception", network_digest="")
    return Score(
        round=t, name=name, value=value, precision="fp32", seconds=1.0, **protocol, **digests
    )


def write_run(folder: Path, names: list[str]) -> Reader:
    """Write the files of a run that had two rounds and was resumed once."""
    (folder / "config.toml").write_text("[run]\nseed = 3\n")
    command = ["/bin/remuda", "train", "standalone-cifar10", "--out", "runs/a", "--seed", "3"]
    parts = [{"command": command, "seconds": {"total": total}} for total in (60.0, 45.0)]
    (folder / "environment.json").write_text(json.dumps(parts))
    (folder / "rounds.jsonl").write_text("".join(f'{{"round": {t}}}\n' for t in (1, 2)))
    scores = [(1, name, 99.0) for name in names] + [(2, name, 12.345678) for name in names]
    lines = [json.dumps(asdict(make_score(*score))) for score in scores]
    (folder / "scores.jsonl").write_text("\n".join(lines) + "\n")
    return Reader.open(folder)


def test_a_run_folder_becomes_an_entry(tmp_path):
    run = write_run(tmp_path, [quality.FID_10K, quality.KIDS[1], "is_10k_inception"])
    assert quality.entry(run) == {
        "recipe": "standalone-cifar10",
        "command": "remuda train standalone-cifar10 --seed 3",
        "seed": 3,
        "rounds": 2,
        "minutes": 1.8,  # 105 s
        quality.FID_10K: 12.35,
        quality.KIDS[1]: 12.3457,
        "picture": "standalone-cifar10-2-rounds.png",
    }


def test_a_run_without_the_score_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"no fid_10k_train_inception .*: run remuda score"):
        quality.entry(write_run(tmp_path, ["is_10k_inception"]))
