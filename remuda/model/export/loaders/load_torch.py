"""Load an exported generator and draw images. Requires only PyTorch.

    from load import load
    model = load()                     # the folder of this file, or load("FOLDER", "cuda")
    images = model.sample(16, seed=1)  # uint8 (16, C, H, W); points are float32 (n, 2, 1, 1)
    images = model(noise, labels)      # your own noise (n, latent); floats in [-1, 1]

config.json lists the classes. ``sample`` draws noise with ``torch.Generator``.
"""

import json
import runpy
from pathlib import Path

import torch


class Model:
    """One generator, or several of which the routing in config.json chooses one per image."""

    def __init__(self, folder, device="cpu"):
        self.config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.classes, self.device = self.config["classes"], torch.device(device)
        self.generate = _open_generator(folder, self.device, self.config["num_generators"])

    @torch.no_grad()
    def __call__(self, noise, labels=None):
        """Return images (n, C, H, W), floats in [-1, 1]; one label, or one per image."""
        noise = noise.to(self.device, torch.float32)
        inputs, numbers = {"noise": noise}, self.numbers(len(noise), labels)
        if self.classes:
            inputs["labels"] = torch.tensor(numbers, device=self.device, dtype=torch.int64)
        rows = self.rows(**inputs)
        images = noise.new_empty(len(noise), *self.config["image"]["shape"])
        for row in rows.unique().tolist():
            mine = rows == row
            images[mine] = self.generate(row, **{key: x[mine] for key, x in inputs.items()})
        return images

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

    def rows(self, noise, labels=None):
        """Choose the generator of each image, as remuda does."""
        routing = self.config["routing"]
        rows = torch.tensor(routing["rows"], device=self.device)
        if routing["by"] == "label":
            places = torch.zeros(len(noise), dtype=torch.int64) if labels is None else labels
        elif routing["by"] == "position":
            places = torch.arange(len(noise)) % len(rows)
        else:  # noise: a pseudo-random number in [0, 1) chooses according to the shares
            steps = torch.tensor(routing["shares"], dtype=torch.float64).cumsum(0)
            number = (1000.0 * noise.double().sum(1)).remainder(1.0).cpu()
            places = torch.searchsorted(steps / steps[-1], number, right=True)
            places = places.clamp(max=len(rows) - 1)
        return rows[places.to(self.device)]

    def sample(self, n, labels=None, seed=0, noise=None):
        """Draw n images. Without labels, classes are drawn by their frequency in the data."""
        if noise is not None and len(noise) != n:
            raise ValueError(f"got {len(noise)} rows of noise for {n} images")
        generator = torch.Generator().manual_seed(seed)
        if noise is None:
            noise = torch.randn(n, self.config["noise"]["shape"][1], generator=generator)
        if self.classes and labels is None:
            counts = torch.tensor(self.config["class_counts"], dtype=torch.float64)
            labels = counts.multinomial(n, replacement=True, generator=generator).tolist()
        images = self(noise, labels).cpu()
        if self.config["image"]["is_point"]:
            return images
        return ((images + 1.0) * 127.5).round().clamp(0, 255).to(torch.uint8)


def load(folder=None, device="cpu"):
    """Load the model in this folder; by default, in the folder of this file."""
    return Model(Path(folder or Path(__file__).parent), device)


def _open_generator(folder, device, num_generators):
    """Return a function generate(row, noise=..., labels=...)."""
    if (folder / "model.pt2").exists():  # a program of torch.export, which contains its weights
        from torch.export.passes import move_to_device_pass

        program = move_to_device_pass(torch.export.load(folder / "model.pt2"), device).module()
        if num_generators == 1:
            return lambda row, **inputs: program(**inputs)
        return lambda row, **inputs: program(row=torch.tensor([row], device=device), **inputs)
    network = runpy.run_path(str(folder / "network.py"))["generate"]
    weights = {name: x.to(device) for name, x in _read(folder / "model.safetensors").items()}
    return lambda row, **inputs: network({name: x[row] for name, x in weights.items()}, **inputs)


def _read(path):
    """Read a safetensors file: the length of its header, the header, and the numbers."""
    kinds = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16}
    kinds |= {"BF16": torch.bfloat16, "I64": torch.int64, "I32": torch.int32}
    kinds |= {"U8": torch.uint8, "BOOL": torch.bool}
    content = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(content[:8], "little")
    tensors = {}
    for name, facts in json.loads(content[8:start]).items():
        if name != "__metadata__":
            first, last = (start + offset for offset in facts["data_offsets"])
            numbers = torch.frombuffer(content[first:last], dtype=kinds[facts["dtype"]])
            tensors[name] = numbers.reshape(facts["shape"])
    return tensors
