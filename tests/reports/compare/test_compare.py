"""Comparisons of hand-made runs: groups, means, spreads, marks and notes."""

import dataclasses
import json
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy import stats

from remuda import config
from remuda.errors import UserError
from remuda.record import DataFacts, Record
from remuda.reports.compare import compare
from remuda.reports.compare.significance import mann_whitney, smallest_p
from remuda.scores.base import Value

FID = "fid_10k_train_inception"


def value(name, number, **fields):
    usual = {
        "num_samples": 10_000,
        "seed": 0,
        "reference": "train",
        "num_reference": 1437,
        "reference_digest": "1111aaaa2222bbbb",
        "network": "inception",
        "network_digest": "3333cccc4444dddd",
        "precision": "fp32",
        "seconds": 1.5,
    }
    return Value(name=name, value=number, **{**usual, **fields})


def make_run(
    folder, scores=(), *, num_rounds=4, bytes=None, name="digits", counts=(700, 737), **sections
):
    """Write a run folder without pictures; ``scores`` are values, or pairs of round and value."""
    values = {
        "data": {"name": name},
        "networks": {"name": "mlp", **sections.get("networks", {})},
        "strategy": {"name": "class-parallel", **sections.get("strategy", {})},
        "engine": sections.get("engine", {}),
        "run": {"rounds": 4, **sections.get("run", {})},
        "scores": sections.get("scoring", {}),
    }
    facts = DataFacts(
        name=name,
        shape=(1, 8, 8),
        classes=[str(i) for i in range(len(counts))],
        counts=list(counts),
    )
    record = Record.create(folder, config.from_dict(values), facts)
    record.add_environment({"device": sections.get("device", "cpu")})
    for t in range(1, num_rounds + 1):
        line = {
            "round": t,
            "generator_loss": [0.5, 0.5],
            "seconds": 2.5,
            "images": 100 * t,
            "images_per_second": 40.0,
        }
        record.add_round(line | ({} if bytes is None else {"bytes": bytes}))
    add_scores(folder, *scores)
    return folder


def add_scores(folder, *scores):
    with (folder / "scores.jsonl").open("a") as file:
        for score in scores:
            t, one = score if isinstance(score, tuple) else (4, score)
            file.write(json.dumps({"round": t, **dataclasses.asdict(one)}) + "\n")


def make_repeats(folder, numbers, first_seed=0, score=FID, **sections):
    run = sections.pop("run", {})
    return [
        make_run(
            folder / f"seed-{seed:03d}",
            [value(score, number)],
            run={**run, "seed": seed},
            **sections,
        )
        for seed, number in enumerate(numbers, start=first_seed)
    ]


def noted(comparison, text):
    return any(text in note for note in comparison.notes)


# Arithmetic


def test_mean_spread_and_p_of_repeats(tmp_path):
    standalone = make_repeats(tmp_path / "a", [10.0, 12.0, 17.0], strategy={"name": "standalone"})
    parallel = make_repeats(tmp_path / "b", [5.0, 4.0, 9.0])
    comparison = compare(standalone + parallel)
    assert [one.name for one in comparison.groups] == ["standalone", "class-parallel"]
    (column,) = comparison.columns
    first, second = column.cells
    assert (first.value, first.spread) == (13.0, pytest.approx(13**0.5)), (
        "deviations -3, -1, 4: 26 / 2"
    )
    assert (second.value, second.spread) == (6.0, pytest.approx(7**0.5)), (
        "deviations -1, -2, 3: 14 / 2"
    )
    assert first.p is None and second.p == pytest.approx(0.1), (
        "two of the 20 ways to divide six values by three"
    )
    assert column.best == 6.0 and noted(comparison, "3 against 3 give at least 0.1")


def test_one_folder_needs_no_list(tmp_path):
    (folder,) = make_repeats(tmp_path / "a", [10.0])
    assert [one.name for one in compare(str(folder)).groups] == [folder.name]
    assert [one.name for one in compare(folder).groups] == [folder.name]


@pytest.mark.parametrize(
    ("one", "other", "p"),
    [
        ([1, 2, 3], [4, 5, 6], 2 / 20),
        # U = 1: one of 20 divisions has U = 0, one has U = 1; both tails count.
        ([1, 2, 4], [3, 5, 6], 4 / 20),
        ([1, 2], [3, 4], 2 / 6),
        ([1, 1, 1], [2, 2, 2], 2 / 20),  # ties inside the groups change nothing
        # Ranks 1 3 3 | 3 5.5 5.5: three divisions have the smallest sum, 7.
        ([1, 2, 2], [2, 3, 3], 6 / 20),
        ([8, 8, 8], [8, 8, 8], 1.0),
    ],
)
def test_p_by_hand(one, other, p):
    assert mann_whitney(one, other) == pytest.approx(p)
    assert mann_whitney(other, one) == pytest.approx(p)


