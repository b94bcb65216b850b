"""Write the digits as image folders of several sites."""

import torch
from PIL import Image

from remuda.data import DataConfig, load


def write_sites(folder, shares, name="site"):
    """Write the first digits of the training split into a folder per site, and return them all.

    ``shares`` holds, for each site, the number of images of each class.
    """
    digits = load(DataConfig(name="digits"))
    taken = dict.fromkeys(range(10), 0)
    images = []
    for site, counts in enumerate(shares):
        for label, count in enumerate(counts):
            place = folder / f"{name}-{site}" / str(label)
            place.mkdir(parents=True)
            rows = (digits.labels == label).nonzero()[:, 0][taken[label] : taken[label] + count]
            taken[label] += count
            for row in rows.tolist():
                image = digits.images[row]
                Image.fromarray(image[0].numpy()).save(place / f"{row}.png")
                images.append(image)
    return torch.stack(images)
