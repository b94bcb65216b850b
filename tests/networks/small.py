"""Small networks of every family in ``NETWORKS``, for tests that must cover all families."""

import torch

from remuda.networks import NETWORKS, acgan, acgan_modules

# A family without an entry here fails every test that covers all families.
SETTINGS = {
    "dcgan": dict(width=8),
    "wcgan": dict(width=8, critic_width=4, conditional=True),
    "mlp": dict(hidden=8, conditional=True),
    "acgan-mlp": dict(hidden=8),
    "acgan-mnist": {},
    "acgan-cifar10": {},
    "acgan-celeba": {},
    "r3gan": dict(width=8, blocks=1, group_width=4, conditional=True),
    "resnet": dict(width=8, discriminator_width=4, conditional=True),
    "sagan": dict(
        width=8, discriminator_width=8, attention_size=8, conditional=True, head="ac-gan"
    ),
}


def small(name, **changes):
    """Return networks of this family for images of at least 8x8 pixels; ``changes`` win."""
    return NETWORKS[name](**{"latent": 5, **SETTINGS[name], **changes})


def shrink_acgans(monkeypatch):
    """Replace the papers' widths of convolutional ACGANs, which no setting changes."""
    monkeypatch.setattr(acgan_modules, "WIDTHS", (4, 4, 4, 4, 4, 64))
    for family in (acgan.ACGANMnist, acgan.ACGANCifar10, acgan.ACGANCelebA):
        monkeypatch.setattr(family, "widths", (4,) * len(family.widths))
        monkeypatch.setattr(family, "first_width", lambda self, start: 4)


def without_zeros(params):
    """Change parameters that start at 0, because the gradients of others are 0 until they grow."""
    changed = {}
    for name, param in params.items():
        values = 0.1 * torch.arange(1.0, 1.0 + param.numel(), device=param.device).cos()
        changed[name] = param if param.any() else values.view_as(param).to(param.dtype)
    return changed
