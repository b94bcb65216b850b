import torch
from torch import nn

from remuda.gan.lipschitz import SpectralNorm, clip, vector_names
from remuda.gan.players import apply, tensors_of


def test_clip_by_hand():
    assert clip({"w": torch.tensor([-3.0, 0.005, 0.02])}, 0.01)["w"].tolist() == [
        torch.tensor(-0.01).item(),
        torch.tensor(0.005).item(),
        torch.tensor(0.01).item(),
    ]


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.out = nn.Conv2d(2, 4, 3), nn.Linear(4, 1)

    def forward(self, images, labels):
        return self.out(self.conv(images).mean((2, 3)))[:, 0]


class Table(nn.Module):
    """Rows that depend on the label, as in conditional BatchNorm."""

    is_embedding = True

    def __init__(self):
        super().__init__()
        self.rows, self.inner = nn.Parameter(torch.randn(3, 4)), nn.Linear(2, 2)


def test_spectral_norm_leaves_embeddings_alone():
    """Only parameters that the embedding itself owns are left as they are."""
    network = nn.Sequential(nn.Linear(4, 4), Table())
    wrapped = SpectralNorm(network)
    assert list(wrapped.groups.values()) == [["0.weight"], ["1.inner.weight"]]
    assert vector_names(dict(wrapped.named_buffers())) == {"left_0_weight", "left_1_inner_weight"}
    assert vector_names(["network.left_0_weight", "network.running_left_mean"]) == {
        "network.left_0_weight"
    }


def test_spectral_norm_divides_by_the_largest_singular_value():
    torch.manual_seed(0)
    network = Two()
    wrapped = SpectralNorm(network)
    params, buffers = tensors_of(wrapped)
    images, labels = torch.randn(3, 2, 5, 5), torch.zeros(3, dtype=torch.int64)
    for _ in range(200):  # power iterations, one a call
        output, buffers = apply(wrapped, params, buffers, images, labels)
    with torch.no_grad():
        for module in (network.conv, network.out):
            module.weight /= torch.linalg.matrix_norm(module.weight.flatten(1), 2)
        expected = network(images, labels)
    assert torch.allclose(output, expected, atol=1e-5)
