"""Asynchronous cellular training: who sees what, on hand-made paces, and exact repetition."""

from types import SimpleNamespace

import pytest
import torch

from remuda.data.batches import Batch, Batches
from remuda.engines import Metered, Stacked
from remuda.errors import UserError
from remuda.networks import MLP
from remuda.strategies import AsyncCellular, Cellular
from remuda.strategies.mixtures import MixtureSearch
from remuda.tensors import random, trees

EQUAL = (1.0, 1.0, 1.0, 1.0)
FITNESS = {"generator_fitness", "discriminator_fitness"}  # only synchronous training reports it
SLOW_LAST = (1.0, 1.0, 1.0, 0.2)  # cell 3 takes five times as long as the others


class Case(SimpleNamespace):
    """A strategy with everything it needs to run some rounds."""

    def __init__(self, data, kind=AsyncCellular, networks=None, layout="loop", **options):
        options = {"batch_size": 4, "steps_per_round": 2, "mixture_samples": 6, **options}
        self.strategy = kind(**options)
        networks = networks or MLP(latent=5, hidden=9)
        self.context = self.strategy.prepare(networks, data.shape, 3, seed=7)
        size = self.strategy.num_members(0, 3)
        self.engine = Metered(Stacked(size, layout=layout))
        shares = [torch.arange(len(data.labels))] * size
        self.batches = Batches(data, shares, members=range(size), batch_size=4, seed=7)

    def start(self):
        return self.strategy.init(self.context, self.engine)

    def step(self, state, t):
        real = self.strategy.draw(self.batches, t, 2)
        return self.strategy.round(self.context, self.engine, state, real, t)

    def rounds(self, count):
        """Return all states, the metrics and the arrivals of each round."""
        states, lines, arrivals = [self.start()], [], []
        for t in range(1, count + 1):
            state, metrics = self.step(states[-1], t)
            states.append(state)
            lines.append(metrics)
            arrivals.append(list(self.engine.arrivals))
        return states, lines, arrivals


@pytest.mark.parametrize(
    "options",
    [
        {},
        dict(population=2),
        dict(selection="none", neighbourhood="moore"),
        dict(loss="wasserstein", annealing="linear", annealing_rounds=2.0, final_penalty=0.5),
        dict(mustangs="update", skip_discriminator=1, ema=0.9),
    ],
    ids=str,
)
def test_first_turns_are_the_first_round_of_synchronous_training(toy_data, options):
    """All of them read the initial centres; they have the same keys, batches and schedules."""
    states, (metrics,), _ = Case(toy_data, speeds=EQUAL, **options).rounds(1)
    (_, expected), (wanted,), _ = Case(toy_data, Cellular, **options).rounds(1)
    found = states[-1].runners.rows
    assert trees.equal(found.sides, expected.sides)
    assert metrics["turns"].tolist() == [1.0] * 4
    for name in set(wanted) - {"mixture_distance", *FITNESS}:
        assert torch.allclose(metrics[name], wanted[name]), name
    assert torch.equal(found.around, expected.around) and found.alive.all()


def test_a_mixture_has_the_neighbours_generators_from_before_their_turns(toy_data):
    """In synchronous training it has their new ones, with the labels of their own images."""
    case = Case(toy_data, speeds=EQUAL)
    (start, state), _, _ = case.rounds(1)
    table = case.strategy.exchange_table(4, 7)
    search, context = MixtureSearch(6, case.strategy.mixture_mutation), case.context
    for cell in range(4):
        real = case.batches.draw_row(cell, 0, 2)
        labels = real.labels.flatten()[:6]
        features = []
        for other in table[cell].tolist():
            source = state if other == cell else start
            generators = trees.row(source.runners.rows.sides.generators, other)
            key = torch.tensor(random.key(7, "cells", 1, other))
            features.append(search.draw_samples(context, generators, labels, key).flatten(1))
        truth = real.images[0].flatten(0, 1)[:6].flatten(1).float() / 127.5 - 1
        key = torch.tensor(random.key(7, "cells", 1, cell))
        present = torch.ones(3, dtype=torch.bool)
        first = start.runners.rows.weights[cell]
        weights, distance = search.improve(first, present, torch.stack(features), truth, key)
        assert torch.allclose(state.runners.rows.weights[cell], weights)
        assert torch.allclose(state.runners.rows.distance[cell], distance)


