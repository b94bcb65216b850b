"""Extract features for FID, KID and the Inception score with the Inception network of 2015-12-05.

The protocol is the same as in pytorch-fid. Bytes are scaled to [0, 1], resized to 299 x 299
(bilinear between pixel centres, without antialiasing) and mapped to [-1, 1]. The features are the
2048 means of the last block ("pool3"). All arithmetic is float32. Probabilities are the softmax of
the 1008 products *without* the head's bias, as in the code published with the Inception score.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remuda.errors import UserError
from remuda.scores.base import FeatureExtractor, Features
from remuda.scores.features import inception_files
from remuda.scores.features.inception_layers import SIZE
from remuda.scores.features.layers import in_full_batches, product

_BATCH = {"cpu": 50, "cuda": 500}  # images per forward pass


class Inception(FeatureExtractor):
    """Extract features of RGB images of any size."""

    name = "inception"
    precision = "fp32"

    def __init__(self, weights: inception_files.Weights, device: torch.device):
        self.digest = weights.digest
        self.device = device
        # On a CPU, the channels-last layout reduces the time by a third.
        self._layout = torch.channels_last if device.type == "cpu" else torch.contiguous_format
        network: nn.Module = weights.network.to(device)
        # The stubs lack memory_format.
        self._network = network.to(memory_format=self._layout)  # pyright: ignore[reportCallIssue]
        self._head = None if weights.head is None else weights.head.to(device)
        self.has_head = weights.head is not None

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Features:
        _check(images)
        values = in_full_batches(self._extract, images, _BATCH[self.device.type])
        if self._head is None:
            return Features(values, None)
        return Features(values, product(values, self._head.T).softmax(dim=1))

    def _extract(self, images: Tensor) -> Tensor:
        pixels = images.to(self.device).to(torch.float32) / 255.0
        pixels = F.interpolate(pixels, size=(SIZE, SIZE), mode="bilinear", align_corners=False)
        pixels = pixels * 2.0 - 1.0
        return self._network(pixels.contiguous(memory_format=self._layout))


def find_inception(data_path: str, device: torch.device, *, needs_head: bool = False) -> Inception:
    """Return the network with weights from data_path ("" = not set), $REMUDA_DATA or the cache.

    Prefer the public file to the folded one, and download it if neither is found. With
    ``needs_head``, raise if only the folded file is found, because it gives no probabilities.
    """
    folders = inception_files.data_folders(data_path)
    path = inception_files.locate(folders) or inception_files.fetch(folders)
    network = Inception(inception_files.read(path), device)
    if needs_head and not network.has_head:
        url = inception_files.SOURCE.mirrors[0] + inception_files.PUBLIC
        raise UserError(
            f"the Inception score needs the network's head, which {path} lacks: download {url} "
            f"into {path.parent}, or leave the score out"
        )
    return network


def _check(images: Tensor) -> None:
    if images.dtype != torch.uint8 or images.dim() != 4:
        raise UserError(
            "Inception needs images, but these are points: use the score modes for the data sets "
            "ring and grid"
        )
    num_channels = images.shape[1]
    if num_channels == 1:
        raise UserError("Inception needs colour images, but these are grey: use --classifier train")
    if num_channels != 3:
        raise UserError(
            f"Inception needs RGB images, but these have {num_channels} channels: set "
            "data.channels=3"
        )