def test_smallest_possible_p():
    assert [smallest_p(*n) for n in ((1, 1), (2, 2), (3, 3), (2, 3))] == pytest.approx(
        [1, 1 / 3, 0.1, 0.2]
    )


@given(some.lists(some.integers(0, 9), min_size=5, max_size=9), some.integers(2, 3))
def test_p_is_a_count_over_all_divisions(numbers, cut):
    ranks = stats.rankdata(numbers)
    sums = [sum(ranks[list(part)]) for part in combinations(range(len(ranks)), cut)]
    mine = sum(ranks[:cut])
    tails = sum(x <= mine + 1e-9 for x in sums), sum(x >= mine - 1e-9 for x in sums)
    expected = min(1.0, 2 * min(tails) / len(sums))
    assert mann_whitney(numbers[:cut], numbers[cut:]) == pytest.approx(expected)


def test_many_ties_use_the_normal_approximation():
    one, other = [1.0, 2.0] * 10, [2.0, 3.0] * 10
    expected = stats.mannwhitneyu(one, other, method="asymptotic").pvalue
    assert mann_whitney(one, other) == pytest.approx(expected) and expected < 0.001


def test_cost_of_the_runs(tmp_path):
    make_repeats(tmp_path, [1.0, 2.0], bytes=1000)
    with (tmp_path / "seed-001/rounds.jsonl").open("a") as file:
        line = {"round": 5, "seconds": 10.0, "images": 500, "images_per_second": 10, "bytes": 2000}
        file.write(json.dumps(line) + '\n{"round": 6, "sec')
    row = compare([tmp_path]).render("csv").splitlines()[1]
    # 4 x 2.5 and 4 x 2.5 + 10 seconds, 4,000 and 6,000 bytes: medians
    assert row.startswith("class-parallel,class-parallel,2,2,4-5,400-500,15.0,5000,1.5,")


# Groups and names


def test_seed_device_and_checkpoints_do_not_split_a_group(tmp_path):
    runs = [
        make_run(tmp_path / "a"),
        make_run(tmp_path / "b", run={"seed": 1, "checkpoint_every": 2, "tensorboard": True}),
        make_run(
            tmp_path / "c",
            run={"seed": 2, "members": 2},
            engine={"device": "cuda", "precision": "bf16"},
        ),
        make_run(tmp_path / "d", run={"seed": 3, "rounds": 5}, num_rounds=5),
        make_run(tmp_path / "e", run={"seed": 4}, counts=(700, 738)),
    ]
    comparison = compare(runs)
    assert [[run.folder.name for run in one.runs] for one in comparison.groups] == [
        ["a", "b", "c"],
        ["d"],
        ["e"],
    ]
    assert [one.name for one in comparison.groups] == ["class-parallel", "d", "e"]
    assert noted(comparison, "engine.precision differs (auto, bf16)")
    assert noted(comparison, "different data") and noted(comparison, "digits, 1,438 of 1x8x8")


def test_runs_that_keep_their_best_checkpoint(tmp_path):
    runs = make_repeats(tmp_path, [3.0, 4.0], run={"keep_best": FID}, scoring={"every": 4})
    (group,) = compare(runs).groups
    assert [run.num_members for run in group.runs] == [2, 2]


def test_numbers_of_workers_split_groups_with_equal_populations(tmp_path):
    few = {"name": "md-gan", "discriminators": 3}
    runs = [
        make_run(tmp_path / str(n), run={"members": n, "seed": n}, strategy=few) for n in (6, 7)
    ]
    assert [one.settings["run.members"] for one in compare(runs).groups] == [6, 7]


def test_names_have_the_settings_that_differ(tmp_path):
    make_repeats(tmp_path / "a", [1.0, 2.0], strategy={"loss": "hinge", "batch_size": 32})
    make_repeats(tmp_path / "b", [1.0, 2.0], strategy={"loss": "minimax", "batch_size": 32})
    make_repeats(tmp_path / "c", [1.0, 2.0], strategy={"loss": "least-squares"})
    make_repeats(
        tmp_path / "d", [1.0, 2.0], strategy={"loss": "least-squares"}, networks={"hidden": 16}
    )
    comparison = compare([tmp_path / name for name in "abcd"])
    assert [one.name for one in comparison.groups] == [
        "class-parallel loss=hinge",
        "class-parallel loss=minimax",
        "class-parallel loss=least-squares hidden=256",
        "class-parallel loss=least-squares hidden=16",
    ]
    assert noted(
        comparison,
        "strategy.batch_size: 32 (class-parallel loss=hinge, class-parallel loss=minimax); 64 (",
    )


