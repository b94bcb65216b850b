"""Mixtures of a cellular run: shown, scored, and evolved further after training."""

import pytest
import torch

import remuda
from remuda.config import from_dict, to_dict
from remuda.errors import UserError
from remuda.experiments import mixtures
from remuda.population import mixture
from remuda.record import Record
from remuda.strategies import Cellular
from remuda.strategies.mixtures import centres
from remuda.tensors import trees
from remuda.training.assemble import assemble
from tests.cli.test_cli import in_process


def grid(**strategy):
    values = {
        "height": 2,
        "width": 3,
        "batch_size": 8,
        "steps_per_round": 2,
        "mixture_samples": 20,
        **strategy,
    }
    return from_dict(
        {
            "data": {"name": "digits"},
            "networks": {"name": "mlp", "latent": 8, "hidden": 16},
            "strategy": {"name": "cellular", **values},
            "engine": {"device": "cpu"},
            "run": {"rounds": 3, "checkpoint_every": 2},
        }
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return remuda.run(grid(), tmp_path_factory.mktemp("grid") / "run")


@pytest.fixture
def run(tmp_path):
    """Return a run that a test may change."""
    return remuda.run(grid(), tmp_path / "run")


def test_every_cell_has_a_mixture(trained):
    model = remuda.load(trained)
    found = mixtures.mixtures(model)
    assert [(each.cell, each.row, each.column) for each in found] == [
        (0, 0, 0), (1, 0, 1), (2, 0, 2), (3, 1, 0), (4, 1, 1), (5, 1, 2)
    ]  # fmt: skip
    assert [list(each.weights) for each in found][:2] == [[0, 2, 3, 1], [1, 0, 4, 2]], (
        "itself, west, north, east"
    )
    assert all(sum(each.weights.values()) == pytest.approx(1) for each in found)
    assert [each.distance for each in found] == model.state.distance.tolist()
    (best,) = [each.cell for each in found if each.is_best]
    assert best == min(range(6), key=lambda cell: found[cell].distance)
    assert all(each.is_alive for each in found)


def test_a_model_of_one_cell_draws_from_its_mixture(trained):
    model = remuda.load(trained)
    assert isinstance(model.strategy, Cellular)
    noise, labels = torch.randn(9, 8), torch.zeros(9, dtype=torch.int64)
    for cell in range(6):
        mine = mixtures.only(model, cell)
        images = mine.strategy.generate(mine.context, mine.engine, mine.state, noise, labels)
        slots = mixture.draw(model.state.weights[cell], noise)
        pairs = centres(model.state.sides.generators)
        for i, author in enumerate(model.state.around[cell][slots].tolist()):
            pair = trees.row(pairs, author)
            expected = model.context.gan.sample(pair, noise[i : i + 1], labels[i : i + 1])
            assert torch.allclose(images[i : i + 1], expected, atol=1e-6)


def test_each_mixture_is_scored_by_the_runs_protocol(trained):
    model = remuda.load(trained)
    (best,) = [each.cell for each in mixtures.mixtures(model) if each.is_best]
    scores = mixtures.score(trained, model, 60)
    assert list(scores) == list(range(6)) and all(
        values[0].name == "fid_60_train_lenet" for values in scores.values()
    )
    (whole,) = remuda.score(
        trained, device="cpu", kinds="fid", samples=60, notify=lambda text: None
    )
    assert scores[best][0].value == whole.value, "the model is the best mixture"
    assert len({values[0].value for values in scores.values()}) > 1


def test_points_are_scored_by_their_modes(tmp_path):
    config = grid(height=1, width=2)
    values = to_dict(config) | {"data": {"name": "ring"}}
    folder = remuda.run(from_dict(values), tmp_path / "run")
    scores = mixtures.score(folder, remuda.load(folder), 100)
    assert [value.name for value in scores[0]][:2] == ["modes_100", "high-quality_100"]


def test_evolution_follows_the_arithmetic_of_the_mixture(trained):
    """Check one cell by hand: all steps use the same samples, and only improvements are kept."""
    model, herd = remuda.load(trained), assemble(grid())
    before, state = mixtures.evolve(herd, model, 5)
    assert isinstance(herd.strategy, Cellular)
    real = herd.batches.draw(model.round * herd.num_batches, 3)
    features, truth = herd.strategy.search.features(
        herd.context, model.state.sides.generators, real, model.round
    )
    assert features.shape == (6, 20, 64) and truth.shape == (6, 20, 64)
    means = mixture.kernels(features[model.state.around[4]], truth[4])
    assert before[4] == float(mixture.distance(model.state.weights[4], means))
    assert float(state.distance[4]) == pytest.approx(
        float(mixture.distance(state.weights[4], means))
    )
    assert not torch.equal(state.weights, model.state.weights)
    assert state.sides is model.state.sides


def test_no_distance_grows_and_more_steps_reduce_it(trained):
    model, herd = remuda.load(trained), assemble(grid())
    before, few = mixtures.evolve(herd, model, 3)
    _, many = mixtures.evolve(herd, model, 40)
    before = torch.tensor(before, dtype=torch.float64)
    assert (
        (few.distance <= before).all()
        and (many.distance <= few.distance).all()
        and (many.distance < before).any()
    )


def test_optimised_weights_replace_those_of_the_checkpoint(run):
    old = remuda.load(run)
    before, model = mixtures.optimise(run, 30, device="cpu")
    again = remuda.load(run)
    assert again.round == old.round == 3
    assert torch.equal(again.state.weights, model.state.weights) and not torch.equal(
        again.state.weights, old.state.weights
    )
    assert (again.state.distance <= torch.tensor(before)).all()
    on_these, _ = mixtures.evolve(assemble(grid()), again, 1)
    assert on_these == pytest.approx(again.state.distance.tolist()), (
        "the state holds the distance on the same samples"
    )
    remuda.resume(run, rounds=4)
    assert remuda.load(run).round == 4


def test_an_earlier_checkpoint_may_be_chosen(run):
    newest = remuda.load(run).state.weights
    mixtures.optimise(run, 30, checkpoint=2, device="cpu")
    assert torch.equal(remuda.load(run).state.weights, newest)
    assert [c.name for c in sorted((run / "checkpoints").iterdir())] == [
        "round-000002",
        "round-000003",
    ]


def test_cells_that_have_left_do_not_mix(tmp_path):
    config = grid(height=1, width=3, lose_every=1)
    folder = remuda.run(config, tmp_path / "run")
    mixtures.optimise(folder, 20, device="cpu")
    found = mixtures.mixtures(remuda.load(folder))
    assert sum(each.is_alive for each in found) == 1
    assert all(each.weights == {each.cell: 1.0} for each in found)
    (last,) = [each for each in found if each.is_alive]
    assert last.is_best
    assert list(mixtures.score(folder, remuda.load(folder), 60)) == [last.cell]


def test_mixtures_by_the_features_of_the_scores_with_subsets(tmp_path):
    values = to_dict(grid(mixture_by="network"))
    values["data"] |= {"partition": "subset", "fraction": 0.1}
    folder = remuda.run(from_dict(values), tmp_path / "run")
    before, model = mixtures.optimise(folder, 20, device="cpu")
    assert (model.state.distance <= torch.tensor(before)).all()


def test_bad_input(trained, tiny, tmp_path):
    other = remuda.run(from_dict(tiny), tmp_path / "other")
    for words, sentence in {
        ("mixture", other): "only runs of the strategies cellular and cellular-async have mixtures",
        (
            "mixture",
            other,
            "--optimise",
            3,
        ): "only runs of the strategies cellular and cellular-async have mixtures",
        ("mixture", tmp_path): "not a run",
        ("mixture", trained, "--checkpoint", 7): "no checkpoint of round 7",
        ("mixture", trained, "--optimise", -1): "at least 1",
    }.items():
        status, said = in_process(*words)
        assert status == 2 and sentence in said and len(said.strip().splitlines()) == 1, said
    with Record.open(trained).locked(), pytest.raises(UserError, match="another process"):
        mixtures.optimise(trained, 1, device="cpu")


def test_the_command(run, capsys):
    assert in_process("mixture", run, "--device", "cpu", "--n", 60)[0] == 0
    shown = capsys.readouterr().out
    assert shown.count("best") == 1 and "fid_60" in shown
    assert in_process("mixture", run, "--device", "cpu", "--optimise", 5)[0] == 0
    shown = capsys.readouterr().out
    assert "before" in shown and "saved as the checkpoint of round 3" in shown
