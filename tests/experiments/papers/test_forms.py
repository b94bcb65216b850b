"""Tables and figures from hand-made folders, and analytic tables."""

import csv

import pytest

from remuda.errors import UserError
from remuda.experiments import traffic
from remuda.experiments.papers import RESULTS, Options, evidence_from, redraw, reproduce
from remuda.experiments.papers import traffic_tables as tables
from remuda.experiments.papers.curves import Scored
from remuda.experiments.papers.description import Evidence
from tests.experiments.papers.folders import make_run, make_study
from tests.reports.page.records import add_grid, add_scores, score_line

MLP = RESULTS["md-gan-figure-3-mlp"]


def works(result):
    return {work.name: work for work in result.works}


def read(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def scored(fid):
    names = "fid_500_test_lenet", "mnist-score_500_lenet"
    return [(t, {names[0]: fid - t, names[1]: 7.0 + t}) for t in (1, 2, 3)]


def test_curves_from_runs_that_exist(tmp_path):
    """A run is recognised by its settings, wherever it is and on whatever engine it trained."""
    known, place = works(MLP), tmp_path / "mine"
    standalone = make_run(place / "a", known["standalone-b-100"], scored(20), images=100_000)
    elsewhere = {"settings": ("engine.name=mpi", "run.seed=3", "run.rounds=3")}
    make_run(place / "b", known["md-gan-k-1"], scored(30), members=10, images=20_000, **elsewhere)
    later = score_line(3, "fid_10k_test_lenet", 5.0, num_samples=10_000, reference="test")
    add_scores(standalone, later)  # of `remuda score`; another protocol
    options = Options(out=tmp_path / "out")
    evidence = evidence_from(MLP, [place], options)
    assert evidence.folders == {"standalone-b-100": [standalone], "md-gan-k-1": [place / "b"]}
    assert evidence_from(MLP, [tmp_path], options) == evidence
    page, table, picture = redraw(MLP, evidence, options).files
    lines = [line for line in read(table) if line["curve"] == "standalone, b = 100"]
    fids = {
        float(line["iteration"]): float(line["value"]) for line in lines if "fid" in line["name"]
    }
    assert fids == {1000.0: 19.0, 2000.0: 18.0, 3000.0: 17.0}
    assert {line["iteration"] for line in read(table)} == {"200.0", "400.0", "600.0"} | {
        "1000.0",
        "2000.0",
        "3000.0",
    }
    assert (
        picture.read_bytes().startswith(b"\x89PNG") and "18.000 ± 1.000 (n = 3)" in page.read_text()
    )
    assert "FL-GAN, b = 10: no run folder of fl-gan-b-10 is in --from" in page.read_text()


def test_a_score_that_no_run_has_gets_no_diagram(tmp_path):
    """Without Inception's head, runs on CIFAR-10 have no Inception score."""
    fids = [(t, {"fid_500_test_lenet": 20.0 - t}) for t in (1, 2, 3)]
    make_run(tmp_path / "a", works(MLP)["standalone-b-100"], fids, images=100_000)
    options = Options(out=tmp_path / "out")
    page, *_ = redraw(MLP, evidence_from(MLP, [tmp_path], options), options).files
    text = page.read_text()
    assert "| run | fid_500_test_lenet | last iteration |" in text
    assert "| standalone, b = 100 | 18.000 ± 1.000 (n = 3) | 3,000 |" in text
    assert "MNIST score: no run has this score" in text


def test_a_run_of_another_experiment_is_refused(tmp_path):
    folder = make_run(
        tmp_path / "a", works(MLP)["md-gan-k-1"], settings=("strategy.generator_lr=0.1",)
    )
    with pytest.raises(UserError, match=r"differs from md-gan-k-1 in strategy\.generator_lr"):
        evidence_from(MLP, [folder], Options())
    with pytest.raises(UserError, match="uses no training runs"):
        evidence_from(RESULTS["cellular-figure-4"], [folder], Options())


def test_crashes_are_marked(tmp_path):
    work = works(RESULTS["md-gan-figure-5-mlp"])["crashes"]
    folder = make_run(tmp_path / "a", work, scored(20), rounds=60, members=10, images=20_000)
    assert Scored.read([folder]).crashes == [5000.0, 10000.0]


def test_seeds_are_averaged(tmp_path):
    result = RESULTS["class-parallel-table-5"]
    work = works(result)["dc-gan"]
    folders = [
        make_run(tmp_path / f"{i}", work, [(1000, {"mnist-score_10k_lenet": 8.0 + i})])
        for i in range(2)
    ]
    options = Options(out=tmp_path / "out")
    gaps = {"dc-gan": "seed-002: the loss is NaN", "dc-cgan": "no space left"}
    evidence = Evidence(folders={"dc-gan": folders}, gaps=gaps)
    page, table = redraw(result, evidence, options).files
    text = page.read_text()
    assert "| DC-GANs | 2.54 ± 0.54 | 8.500 ± 0.707 (n = 2) | gap (3) |" in text
    assert "| DC-CGANs | 2.62 ± 0.03 | gap (1) | gap (1) |" in text
    assert "gap (1): no space left" in text and "Differences in protocol" in text
    assert "Seeds that failed" in text and "- dc-gan: seed-002: the loss is NaN" in text
    first = read(table)[0]
    assert (first["paper"], first["here"], first["count"]) == ("2.54", "8.5", "2")
    assert first["name"] == "mnist-score_10k_lenet"


def test_times_on_ranks(tmp_path):
    result = RESULTS["cellular-table-3"]
    folder = make_study(tmp_path / "study", {1: [6.0, 6.0, 6.0], 2: [3.0, 3.0, 3.0]})
    evidence = Evidence(folders={"2x2-ranks": [folder]})
    page, _ = redraw(result, evidence, Options(out=tmp_path / "out", short=True)).files
    text = page.read_text()
    assert "| 2 x 2 | 339.6 | 20.00 ± 0.00 (n = 3) | 39.81 ± 0.01 | 10.00 ± 0.00 (n = 3) |" in text
    assert "8.53 | 2.00 | 5 | 2 |" in text and "**short**" in text and "(short)" in text
    assert "4x4-ranks was not run" in text


def test_one_core_has_no_speedup(tmp_path):
    folder = make_study(tmp_path / "study", {1: [6.0]})
    evidence = Evidence(folders={"2x2-ranks": [folder]})
    result = RESULTS["cellular-table-3"]
    page, _ = redraw(result, evidence, Options(out=tmp_path / "out")).files
    assert "only one core" in page.read_text()


def test_weak_scaling(tmp_path):
    result = RESULTS["w-cgan-figure-6-cifar10"]
    folder = make_study(tmp_path / "study", {1: [2.0], 2: [2.5]})
    evidence = Evidence(folders={"w-cgan-weak-scaling": [folder]})
    page, table, picture = redraw(result, evidence, Options(out=tmp_path / "out")).files
    assert read(table)[1]["efficiency"] == "80.0%" and picture.stat().st_size > 1000
    assert "DC-CGAN: dc-cgan-weak-scaling was not run" in page.read_text()


def test_final_scores_over_workers(tmp_path):
    result = RESULTS["md-gan-figure-4"]
    assert len(result.works) == 12
    folder = make_run(tmp_path / "a", works(result)["n-1-b-10-no-swaps"], scored(20))
    evidence = Evidence(folders={"n-1-b-10-no-swaps": [folder]})
    _, table, picture = redraw(result, evidence, Options(out=tmp_path / "out")).files
    found = {(line["series"], line["name"]): line["value"] for line in read(table)}
    assert found["constant load on workers, swaps", "fid_500_test_lenet"] == "17.0"
    assert found["constant load on workers, no swaps", "fid_500_test_lenet"] == "17.0"
    assert picture.stat().st_size > 1000


def test_sample_grids(tmp_path):
    result = RESULTS["class-parallel-table-8"]
    folder = make_run(tmp_path / "a", works(result)["distributed-dc-cgan"])
    (folder / "samples").mkdir()
    evidence = Evidence(folders={"distributed-dc-cgan": [folder]})
    options = Options(out=tmp_path / "out")
    assert "has no samples yet" in redraw(result, evidence, options).files[0].read_text()
    add_grid(folder, 7)
    picture = redraw(result, evidence, options).files[-1]
    assert picture.read_bytes() == (folder / "samples/round-000007.png").read_bytes()


def test_routines_as_bars(tmp_path):
    result = RESULTS["cellular-figure-4"]
    work = works(result)["4x4-ranks"]
    folder = make_study(tmp_path / "study", {1: [6.0], 2: [3.0]})
    seconds = {"gather": 1.0, "train": 3.0, "update_genomes": 1.5, "mutate": 0.5}
    for ranks in (1, 2):
        run = make_run(folder / f"{ranks}-ranks-1", work, rounds=0)
        routines = {name: value / ranks for name, value in seconds.items()}
        line = '{"round": 1, "seconds": 6, "images": 9600, "images_per_second": 1, '
        losses = f'"discriminator_loss": {[0.0] * 16}, "routines": {routines}'.replace("'", '"')
        (run / "rounds.jsonl").write_text(line + losses + "}\n")
    evidence = Evidence(folders={"4x4-ranks": [folder]})
    _, table, picture = redraw(result, evidence, Options(out=tmp_path / "out")).files
    train = read(table)[1]
    assert (train["single core, here"], train["distributed, here"]) == ("10", "5")
    assert train["single core, paper"] == "264.9" and picture.stat().st_size > 1000
    page = redraw(RESULTS["cellular-table-4"], evidence, Options(out=tmp_path / "out")).files[0]
    assert "| 83.5 | 50.0 | 6.05 | 2.00 |" in page.read_text()


# Analytic tables


def test_the_analytic_tables_are_those_of_traffic():
    setting = tables.setting("cifar10")
    assert (setting.num_workers, setting.batch_size, setting.iterations) == (10, 10, 50_000)
    messages = traffic.md_gan(setting)
    _, rows = tables.table_3()
    assert rows[1][-1] == f"{messages.down:,}" and rows[0][2].replace(",", "").isdecimal()
    _, rows = tables.table_4()
    assert rows[4][1::2] == ["100", "1,000", "50,000", "50,000"]
    assert float(rows[1][2]) == pytest.approx(traffic.fl_gan(setting).down / 2**20, rel=1e-3)
    assert float(rows[5][6]) == pytest.approx(messages.across / 2**20, rel=1e-3)
    _, rows = tables.table_2()
    complexities = traffic.complexities(setting)
    assert [row[4] for row in rows] == [f"{one.md_gan:.4g}" for one in complexities]
    _, rows = tables.crossings("mnist")
    assert rows[0][2] == f"{traffic.crossing_batch(tables.setting('mnist')):,.0f}" == "457"


@pytest.mark.parametrize("name", ["md-gan-table-2", "md-gan-table-4", "md-gan-figure-2-cifar10"])
def test_analytic_results_need_no_runs(name, tmp_path):
    files = reproduce(RESULTS[name], Options(out=tmp_path, short=True)).files
    assert not any("short" in path.name for path in files)
    assert all(path.stat().st_size > 100 for path in files)
    assert len(files) == (3 if "figure" in name else 2)
