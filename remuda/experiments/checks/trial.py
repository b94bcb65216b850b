"""Train a herd for a few tiny rounds, and check the promises that all strategies share."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from remuda.config import RunConfig
from remuda.experiments.checks.outcome import Promise
from remuda.strategies import Strategy
from remuda.tensors import random, trees
from remuda.training.assemble import assemble, pytorch_settings
from remuda.training.herd import Herd

NUM_SAMPLES = 7
# Largest difference between loop and vmap, as a fraction of what training has changed. Adam turns
# gradients that are only rounding into whole steps, so it is not smaller.
ROUNDING = 0.02


def small(config: RunConfig) -> RunConfig:
    """Return the configuration with tiny rounds, on a CPU."""
    return replace(
        config,
        strategy=replace(config.strategy, batch_size=4, steps_per_round=2),
        engine=replace(config.engine, name="stacked", device="cpu", layout="loop"),
    )


class Trial:
    """Tiny runs of one configuration."""

    def __init__(self, config: RunConfig):
        self.config = small(config)
        self.herd = self.assembled()
        self.first = self.herd.start()
        self.after, self.metrics = self.train(self.herd, self.first, 1)

    def assembled(self, layout: str = "loop", seed: int = 0) -> Herd:
        """Return a new herd with this layout and seed."""
        engine = replace(self.config.engine, layout=layout)
        run = replace(self.config.run, seed=self.config.run.seed + seed)
        return assemble(replace(self.config, engine=engine, run=run))

    def train(self, herd: Herd, state: Any, t: int) -> tuple[Any, dict[str, Tensor]]:
        """Run round t."""
        with pytorch_settings(self.config.engine):
            return herd.step(state, t)

    def promises(self) -> list[Promise]:
        """Return the promises of every training."""
        return [
            ("a round changes the state, and all numbers are finite", self.learns),
            ("a round leaves its state intact, and repeats exactly", self.repeats),
            ("a run with the same seed is equal, with another seed different", self.follows_seed),
            ("training resumes exactly from saved tensors", self.resumes),
            ("samples have the shape of the data, in [-1, 1]", self.samples),
            ("a sample does not depend on the others in its batch", self.samples_alone),
        ]

    def learns(self) -> str:
        if trees.equal(self.first, self.after):
            return "a round changes nothing"
        for name, leaf in trees.named_leaves((self.after, self.metrics)):
            if not leaf.isfinite().all():
                return f"{name} is not finite after a round"
        for name, values in self.metrics.items():
            if values.shape != (self.herd.engine.size,):
                return f"the metric {name} has shape {tuple(values.shape)}, not one per member"
        return ""

    def repeats(self) -> str:
        before = trees.map(torch.clone, self.after)
        first, _ = self.train(self.herd, self.after, 2)
        changed = different(self.after, before)
        if changed:
            return f"a round changes {changed} of the state that it receives in place"
        second, _ = self.train(self.herd, self.after, 2)
        name = different(first, second)
        return f"{name} differs when the round runs again" if name else ""

    def follows_seed(self) -> str:
        herd = self.assembled()
        name = different(self.train(herd, herd.start(), 1)[0], self.after)
        if name:
            return f"{name} differs in a second run with the same seed"
        other = self.assembled(seed=1)
        if trees.equal(self.train(other, other.start(), 1)[0], self.after):
            return "another seed gives the same result: draw from keys of context.seed"
        return ""

    def resumes(self) -> str:
        saved = {name: leaf.clone() for name, leaf in trees.named_leaves(self.after)}
        whole, _ = self.train(self.herd, self.after, 2)
        again = self.assembled()
        resumed, _ = self.train(again, trees.fill(again.start(), saved), 2)
        name = different(whole, resumed)
        return f"{name} differs after a resume: keep all state in tensors" if name else ""

    def agrees_with_vmap(self) -> str:
        """Compare two rounds of both layouts."""
        stacked = self.assembled("vmap")
        state, _ = self.train(stacked, stacked.start(), 1)
        state, _ = self.train(stacked, state, 2)
        expected, _ = self.train(self.herd, self.after, 2)
        start, found, wanted = (_numbers(tree) for tree in (self.first, state, expected))
        if (found - wanted).norm() > ROUNDING * (wanted - start).norm():
            return "the results of engine.layout=loop and vmap differ by more than rounding"
        return ""

    def generate(self, indices: list[int]) -> Tensor:
        """Return the images of these positions in a fixed batch of noise and labels."""
        herd, context = self.herd, self.herd.context
        key = torch.tensor(random.key(self.config.run.seed, "check"))
        noise = random.normal(key, (NUM_SAMPLES, context.gan.networks.latent))
        labels = torch.arange(NUM_SAMPLES) % max(1, herd.num_labels)
        # A run draws its samples in the same way, even if a user's strategy overrides ``generate``.
        return Strategy.generate(
            herd.strategy, context, herd.engine, self.after, noise[indices], labels[indices]
        )

    def samples(self) -> str:
        images, shape = self.generate(list(range(NUM_SAMPLES))), self.herd.context.gan.shape
        if images.shape != (NUM_SAMPLES, *shape):
            return f"samples have shape {tuple(images.shape[1:])}, the data {shape}"
        if not images.abs().max() <= 1:
            return "samples exceed [-1, 1] in evaluation mode: end the generator with tanh"
        return ""

    def samples_alone(self) -> str:
        together, alone = self.generate(list(range(NUM_SAMPLES))), self.generate([2])
        if not torch.allclose(together[2:3], alone, atol=1e-5):
            return (
                "an image changes with its batch: in evaluation mode, use no statistics of the "
                "batch and no random numbers"
            )
        return ""


def different(one: Any, other: Any) -> str:
    """Return the name of the first leaf that differs, or an empty text."""
    pairs = zip(trees.named_leaves(one), trees.named_leaves(other), strict=True)
    return next((name for (name, a), (_, b) in pairs if not torch.equal(a, b)), "")


def _numbers(tree: Any) -> Tensor:
    floating = [leaf for leaf in trees.leaves(tree) if leaf.is_floating_point()]
    return torch.cat([leaf.double().flatten() for leaf in floating])
