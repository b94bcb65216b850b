"""Untrained models with the record of a run, for tests that export them."""

import runpy

import torch

from remuda import config
from remuda.engines import Stacked
from remuda.model.export import folder
from remuda.model.export.portable import images_of
from remuda.model.model import Model
from remuda.networks.base import Networks
from remuda.record import DataFacts, Record
from remuda.strategies import STRATEGIES

CLASSES = ["cat", "dog", "owl"]


def new_model(networks, strategy=None, shape=(3, 16, 16), members=3, classes=CLASSES, data="toy"):
    """Return a model in its first state; its members have different weights."""
    strategy = strategy or STRATEGIES["class-parallel"]()
    context = strategy.prepare(
        networks,
        shape,
        len(classes),
        seed=1,
        shares=[9] * members,
        class_counts=[[3] * 3] * members,
    )
    engine = Stacked(members)
    return Model(
        strategy=strategy,
        context=context,
        state=strategy.init(context, engine),
        engine=engine,
        facts=DataFacts(name=data, shape=shape, classes=list(classes), counts=[5, 3, 2]),
        num_labels=strategy.num_labels(context.gan, members),
        round=4,
    )


def new_run(path, model, strategy="class-parallel"):
    """Create the record of a run, and return its folder."""
    settings = {"networks": {"name": "mlp"}, "strategy": {"name": strategy}}
    return Record.create(path, config.from_dict(settings), model.facts).folder


def inputs(model, n=11):
    """Return noise and labels, each class at least once."""
    generator = torch.Generator().manual_seed(3)
    noise = torch.randn(n, model.context.gan.networks.latent, generator=generator)
    return noise, torch.arange(n) % max(1, model.num_labels)


def written(path, model, to, **selection):
    """Export a model in this format, and open it with its own loader."""
    run = path / f"run-{to}"
    if not run.exists():
        new_run(run, model)
    target = folder.write_export(model, run, to, **selection)
    return runpy.run_path(str(target / "load.py"))["load"](target)


def opened(path, model, to, monkeypatch):
    """Export a model without a picture; return what the export itself loaded, to save time."""
    found = []
    monkeypatch.setattr(folder, "_draw", lambda loaded, portable, path: found.append(loaded))
    folder.write_export(model, new_run(path / f"run-{to}", model), to)
    return found[0]


def largest_difference(loaded, model, label=None, member=None):
    """Return the largest difference between the images of an export and remuda's own."""
    noise, labels = inputs(model)
    if label is not None:
        labels = torch.full_like(labels, label)
    expected = images_of(model, noise, labels, member)
    given = [labels.tolist()] if loaded.classes else []
    return float((torch.as_tensor(loaded(noise, *given)) - expected).abs().max())


class Custom(Networks):
    """Networks of a user, whose generator is any module."""

    module = None

    def generator(self, shape, num_classes):
        return type(self).module()

    def discriminator(self, shape, num_classes):
        return Discriminator()


class Discriminator(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(()))

    def forward(self, images, labels):
        return self.weight * images.flatten(1).sum(1)


def custom(module):
    """Return networks with this generator class; the noise has 4 numbers."""
    return type("Own", (Custom,), {"module": module})(latent=4)
