"""Write the model card, README.md, from the record of a run."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from remuda.model.export.markdown import fenced, front_matter, plain, table
from remuda.record.scores import Score
from remuda.strategies.citations import CITATIONS
from remuda.system.version import __version__

MAX_CLASSES = 20  # classes that the card lists; config.json lists all
PICTURE = "samples.png"
_USE = {
    "torch": "It needs PyTorch, and nothing else.",
    "onnx": "It needs ONNX Runtime and NumPy, and nothing else.",
}
_LICENCE = (
    "Not stated. Whoever publishes this model chooses a licence; that of the training data may "
    "limit the choice."
)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that the card reports."""

    manifest: dict[str, Any]  # the content of config.json
    settings: dict[str, Any]  # of the run
    environment: dict[str, Any]  # of the run's last start; may be empty
    scores: Sequence[Score]  # of the exported round
    num_members: int
    num_weights: int  # of all exported generators
    counts: Sequence[int]  # images of each class of the training data
    num_classes: int

    @property
    def is_part(self) -> bool:
        """Whether only a class or a member of the model was exported."""
        return self.manifest["class"] is not None or self.manifest["member"] is not None


def write_card(facts: Facts) -> str:
    """Return the text of README.md; for the Hub, with its front matter."""
    manifest = facts.manifest
    sections = {
        "Use": _use(manifest),
        "Model": _model(facts),
        "Data": _data(facts),
        "Training": _training(facts),
        "Scores": _scores(facts),
        "Licence": _LICENCE,
        "Cite": _citations(manifest["strategy"]),
    }
    parts = [
        f"# {plain(manifest['run'])}",
        f"{_summary(facts)}\n\n![samples of this model]({PICTURE})",
        *(f"## {title}\n\n{text}" for title, text in sections.items()),
    ]
    header = [_header(facts)] if manifest["format"] == "hub" else []
    return "\n\n".join([*header, *parts]) + "\n"


def _header(facts: Facts) -> str:
    """Return the metadata that the Hugging Face Hub reads."""
    manifest = facts.manifest
    values: dict[str, Any] = {
        "library_name": "pytorch",
        "pipeline_tag": "unconditional-image-generation",
        "tags": ["remuda", "gan", manifest["strategy"], manifest["networks"]],
    }
    if facts.scores and not facts.is_part:
        data = {"name": manifest["data"], "type": manifest["data"]}
        task = {"type": "unconditional-image-generation"}
        metrics = [
            {"type": score.name.partition("_")[0], "name": score.name, "value": score.value}
            for score in facts.scores
        ]
        results = [{"task": task, "dataset": data, "metrics": metrics}]
        values["model-index"] = [{"name": manifest["run"], "results": results}]
    return front_matter(values, ["license: state one here, for instance apache-2.0"])


def _summary(facts: Facts) -> str:
    manifest = facts.manifest
    kind = "points in the plane" if manifest["image"]["is_point"] else "images"
    number = manifest["num_generators"]
    what = "A generator" if number == 1 else f"{number} generators"
    verb = "was" if number == 1 else "were"
    only = ""
    if manifest["class"] is not None:
        only = f" of the class {plain(manifest['class'])}"
    if manifest["member"] is not None:
        only += f", member {manifest['member']} of a mixture,"
    return (
        f"{what} of {kind}{only} that {verb} trained on {plain(manifest['data'])} with remuda's "
        f"strategy {plain(manifest['strategy'])}, exported after round {manifest['round']}."
    )


def _use(manifest: dict[str, Any]) -> str:
    is_onnx = manifest["format"] == "onnx"
    labels = ", labels=0" if manifest["classes"] else ""
    shape = ", ".join(map(str, manifest["image"]["shape"]))
    kind = "float32" if manifest["image"]["is_point"] else "uint8"
    latent = manifest["noise"]["shape"][1]
    lines = [
        "from load import load",
        "",
        "model = load()",
        f"images = model.sample(16{labels}, seed=1)  # {kind} (16, {shape})",
    ]
    if is_onnx:
        lines += ["noise = np.random.default_rng(0).standard_normal((16, LATENT), np.float32)"]
        lines.insert(0, "import numpy as np")
    else:
        lines += ["noise = torch.randn(16, LATENT)"]
        lines.insert(0, "import torch")
    lines += [f"floats = model(noise{labels})  # float32 (16, {shape}), in [-1, 1]"]
    code = "\n".join(lines).replace("LATENT", str(latent))
    where = "Run Python in this folder."
    if manifest["format"] == "hub":
        where = "Download this repository, and run Python in its folder."
    return (
        f"{where} {_USE['onnx' if is_onnx else 'torch']}\n\n"
        f"{fenced(code, 'python')}\n\n"
        "Noise is standard normal. The loader draws it with its own random generator, so the "
        "images of a seed differ from those of `remuda sample`."
    )