def test_single_runs_are_named_by_their_folders(tmp_path):
    runs = [
        make_run(tmp_path / one / "run", run={"seed": 0}, strategy={"loss": one})
        for one in ("hinge", "minimax")
    ]
    assert [one.name for one in compare(runs).groups] == ["hinge/run", "minimax/run"]
    assert [one.name for one in compare(runs[:1]).groups] == ["run"]


def test_the_same_seed_twice_raises(tmp_path):
    a, b = make_run(tmp_path / "a"), make_run(tmp_path / "b", engine={"device": "cuda"})
    for runs in ([a, b], [a, a]):
        with pytest.raises(
            UserError, match=r"the same settings and the same seed 0.*leave one out"
        ):
            compare(runs)


# Scores


def test_only_values_of_the_same_protocol_share_a_column(tmp_path):
    runs = [
        make_run(tmp_path / "a", [value(FID, 50.0), value("fid_5k_train_inception", 40.0)]),
        make_run(
            tmp_path / "b",
            [value(FID, 30.0, reference_digest="9999eeee0000ffff")],
            strategy={"loss": "hinge"},
        ),
    ]
    comparison = compare(runs)
    assert [(c.label, [cell and cell.value for cell in c.cells]) for c in comparison.columns] == [
        (f"{FID} [reference 1111aaaa]", [50.0, None]),
        (f"{FID} [reference 9999eeee]", [None, 30.0]),
        ("fid_5k_train_inception", [40.0, None]),
    ]
    assert all(column.best is None for column in comparison.columns)
    assert noted(comparison, f"{FID}: measured against different references")


def test_different_precisions_are_noted(tmp_path):
    a = make_run(tmp_path / "a", [value(FID, 50.0)])
    b = make_run(tmp_path / "b", [value(FID, 51.0, precision="tf32")], run={"seed": 1})
    assert noted(compare([a, b]), "different precisions (fp32, tf32)")


def test_the_last_scored_round_and_a_chosen_one(tmp_path):
    folder = make_run(
        tmp_path / "a", [(2, value(FID, 80.0)), (3, value(FID, 70.0)), (3, value(FID, 60.0))]
    )
    (column,) = compare([folder]).columns
    assert (column.cells[0].round, column.cells[0].value) == (3, 60.0), (
        "scored again: the last line counts"
    )
    assert noted(compare([folder]), "after round 3, not the last one trained")
    then = compare([folder], round=2)
    assert then.columns[0].cells[0].value == 80.0 and not noted(then, "not the last")
    assert ",2,200,5.0," in then.render("csv"), "rounds, images and seconds as they stood"
    with pytest.raises(UserError, match="none of these runs has a score of round 1"):
        compare([folder], round=1)


def test_seeds_without_the_score_are_left_out_and_named(tmp_path):
    make_repeats(tmp_path, [10.0, 20.0])
    make_run(tmp_path / "seed-002", [(2, value(FID, 99.0))], num_rounds=3, run={"seed": 2})
    comparison = compare([tmp_path])
    (cell,) = comparison.columns[0].cells
    assert cell.values == [10.0, 20.0], "rounds are not mixed"
    assert "(2 of 3)" in comparison.render()
    assert noted(comparison, "seed-002, which has no score of round 4")
    assert noted(comparison, "seed-002: reached round 3 of 4")


def test_runs_without_scores_or_rounds(tmp_path):
    comparison = compare([make_run(tmp_path / "a", num_rounds=0)])
    assert comparison.columns == [] and noted(comparison, "remuda score RUN")
    assert "a,class-parallel,1,2,0,0,0.0," in comparison.render("csv")


