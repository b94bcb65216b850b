"""Toy runs of a strategy on an engine, which the contract tests share."""

import torch

from remuda.data import partition
from remuda.data.batches import Batches
from remuda.data.config import DataConfig
from remuda.engines import Metered, Stacked
from remuda.networks import ACGANMLP, DCGAN, MLP, R3GAN, SAGAN
from remuda.strategies import STRATEGIES
from remuda.strategies.context import facts_of
from remuda.tensors import trees
from tests.networks.small import small as small_networks

ENGINES = {
    "stacked-loop": lambda size: Stacked(size, layout="loop"),
    "stacked-vmap": lambda size: Stacked(size, layout="vmap"),
    "metered": lambda size: Metered(Stacked(size)),
}
if torch.cuda.is_available():
    ENGINES["stacked-cuda"] = lambda size: Stacked(size, "cuda", compile=False, precision="fp32")
NETWORKS = {
    "mlp": MLP(latent=6, hidden=12),
    "mlp-conditional": MLP(latent=6, hidden=12, conditional=True),
    "dcgan": DCGAN(latent=6, width=8),
    "acgan-mlp": ACGANMLP(latent=6, hidden=12),
    "r3gan": R3GAN(latent=6, width=4, blocks=1, group_width=4, conditional=True),
    "sagan": SAGAN(
        latent=6, width=4, discriminator_width=4, attention_size=8, conditional=True, head="ac-gan"
    ),
}
# A choice between equals may depend on the last bit, so engines are compared without choices, and
# with mutations of mixtures that are too small to matter.
_UNDECIDED_CELLS = dict(selection="none", replacement="always", mixture_mutation=1e-4)
UNDECIDED = dict.fromkeys(("cellular", "cellular-async"), _UNDECIDED_CELLS)


class Small:
    """A strategy with everything it needs to run some rounds on toy data."""

    def __init__(self, data, strategy, engine, networks="mlp", seed=3, members=0, **settings):
        num_classes = len(data.classes)
        self.strategy = STRATEGIES[strategy](batch_size=4, steps_per_round=2, **settings)
        pair = NETWORKS[networks] if networks in NETWORKS else small_networks(networks, latent=6)
        self.context = self.strategy.prepare(pair, data.shape, num_classes, seed)
        size = self.strategy.num_members(members, num_classes)
        self.engine = ENGINES[engine](size)
        config = DataConfig(partition=self.strategy.partitions[0])
        groups = self.strategy.share_groups(size, members)
        shares = partition(data.labels, groups[-1].stop, config, num_classes, seed)
        self.batches = Batches(
            data,
            shares,
            members=self.engine.members,
            groups=groups,
            batch_size=4,
            seed=seed,
            device=self.engine.device,
        )
        self.num_batches = self.strategy.batches_per_round(6)

    def start(self):
        return self.strategy.init(self.context, self.engine)

    def generate(self, state, noise, labels):
        return self.strategy.generate(self.context, self.engine, state, noise, labels)

    def train(self, rounds, state=None, start=0):
        state = self.start() if state is None else state
        metrics = []
        for t in range(start + 1, start + rounds + 1):
            real = self.strategy.draw(self.batches, t, self.num_batches)
            state, values = self.strategy.round(self.context, self.engine, state, real, t)
            metrics.append(values)
        return state, metrics


def facts(metrics):
    """Return the facts that a strategy has added to its metrics, by name."""
    return dict(trees.named_leaves(facts_of(metrics)))


def assert_pure(small, state, start):
    """Run the next round twice from a state: it leaves the state intact, and repeats exactly."""
    before = trees.map(torch.clone, state)
    first, _ = small.train(1, state, start)
    assert trees.equal(state, before)
    second, _ = small.train(1, state, start)
    assert trees.equal(first, second) and not trees.equal(first, state)


def assert_reported(small, metrics):
    """Check that every member reports finite numbers."""
    for name, values in metrics.items():
        assert values.shape == (small.engine.size,) and values.isfinite().all(), name
    for name, values in facts(metrics).items():
        assert len(values) == small.engine.size and values.isfinite().all(), name
        if not values.is_floating_point():
            assert ((values >= 0) & (values < small.engine.size)).all(), f"{name} are positions"