def test_equal_speeds_let_later_cells_see_more(toy_data):
    """Turns end in the order of the cells.

    At its n-th turn, a cell sees n turns of cells with lower numbers and n - 1 of the others.
    """
    case = Case(toy_data, speeds=EQUAL)
    table = case.strategy.exchange_table(4, 7).tolist()
    assert table == [[0, 1, 2], [1, 0, 3], [2, 3, 0], [3, 2, 1]]
    states, _, arrivals = case.rounds(3)
    for n, round_arrivals in enumerate(arrivals):
        assert [arrival.member for arrival in round_arrivals] == [0, 1, 2, 3]
        for cell, arrival in enumerate(round_arrivals):
            older = max(0, n - 1)
            expected = [n if other <= cell else older for other in table[cell]]
            assert arrival.facts == expected, (n, cell)
    runners = states[-1].runners
    assert runners.turns.tolist() == [3, 3, 3, 3] and runners.clock.tolist() == [4.0] * 4
    assert runners.seen.tolist() == [[3, 2, 2], [3, 3, 2], [3, 2, 3], [3, 3, 3]]
    # The mail holds these centres: cell 1 has those of cell 0 after 3 turns, of cell 3 after 2.
    for cell, around in enumerate(table):
        for slot, other in enumerate(around):
            seen = int(runners.seen[cell, slot])
            centre = trees.row(states[seen].runners.rows.centres(), other)
            assert trees.equal(trees.map(lambda x, c=cell, s=slot: x[c, s], runners.mail), centre)


def test_nobody_waits_for_a_slow_cell(toy_data):
    """Cell 3 ends its first turn at time 5, just after the fifth turns of the others."""
    states, lines, arrivals = Case(toy_data, speeds=SLOW_LAST).rounds(4)
    order = [arrival.member for each in arrivals for arrival in each]
    assert order == [0, 1, 2] * 5 + [3]
    assert [line["turns"].tolist() for line in lines] == [
        [2, 1, 1, 0],
        [1, 2, 1, 0],
        [1, 1, 2, 0],
        [1, 1, 1, 1],
    ]
    runners = states[-1].runners
    assert runners.turns.tolist() == [5, 5, 5, 1]
    assert runners.seen.tolist() == [[5, 4, 4], [5, 5, 0], [5, 0, 5], [1, 5, 5]]
    assert arrivals[-1][-1].facts == [0, 0, 0], "it has worked with the initial centres"
    for line in lines[:3]:  # reported as 0 until the first turn ends
        for name in ("generator_loss", "discriminator_loss", "mixture_distance"):
            assert line[name][3] == 0 and line[name][:3].all()
    assert lines[3]["generator_loss"][3] > 0


def test_the_model_does_not_use_the_mixture_of_a_cell_without_a_turn(toy_data):
    case = Case(toy_data, speeds=SLOW_LAST)
    (_, state), _, _ = case.rounds(1)
    found = case.strategy.mixtures(state)
    assert [each.distance == float("inf") for each in found] == [False, False, False, True]
    assert not found[3].is_best and sum(each.is_best for each in found) == 1
    chosen = case.strategy.choose_mixture(state, 3)
    assert [each.is_best for each in case.strategy.mixtures(chosen)] == [False] * 3 + [True]

    def draw_real(count):
        return case.batches.draw(100, count)

    before, evolved = case.strategy.evolve_mixtures(case.context, state, draw_real, 1, steps=5)
    after = [each.distance for each in case.strategy.mixtures(evolved)]
    assert all(new <= old for old, new in zip(before, after, strict=True))
    assert trees.equal(evolved.runners.mail, state.runners.mail)