def test_directions(tmp_path):
    low = ["fid_1k_train_inception", "kid_1k_train_inception", "tvd_1k_lenet"]
    high = [
        "is_1k_inception",
        "mnist-score_1k_lenet",
        "precision_1k_x",
        "recall_1k_x",
        "density_1k_x",
        "coverage_1k_x",
    ]
    names = [*low, *high, "modes_1k", "neighbours_1k"]
    a = make_run(tmp_path / "a", [value(name, 1.0) for name in names])
    b = make_run(tmp_path / "b", [value(name, 2.0) for name in names], strategy={"loss": "hinge"})
    best = {column.name: column.best for column in compare([a, b]).columns}
    assert best == {
        **dict.fromkeys(low, 1.0),
        **dict.fromkeys([*high, "modes_1k"], 2.0),
        "neighbours_1k": None,
    }


# Damage


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.toml", "[run\n"),
        ("config.toml", "[run]\nsede = 3\n"),
        ("data.json", "{}"),
        ("environment.json", "[[1]]"),
        ("rounds.jsonl", "{\n"),
        ("rounds.jsonl", "[1]\n"),
        ("rounds.jsonl", '{"round": 1, "images": 3}\n'),
        ("rounds.jsonl", '{"round": 1, "images": 3, "seconds": 1.0, "bytes": "many"}\n'),
        ("scores.jsonl", "nonsense\n"),
        ("scores.jsonl", "[]\n"),
        ("scores.jsonl", '{"round": 4, "name": "fid", "value": 1.0}\n'),
        (
            "scores.jsonl",
            json.dumps({"round": 4, **dataclasses.asdict(value(FID, float("nan")))}) + "\n",
        ),
        ("scores.jsonl", json.dumps({"round": "4", **dataclasses.asdict(value(FID, 1.0))}) + "\n"),
    ],
)
def test_a_damaged_run_raises_one_sentence(tmp_path, file, content):
    folder = make_run(tmp_path / "a", [value(FID, 1.0)])
    (folder / file).write_text(content)
    with pytest.raises(UserError) as error:
        compare([folder])
    assert "\n" not in str(error.value)


def test_folders_without_runs_raise(tmp_path):
    with pytest.raises(UserError, match="not a run of remuda"):
        compare([tmp_path])
    with pytest.raises(UserError, match="at least one run"):
        compare([])


def test_a_torn_last_line_of_scores_is_ignored(tmp_path):
    folder = make_run(tmp_path / "a", [value(FID, 1.0)])
    (folder / "scores.jsonl").open("a").write('{"round": 4, "na')
    assert compare([folder]).columns[0].cells[0].values == [1.0]
    Record.open(folder).add_scores(4, [value("kid_10k_train_inception", 2.0)])
    assert [column.cells[0].value for column in compare([folder]).columns] == [1.0, 2.0], (
        "nor does it spoil the next"
    )


def test_means_over_different_classes_share_no_column(tmp_path):
    name = "class-kid_10k_train_inception"
    a = make_run(tmp_path / "a", [value(name, 3.0, classes=[2.0, 4.0])])
    b = make_run(tmp_path / "b", [value(name, 1.0, classes=[1.0])], strategy={"loss": "hinge"})
    assert [column.label for column in compare([a, b]).columns] == [
        f"{name} [classes 2]",
        f"{name} [classes 1]",
    ]


# Runs that ended early


def make_ended(folder, name, num_rounds, number, **run):
    """Write a run that used up its time; its rounds take 2.5 seconds."""
    run = {"rounds": 100, "max_minutes": 2.5 * num_rounds / 60, **run}
    scores = [(num_rounds, value(FID, number)), (1, value(FID, 99.0))]
    return make_run(folder / name, scores, num_rounds=num_rounds, run=run)


def test_seeds_that_ended_after_equal_times_are_compared_at_their_own_ends(tmp_path):
    budget = {"max_minutes": 0.1}  # 6 seconds
    a = make_ended(tmp_path, "a", 3, 10.0, seed=0, **budget)
    b = make_ended(tmp_path, "b", 4, 20.0, seed=1, **budget)
    comparison = compare([a, b])
    (cell,) = comparison.columns[0].cells
    assert (cell.value, cell.rounds, cell.lacking) == (15.0, [3, 4], [])
    assert noted(comparison, f"{a}: reached round 3 of 100, stopped after 0.125 of 0.1 minutes.")
    assert not noted(comparison, "not the last one trained")
    assert "3-4" in comparison.render()


def test_an_ended_run_that_lacks_its_last_score_is_noted(tmp_path):
    run = make_run(tmp_path / "a", [(2, value(FID, 9.0))], run={"rounds": 99, "max_minutes": 0.1})
    comparison = compare([run])
    assert comparison.columns[0].cells[0].value == 9.0
    assert noted(comparison, "after round 2, not the last one trained")
