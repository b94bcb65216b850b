"""Let all ranks use the feature extractor of rank 0."""

from typing import Any, cast

import torch
from torch import Tensor

from remuda.engines import Communicator
from remuda.errors import UserError
from remuda.scores.base import FeatureExtractor
from remuda.scores.features.classifier import Classifier, from_weights
from remuda.scores.features.inception import find_inception
from remuda.scores.messages import NOTHING, pack, unpack


def share(
    communicator: Communicator,
    extractor: FeatureExtractor | None,
    num_classes: int,
    data_path: str,
    device: torch.device,
) -> tuple[FeatureExtractor | None, int]:
    """Return the extractor and the number of classes of rank 0, on all ranks.

    The weights of a classifier travel from rank 0 to the others. Inception's do not: every rank
    must have the same file, in ``data_path`` or where the data are searched.
    """
    if communicator.num_ranks == 1:
        return extractor, num_classes
    message = _describe(extractor, num_classes) if communicator.is_root else NOTHING
    tensors, facts = unpack(communicator.broadcast(message))
    if communicator.is_root or not facts["digest"]:
        return extractor, facts["classes"]
    if tensors:
        shape = cast(tuple[int, int, int], tuple(facts["shape"]))
        return from_weights(facts["name"], shape, tensors, device), facts["classes"]
    own = find_inception(data_path, device)
    if own.digest != facts["digest"]:
        raise UserError(
            f"the Inception weights here have the digest {own.digest}, but those of rank 0 have "
            f"{facts['digest']}: give all ranks the same file"
        )
    return own, facts["classes"]


def _describe(extractor: FeatureExtractor | None, num_classes: int) -> Tensor:
    facts: dict[str, Any] = {"classes": num_classes, "digest": ""}
    if extractor is not None:
        facts |= {"digest": extractor.digest, "name": extractor.name}
    if isinstance(extractor, Classifier):
        facts["shape"] = list(extractor.shape)
        return pack(extractor.network.state_dict(), facts)
    return pack({}, facts)
