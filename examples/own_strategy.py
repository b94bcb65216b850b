"""Write your own strategy: pairs in a ring, each of which averages with its two neighbours.

Usage: python examples/own_strategy.py [OUT]
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from remuda import RunConfig, Strategy, assemble, save_grid
from remuda.networks import MLP
from remuda.tensors import trees


@dataclass(frozen=True, kw_only=True)
class Ring(Strategy):
    """Train pairs, and average each pair with its neighbours every few rounds."""

    mix_every: int = 2  # rounds between two averages, >= 1
    partitions: ClassVar[tuple[str, ...]] = ("iid", "dirichlet", "subset")

    def num_members(self, requested, num_classes):
        return requested or 5

    def init(self, context, engine):
        return self.new_pairs(context, engine)

    def round(self, context, engine, state, real, t):
        state, metrics = self.train_pairs(context, engine, state, real, t)
        if t % self.mix_every == 0:
            members = torch.arange(engine.size)[:, None]
            table = (members + torch.tensor([-1, 0, 1])) % engine.size  # (N, 3)
            state = engine.map(mix, state, engine.take(state, table))
        return state, metrics

    def authors(self, engine, state, noise, labels):
        return torch.zeros_like(labels)  # member 0 generates every image


def mix(own, near):
    """Return the mean of three members' rows. Integers (dropout's keys) stay the member's own."""
    return trees.map(lambda a, three: three.mean(0) if a.is_floating_point() else a, own, near)


out = Path(sys.argv[1] if len(sys.argv) > 1 else "runs")
strategy = Ring(batch_size=32, generator_lr=1e-3)
herd = assemble(RunConfig(networks=MLP(hidden=128), strategy=strategy))
state = herd.start()
for t in range(1, 11):
    state, metrics = herd.round(state, t)
    print(f"round {t}  generator losses", *(f"{loss:.3f}" for loss in metrics["generator_loss"]))
out.mkdir(parents=True, exist_ok=True)
save_grid(herd.model(state, t).sample(64), 8, out / "own_strategy.png")
print(f"sent by members in the last round: {herd.traffic()}; picture: {out / 'own_strategy.png'}")