@pytest.mark.parametrize("layout", ["loop", "vmap"])
def test_a_recorded_order_repeats_exactly(toy_data, layout):
    """Even with a schedule, because that follows the turns of each cell."""
    options = dict(annealing="linear", annealing_rounds=3.0, final_lr=0.1, layout=layout)
    first = Case(toy_data, **options)  # random durations
    states, lines, arrivals = first.rounds(4)
    turns = torch.stack([line["turns"] for line in lines])
    assert turns.sum(1).tolist() == [4.0] * 4 and (turns != 1).any(), "the order is not trivial"
    again = Case(toy_data, speeds=EQUAL, **options)  # another pace, which a replay ignores
    state = again.start()
    for t, order in enumerate(arrivals, start=1):
        again.engine.follow(order)
        state, metrics = again.step(state, t)
        expected = states[t].runners
        assert trees.equal(state.runners._replace(clock=expected.clock), expected)
        assert trees.equal(metrics, lines[t - 1])


def test_one_cell_is_synchronous_training(toy_data):
    options = dict(height=1, width=1)
    states, lines, _ = Case(toy_data, **options).rounds(3)
    expected, wanted, _ = Case(toy_data, Cellular, **options).rounds(3)
    assert trees.equal(states[-1].runners.rows, expected[-1])
    for line, other in zip(lines, wanted, strict=True):
        assert all(torch.allclose(line[name], other[name]) for name in set(other) - FITNESS)
        assert line["turns"].tolist() == [1.0]


def test_all_turns_share_one_program(toy_data):
    """An engine looks up programs by their functions; a new one per turn would take too long."""
    case = Case(toy_data)
    stacked = Stacked(4, layout="vmap", compile="never")
    case.engine = Metered(stacked)
    case.rounds(2)
    assert len(stacked.single(0).programs) == 1


def test_the_synchronous_strategy_has_the_same_settings():
    given = dict(batch_size=5, height=3, neighbourhood="ring", population=2, ema=0.5)
    assert AsyncCellular(speeds=(1.0,) * 6, **given).paper == Cellular(**given)


def test_samples_of_a_mixture_have_the_labels_of_the_cells_own_images(toy_data, monkeypatch):
    asked, draw_samples = [], MixtureSearch.draw_samples

    def spy(self, context, generators, labels, key):
        asked.append((labels.tolist(), int(key)))
        return draw_samples(self, context, generators, labels, key)

    monkeypatch.setattr(MixtureSearch, "draw_samples", spy)
    case = Case(toy_data, height=1, width=2, mixture_samples=11, speeds=(1.0, 1.0))
    case.rounds(1)
    real = case.batches.draw(0, 2)
    assert isinstance(real, Batch) and len(asked) == 4
    for cell, parts in enumerate((asked[:2], asked[2:])):
        own = real.labels[cell].flatten().tolist()
        assert all(labels == own + own[:3] for labels, _ in parts)
        assert len({key for _, key in parts}) == 2, "generators do not share their noise"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (dict(height=0), "strategy.height must be at least 1, not 0"),
        (dict(mixture_mutation=0.0), "must be above 0"),
        (dict(mustangs="update", loss="wasserstein"), "requires a loss of probabilities"),
        (dict(speeds=(1.0, 0.0, 1.0, 1.0)), "strategy.speeds must be finite numbers above 0"),
        (dict(speeds=(1.0, float("nan"))), "strategy.speeds must be finite numbers above 0"),
        (dict(speeds=(1e-320,)), "and at least 1e-300, not"),  # 1 / speed is infinite
    ],
    ids=str,
)
def test_bad_settings(toy_data, options, sentence):
    with pytest.raises(UserError, match=sentence):
        Case(toy_data, **options)


@pytest.mark.parametrize("name", ["schedule", "lose_every"])
def test_neighbourhoods_are_fixed(name):
    with pytest.raises(TypeError, match=name):
        AsyncCellular(**{name: "2: moore"})
