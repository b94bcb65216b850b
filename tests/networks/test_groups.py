"""Every network divides its tensors into groups of layers."""

import pytest
from torch import nn

from remuda.errors import UserError
from remuda.gan.augment import Augmented
from remuda.gan.lipschitz import SpectralNorm
from remuda.networks import NETWORKS, ResNet
from remuda.networks.groups import GROUPS, tensor_groups
from remuda.networks.layers import BatchNorm2d
from tests.networks.small import shrink_acgans, small

# The modules in the groups input and head of each generator and each discriminator.
LINEAR = ({"layers.0"}, {"layers.4"})
CONVOLUTIONAL = ({"convolutions.0"}, {"output"})
ENDS = {
    "mlp": (LINEAR, LINEAR),
    "acgan-mlp": (LINEAR, LINEAR),
    "dcgan": (({"input"}, {"body.7"}), CONVOLUTIONAL),
    "wcgan": (({"input"}, {"body.7"}), CONVOLUTIONAL),
    "acgan-mnist": (({"layers.0"}, {"layers.6"}), CONVOLUTIONAL),
    "acgan-cifar10": (({"layers.0"}, {"layers.9"}), CONVOLUTIONAL),
    "acgan-celeba": (({"layers.0"}, {"layers.6"}), CONVOLUTIONAL),
    "resnet": (
        ({"input"}, {"output"}),
        ({"blocks.0.conv1", "blocks.0.conv2", "blocks.0.shortcut"}, {"output"}),
    ),
    "r3gan": (
        ({"basis", "basis.weights"}, {"output"}),
        ({"input"}, {"basis", "output"}),
    ),
}
ENDS["sagan"] = ENDS["resnet"]


@pytest.mark.parametrize("name", NETWORKS)
def test_groups_contain_the_right_layers(name, monkeypatch):
    shrink_acgans(monkeypatch)
    options = dict(latent=20)  # more than the labels that replace some of its numbers
    if not name.startswith("acgan"):
        options |= dict(conditional=False)
    if name == "sagan":
        options |= dict(head="projection")
    side, family = 28 if name == "acgan-mnist" else 32, small(name, **options)
    pair = family.generator((3, side, side), 10), family.discriminator((3, side, side), 10)
    for network, (first, last) in zip(pair, ENDS[name], strict=True):
        groups = tensor_groups(network)
        assert set(groups.values()) <= set(GROUPS) and "body" in groups.values()
        assert modules_in(groups, "input") == first and modules_in(groups, "head") == last
        norms = {name for name, part in network.named_modules() if isinstance(part, BatchNorm2d)}
        assert modules_in(groups, "normalisation") == norms


def modules_in(groups, group):
    return {name.rpartition(".")[0] for name, other in groups.items() if other == group}


def test_vectors_for_labels_belong_to_the_class():
    family = ResNet(width=4, discriminator_width=4, conditional=True)
    assert tensor_groups(family.discriminator((3, 16, 16), 5))["embedding"] == "head"
    generator = tensor_groups(family.generator((3, 16, 16), 5))
    assert generator["blocks.0.norm1.scale"] == "normalisation"


def test_wrappers_keep_groups_and_singular_vectors_follow_their_matrices():
    network = ResNet(width=4, discriminator_width=4).discriminator((3, 16, 16), 5)
    wrapped = Augmented(SpectralNorm(network), 0.1, 0.0, 0.0, is_adaptive=True)
    groups = tensor_groups(wrapped)
    assert groups["network.network.blocks.0.conv1.weight"] == "input"
    assert groups["network.left_blocks_0_conv1_weight"] == "input"
    assert groups["network.left_output_weight"] == "head"
    buffers = {name for name, _ in wrapped.named_buffers()}
    assert buffers - groups.keys() == {"key", "ada_probability"}


def test_a_network_without_a_declaration_has_a_body_and_normalisation():
    network = nn.Sequential(nn.Linear(2, 3), BatchNorm2d(3, 1e-5))
    assert tensor_groups(network) == {
        "0.weight": "body",
        "0.bias": "body",
        "1.weight": "normalisation",
        "1.bias": "normalisation",
        "1.running_mean": "normalisation",
        "1.running_var": "normalisation",
    }


def test_unknown_groups_are_refused():
    network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    network.layer_groups = {"0": "inputs", "1": "head"}
    with pytest.raises(UserError, match=r"layers 0 of Sequential .* 'inputs': did you mean input"):
        tensor_groups(network)
