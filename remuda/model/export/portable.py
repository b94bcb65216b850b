"""Select what to export: generators, their weights, and how labels choose among them."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from remuda.errors import UserError
from remuda.gan.players import sampled_tensors
from remuda.gan.sampling import sample_rows
from remuda.model.model import Model
from remuda.strategies.routing import Routing
from remuda.tensors import trees


@dataclass(frozen=True, eq=False, kw_only=True)
class Portable:
    """The generators of a trained model, as a function of noise and labels."""

    network: nn.Module  # in evaluation mode; only its structure is used
    weights: dict[str, Tensor]  # (rows, ...): one row for each exported generator
    buffers: frozenset[str]  # names of the weights that a network may overwrite
    routing: Routing  # chooses a row of the weights for each image
    latent: int
    shape: tuple[int, ...]  # of one image, (C, H, W)
    classes: tuple[str, ...]  # of the labels; empty if the model takes no labels
    counts: tuple[int, ...]  # training images of each class
    label: int | None = None  # the class, if only one was selected
    member: int | None = None  # the member, if only one was selected

    @property
    def num_rows(self) -> int:
        """The number of exported generators."""
        return max(self.routing.members) + 1

    @property
    def row_of_image(self) -> dict[str, Any]:
        """The routing as JSON values, for config.json."""
        by, rows, shares = self.routing
        return {"by": by, "rows": list(rows)} | ({"shares": list(shares)} if shares else {})


def select(model: Model, label: int | None = None, member: int | None = None) -> Portable:
    """Return the whole model, only one class, or only the generator of one member."""
    gan, facts = model.context.gan, model.facts
    routing = model.strategy.routing(model.context, model.engine, model.state)
    names = tuple(facts.classes[: model.num_labels])
    counts = tuple(facts.counts[: model.num_labels])
    if member is not None:
        routing = Routing("label", (_checked(member, routing),) * max(1, len(names)))
    if label is not None:
        names, counts = (), ()
        if routing.by == "label":
            routing = Routing("label", (routing.members[label],))
    used = sorted(set(routing.members))
    rows = tuple(used.index(one) for one in routing.members)
    pairs = model.strategy.generators(model.engine, model.state)
    chosen = trees.to(trees.row(pairs, torch.tensor(used, device=model.engine.device)), "cpu")
    params, buffers = sampled_tensors(chosen)
    return Portable(
        network=gan.sampler,
        weights=params | buffers,
        buffers=frozenset(buffers),
        routing=routing._replace(members=rows),
        latent=gan.networks.latent,
        shape=tuple(gan.shape),
        classes=names,
        counts=counts,
        label=label,
        member=member,
    )


def images_of(model: Model, noise: Tensor, labels: Tensor, member: int | None) -> Tensor:
    """Return the images that remuda itself generates, as floats: what an export must reproduce."""
    device = model.engine.device
    noise, labels = noise.to(device), labels.to(device)
    if member is None:
        strategy = model.strategy
        images = strategy.generate(model.context, model.engine, model.state, noise, labels)
    else:
        pairs = model.strategy.generators(model.engine, model.state)
        rows = torch.full_like(labels, member)
        images = sample_rows(model.context.gan, pairs, rows, noise, labels)
    return images.cpu()


def _checked(member: int, routing: Routing) -> int:
    used = sorted(set(routing.members))
    if routing.by == "label" and len(used) > 1:
        raise UserError("labels choose the members of this model: select one with --label")
    if member not in used:
        shown = ", ".join(map(str, used[:12])) + (", ..." if len(used) > 12 else "")
        raise UserError(f"member {member} generates no images of this model: choose one of {shown}")
    return member
