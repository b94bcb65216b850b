"""Sample many pairs at once: each image comes from the pair of its own row."""

import torch
from torch import Tensor

from remuda.gan.gan import GAN
from remuda.gan.players import Pair
from remuda.tensors import calculus, trees

MAX_STACKED = 64  # pairs in one call; limits the memory for copies of their weights
MAX_PADDING = 4  # computed images per image that is needed, if pairs are stacked


def sample_rows(gan: GAN, pairs: Pair, rows: Tensor, noise: Tensor, labels: Tensor) -> Tensor:
    """Return images (n, C, H, W); image i comes from the pair in row ``rows[i]``."""
    images = noise.new_empty(len(noise), *gan.shape)
    authors, counts = torch.unique(rows, return_counts=True)
    num_padded = int(counts.max()) * len(authors) if len(authors) else 0
    # Stacked pairs need fewer launches on a GPU. A CPU is faster with one pair after the other.
    is_stacked = noise.device.type == "cuda" and len(authors) > 1
    if is_stacked and num_padded <= MAX_PADDING * len(noise) and not gan.stacking.problem:
        for some in authors.split(MAX_STACKED):
            mine = torch.isin(rows, some)
            images[mine] = sample_stacked(gan, pairs, rows[mine], noise[mine], labels[mine])
        return images
    for row in authors.tolist():
        mine = rows == row
        images[mine] = gan.sample(trees.row(pairs, row), noise[mine], labels[mine])
    return images


def sample_stacked(gan: GAN, pairs: Pair, rows: Tensor, noise: Tensor, labels: Tensor) -> Tensor:
    """Return the same images as ``sample_rows``, up to rounding, from one call for all pairs."""
    authors, author, counts = torch.unique(rows, return_inverse=True, return_counts=True)
    order = torch.argsort(author, stable=True)
    author = author[order]
    place = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[author]
    shape = len(authors), int(counts.max())  # unused places hold zeros
    all_noise = noise.new_zeros(*shape, *noise.shape[1:])
    all_labels = labels.new_zeros(shape)
    all_noise[author, place], all_labels[author, place] = noise[order], labels[order]
    player = pairs.generator
    used = trees.row((player.params, player.buffers, pairs.average), authors)

    def sample(params: dict, buffers: dict, average: dict, *inputs: Tensor) -> Tensor:
        generator = player._replace(params=params, buffers=buffers)
        return gan.sample(Pair(generator, generator, average), *inputs)

    found = calculus.stacked(sample)(*used, all_noise, all_labels)
    images = noise.new_empty(len(noise), *gan.shape)
    images[order] = found[author, place]
    return images