def _model(facts: Facts) -> str:
    manifest = facts.manifest
    routes = {
        "label": "the label chooses the generator",
        "noise": "the noise chooses the generator, with the shares in `config.json`",
        "position": "the generators take turns",
    }
    number = manifest["num_generators"]
    route = f": {routes[manifest['routing']['by']]}" if number > 1 else ""
    rows = [
        ["generators", f"{number}{route}"],
        ["weights", f"{facts.num_weights:,}"],
        ["noise", f"n x {manifest['noise']['shape'][1]}, standard normal"],
        ["labels", f"n, 0 to {len(manifest['classes']) - 1}" if manifest["classes"] else "none"],
        ["output", f"n x {' x '.join(map(str, manifest['image']['shape']))}, in [-1, 1]"],
        ["networks", plain(manifest["networks"])],
    ]
    return table(["property", "value"], rows)


def _data(facts: Facts) -> str:
    manifest = facts.manifest
    number, images = facts.num_classes, sum(facts.counts)
    noun = "class" if number == 1 else "classes"
    text = f"{plain(manifest['data'])}: {images:,} training images in {number:,} {noun}."
    classes = manifest["classes"]
    if not classes:
        return text
    numbers = enumerate(zip(classes, manifest["class_counts"], strict=True))
    rows = [[str(i), plain(name), f"{own:,}"] for i, (name, own) in numbers][:MAX_CLASSES]
    is_short = len(rows) < len(classes)
    rest = f"\n\n`config.json` lists all {len(classes):,} labels." if is_short else ""
    return f"{text}\n\n{table(['label', 'class', 'training images'], rows)}{rest}"


def _training(facts: Facts) -> str:
    environment, settings = facts.environment, facts.settings
    packages = environment.get("packages", {})
    rows = [
        ["strategy", plain(settings["strategy"]["name"])],
        ["members", str(facts.num_members)],
        ["rounds", str(facts.manifest["round"])],
        ["seed", plain(settings["run"]["seed"])],
        ["remuda", plain(environment.get("remuda", "unknown"))],
        ["PyTorch", plain(packages.get("torch", "unknown"))],
        ["device", plain(environment.get("device", "unknown"))],
    ]
    sections = []
    for section in ("networks", "strategy"):
        lines = [f"{key} = {_toml(value)}" for key, value in settings[section].items()]
        sections.append("\n".join([f"[{section}]", *lines]))
    code = fenced("\n\n".join(sections), "toml")
    return f"{table(['property', 'value'], rows)}\n\n{code}"


def _toml(value: Any) -> str:
    """Return a setting: a number, a string, a boolean, or a list of these."""
    return json.dumps(value, ensure_ascii=False)


def _scores(facts: Facts) -> str:
    if not facts.scores:
        return "This round has not been scored."
    rows = [
        [
            plain(score.name),
            f"{score.value:.4g}",
            "" if score.spread is None else f"{score.spread:.4g}",
            "" if score.floor is None else f"{score.floor:.4g}",
            f"{score.num_samples:,}",
            f"{plain(score.reference)}, {score.num_reference:,}" if score.reference else "",
            plain(score.network),
        ]
        for score in facts.scores
    ]
    whose = "These are the scores of the whole model, not of this part. " if facts.is_part else ""
    headers = ["score", "value", "spread", "real images", "samples", "reference", "features"]
    return (
        f"{whose}The name of a score states its protocol: the measure, the number of samples, the "
        "split of the data, and the feature extractor. Column `real images` has the same score for "
        f"real images.\n\n{table(headers, rows)}"
    )


def _citations(strategy: str) -> str:
    own = f"remuda {__version__}, a library that trains GANs as a herd"
    return "\n".join(f"- {plain(line, 300)}" for line in (own, *CITATIONS.get(strategy, ())))
