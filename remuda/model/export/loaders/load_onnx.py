"""Load an exported generator and draw images. Requires only ONNX Runtime and NumPy.

    from load import load
    model = load()                     # the folder of this file, or load("FOLDER")
    images = model.sample(16, seed=1)  # uint8 (16, C, H, W); points are float32 (n, 2, 1, 1)
    images = model(noise, labels)      # your own noise (n, latent); floats in [-1, 1]

config.json lists the classes. ``sample`` draws noise with ``numpy.random.default_rng``.
"""

import json
from pathlib import Path

import numpy as np
import onnxruntime


class Model:
    """The graph in model.onnx. If it contains several generators, it chooses among them itself."""

    def __init__(self, folder, providers=("CPUExecutionProvider",)):
        self.config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.classes = self.config["classes"]
        path = str(folder / "model.onnx")
        self.session = onnxruntime.InferenceSession(path, providers=list(providers))

    def __call__(self, noise, labels=None):
        """Return images (n, C, H, W), floats in [-1, 1]; one label, or one per image."""
        numbers = np.array(self.numbers(len(noise), labels), np.int64)
        inputs = {"noise": np.asarray(noise, np.float32)}
        inputs |= {"labels": numbers} if self.classes else {}
        return np.asarray(self.session.run(["images"], inputs)[0])

    def numbers(self, n, labels):
        """Return n numbers of classes for one label, or n labels, given by number or name."""
        if bool(self.classes) == (labels is None):
            raise ValueError(f"this model takes {'' if self.classes else 'no '}labels")
        if labels is None:
            return []
        many = [labels] * n if isinstance(labels, int | str) else [*labels]
        found = [self.classes.index(x) if x in self.classes else int(x) for x in many]
        if len(found) != n or not all(0 <= number < len(self.classes) for number in found):
            raise ValueError(
                f"give {n} labels: names, or numbers from 0 to {len(self.classes) - 1}"
            )
        return found

    def sample(self, n, labels=None, seed=0, noise=None):
        """Draw n images. Without labels, classes are drawn by their frequency in the data."""
        if noise is not None and len(noise) != n:
            raise ValueError(f"got {len(noise)} rows of noise for {n} images")
        random = np.random.default_rng(seed)
        if noise is None:
            noise = random.standard_normal((n, self.config["noise"]["shape"][1]), np.float32)
        if self.classes and labels is None:
            counts = np.array(self.config["class_counts"], np.float64)
            labels = random.choice(len(counts), n, p=counts / counts.sum()).tolist()
        images = self(noise, labels)
        if self.config["image"]["is_point"]:
            return images
        return ((images + 1.0) * 127.5).round().clip(0, 255).astype(np.uint8)


def load(folder=None, providers=("CPUExecutionProvider",)):
    """Load the model in this folder; by default, in the folder of this file."""
    return Model(Path(folder or Path(__file__).parent), providers)
