"""Every family of networks and every strategy works in every format without remuda."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from remuda.data.images import to_bytes
from remuda.errors import UserError
from remuda.gan import definition
from remuda.model.export import folder, onnx
from remuda.model.export.portable import images_of, select
from remuda.model.export.tracing import trace
from remuda.networks import MLP, NETWORKS
from remuda.strategies import STRATEGIES
from tests.model.export.models import (
    custom,
    inputs,
    largest_difference,
    new_model,
    new_run,
    opened,
    written,
)
from tests.networks.small import shrink_acgans, small

SHAPES = {"acgan-mnist": (1, 28, 28), "acgan-cifar10": (3, 32, 32), "acgan-celeba": (3, 64, 64)}
ALLOWED = {"safetensors": 0.0, "torch": 1e-6, "onnx": 1e-4}
MLP_8 = MLP(latent=6, hidden=8)
CONDITIONAL = MLP(latent=6, hidden=8, conditional=True)

pytest.importorskip("onnxruntime", reason="the extra remuda[onnx] is not installed")


@pytest.mark.parametrize("name", NETWORKS)
def test_every_family_of_networks_gives_the_same_images(name, tmp_path, monkeypatch):
    shrink_acgans(monkeypatch)
    model = new_model(small(name, latent=6), shape=SHAPES.get(name, (1, 8, 8)))
    traced = trace(select(model))  # once for all formats, because it takes long
    monkeypatch.setattr(folder, "trace", lambda portable: traced)
    for to, allowed in ALLOWED.items():
        loaded = opened(tmp_path, model, to, monkeypatch)
        assert loaded.config["num_generators"] == 3
        assert largest_difference(loaded, model) <= allowed, to


STRATEGY_CASES = [
    *((name, {}, MLP_8) for name in STRATEGIES),
    ("fl-gan", {"sync": "discriminator"}, MLP_8),
    ("standalone", {}, CONDITIONAL),
    ("cellular", {}, CONDITIONAL),
    ("class-parallel", {"shared_generator": ["body"], "ema": 0.9}, CONDITIONAL),
    ("standalone", {"lipschitz": "spectral-both", "loss": "hinge"}, MLP_8),
]


def model_of(name, settings, networks):
    strategy = STRATEGIES[name](**settings)
    if strategy.grid:
        members = strategy.grid[0] * strategy.grid[1]
    else:
        members = 1 if name == "standalone" else 3
    return new_model(networks, strategy, (1, 8, 8), members)


@pytest.mark.parametrize(("name", "settings", "networks"), STRATEGY_CASES)
def test_every_strategy_gives_the_same_images(name, settings, networks, tmp_path, monkeypatch):
    model = model_of(name, settings, networks)
    loaded = opened(tmp_path, model, "safetensors", monkeypatch)
    assert largest_difference(loaded, model) == 0


@pytest.mark.parametrize(
    ("name", "settings"), [("cellular", {}), ("fl-gan", {"sync": "discriminator"})]
)
def test_noise_and_position_choose_the_weights_inside_onnx(name, settings, tmp_path, monkeypatch):
    model = model_of(name, settings, CONDITIONAL)
    loaded = opened(tmp_path, model, "onnx", monkeypatch)
    assert loaded.config["num_generators"] > 1
    assert largest_difference(loaded, model) <= 1e-4


@pytest.mark.parametrize("to", ALLOWED)
def test_one_class_of_a_herd_takes_no_labels(to, tmp_path):
    model = new_model(CONDITIONAL)  # its networks also receive the label
    loaded = written(tmp_path, model, to, label="owl")
    assert (loaded.config["class"], loaded.classes) == ("owl", [])
    assert loaded.config["num_generators"] == 1 and loaded.config["labels"] is None
    assert largest_difference(loaded, model, label=2) <= ALLOWED[to]
    with pytest.raises(ValueError, match="takes no labels"):
        loaded.sample(2, labels=1)


def test_one_member_of_a_mixture(tmp_path):
    model = model_of("cellular", {}, MLP_8)
    loaded = written(tmp_path, model, "safetensors", member=1)
    assert loaded.config["num_generators"] == 1
    assert largest_difference(loaded, model, member=1) == 0
    with pytest.raises(UserError, match=r"member 7 generates no images .* choose one of 0, 1"):
        written(tmp_path, model, "torch", member=7)
    with pytest.raises(UserError, match=r"labels choose the members .* --label"):
        written(tmp_path, new_model(MLP_8), "onnx", member=1)


def test_the_loaders_sample_like_remuda(tmp_path):
    model = new_model(MLP_8)
    noise, labels = inputs(model, 9)
    expected = model.sample(9, labels=labels, noise=noise)
    assert torch.equal(expected, to_bytes(images_of(model, noise, labels, None)))
    for to in ALLOWED:
        loaded = written(tmp_path, model, to)
        names = [loaded.classes[label] for label in labels]
        images = torch.as_tensor(loaded.sample(9, labels=names, noise=noise))
        assert images.dtype == torch.uint8
        assert (images.int() - expected.int()).abs().max() <= (to != "safetensors")
        drawn = loaded.sample(500, seed=2)
        assert (drawn == loaded.sample(500, seed=2)).all()
        for labels_ in ([0, 1], 3, -1, "cow"):
            with pytest.raises(ValueError, match=r"give 3 labels|invalid literal"):
                loaded.sample(3, labels=labels_)


def test_points_stay_floats(tmp_path):
    model = new_model(MLP_8, STRATEGIES["standalone"](), (2, 1, 1), 1)
    for to in ("safetensors", "onnx"):
        points = torch.as_tensor(written(tmp_path, model, to).sample(5))
        assert points.dtype == torch.float32 and points.shape == (5, 2, 1, 1)


def test_traced_code_creates_tensors_where_the_noise_is(tmp_path):
    """A tensor that stays on the CPU would raise an error on any other device."""
    loaded = written(tmp_path, new_model(CONDITIONAL), "safetensors")
    path = tmp_path / "run-safetensors" / "export-safetensors"
    code = runpy.run_path(str(path / "network.py"))["generate"]
    weights = {name: x[0].to("meta") for name, x in load_file(path / "model.safetensors").items()}
    labels = torch.zeros(5, dtype=torch.int64, device="meta")
    images = code(weights, torch.zeros(5, 6, device="meta"), labels)
    assert images.device.type == "meta" and images.shape == (5, 3, 16, 16)
    assert "device(type=" not in (path / "network.py").read_text()
    assert loaded.config["labels"] == {"shape": ["n"], "dtype": "int64"}


SCRIPT = """
import sys
sys.modules["remuda"] = None  # importing it fails
sys.path.insert(0, sys.argv[1])
from load import load
model = load()
images = model.sample(4, labels="dog")
assert images.shape == (4, 1, 8, 8), images.shape
print(int(images.sum()), sorted({"torch", "onnx", "safetensors"} & set(sys.modules)))
assert not [name for name in sys.modules if name.startswith("remuda.")]
"""


@pytest.mark.parametrize(
    ("to", "modules"), [("safetensors", ["torch"]), ("torch", ["torch"]), ("onnx", [])]
)
def test_exports_work_where_remuda_cannot_be_imported(to, modules, tmp_path):
    model = new_model(MLP_8, shape=(1, 8, 8))
    loaded = written(tmp_path, model, to)
    target = tmp_path / f"run-{to}" / f"export-{to}"
    command = [sys.executable, "-I", "-c", SCRIPT, str(target)]
    result = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=300)
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{int(loaded.sample(4, labels='dog').sum())} {modules}\n"


# Networks of users


class Layers(nn.Module):
    """PyTorch's own layers, a constant that is no buffer, and an unused weight."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5), nn.BatchNorm1d(64))
        self.unused = nn.Parameter(torch.ones(7))

    def forward(self, noise, labels):
        scale = torch.linspace(0.5, 1.0, 64)
        return torch.tanh(self.layers(noise) * scale).reshape(-1, 1, 8, 8)


class Batches(Layers):
    """A generator that treats large batches in another way."""

    def forward(self, noise, labels):
        images = super().forward(noise, labels)
        return images if len(noise) < 100 else -images


class Counted(Layers):
    """A generator that asks for a number of Python."""

    def forward(self, noise, labels):
        return super().forward(noise, labels).reshape(len(noise), 1, 8, 8)


class Exponential(Layers):
    """A generator with an operator that ONNX lacks."""

    def forward(self, noise, labels):
        return torch.matrix_exp(super().forward(noise, labels) / 100) / 2


class Random(Layers):
    """A generator with random numbers in evaluation mode."""

    def forward(self, noise, labels):
        return super().forward(noise + torch.rand_like(noise), labels)


@pytest.mark.parametrize("to", ALLOWED)
def test_generators_of_users_need_none_of_our_classes(to, tmp_path, monkeypatch):
    model = new_model(custom(Layers), shape=(1, 8, 8))
    loaded = opened(tmp_path, model, to, monkeypatch)
    assert largest_difference(loaded, model) <= ALLOWED[to]
    if to == "safetensors":
        names = (tmp_path / "run-safetensors/export-safetensors/network.py").read_text()
        assert "unused" not in names and "num_batches_tracked" not in names


@pytest.mark.parametrize(
    ("generator", "to", "message"),
    [
        (Batches, "safetensors", "Batches cannot be traced"),
        (Counted, "torch", r"Counted cannot be traced .*x\.shape\[0\] instead of len\(x\)"),
        (Exponential, "onnx", r"as ONNX \(No ONNX function .*matrix_exp.*: use --to safetensors"),
        (Random, "safetensors", "differs from the trained one"),
    ],
)
def test_generators_that_cannot_be_exported_are_refused(
    generator, to, message, tmp_path, monkeypatch
):
    # Training would refuse random generators earlier.
    monkeypatch.setattr(definition, "check_networks", lambda *_, **options: None)
    model = new_model(custom(generator), shape=(1, 8, 8))
    with pytest.raises(UserError, match=message) as caught:
        written(tmp_path, model, to)
    assert str(caught.value).isprintable()
    assert not (tmp_path / f"run-{to}/export-{to}").exists()


def test_a_model_that_its_runtime_refuses_is_reported(tmp_path, monkeypatch):
    model = new_model(MLP_8)
    run = new_run(tmp_path / "run", model)
    monkeypatch.setattr(onnx, "write_onnx", lambda portable, traced, path: path.write_bytes(b"?"))
    with pytest.raises(UserError, match=r"cannot be opened \(.*model.onnx.* --to safetensors"):
        folder.write_export(model, run, "onnx")
    assert not (run / "export-onnx").exists()


# The folder


def test_export_overwrites_nothing_and_leaves_nothing_behind(tmp_path, monkeypatch):
    model = new_model(MLP_8)
    run = new_run(tmp_path / "run", model)
    target = tmp_path / "out"
    target.mkdir()
    with monkeypatch.context() as inside:
        inside.chdir(target)
        assert folder.write_export(model, run, out=".") == Path()  # an empty folder is accepted
    before = {path.name: path.read_bytes() for path in target.iterdir()}
    assert sorted(before) == [
        *("README.md", "config.json", "load.py"),
        *("model.safetensors", "network.py", "samples.png"),
    ]
    with pytest.raises(UserError, match="out exists already, and export overwrites nothing"):
        folder.write_export(model, run, out=target)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before
    monkeypatch.setattr(folder, "write_card", lambda facts: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        folder.write_export(model, run, out=tmp_path / "broken")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "run"]
    monkeypatch.undo()
    with pytest.raises(UserError, match=r"cannot write .*Not a directory"):
        folder.write_export(model, run, out=target / "load.py" / "inside")


def test_bad_requests_are_refused(tmp_path, monkeypatch):
    model = new_model(MLP_8)
    run = new_run(tmp_path / "run", model)
    with pytest.raises(UserError, match="format pickle is unknown: choose safetensors, torch"):
        folder.write_export(model, run, "pickle")
    with pytest.raises(UserError, match="label cow is unknown"):
        folder.write_export(model, run, label="cow")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(UserError, match=r"package onnxscript: pip install 'remuda\[onnx\]'"):
        folder.write_export(model, run, "onnx")


def test_no_file_names_a_path_of_this_machine(tmp_path, monkeypatch):
    model = new_model(MLP_8, data=f"folder:{tmp_path}/pets")
    for to in ("torch", "onnx", "hub"):
        assert opened(tmp_path, model, to, monkeypatch).config["data"] == "folder:pets"
        for path in (tmp_path / f"run-{to}" / f"export-{to}").iterdir():
            content = path.read_bytes()
            assert str(tmp_path).encode() not in content and b"site-packages" not in content


def test_large_onnx_models_keep_their_weights_in_a_second_file(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx, "LARGEST", 0)
    model = new_model(MLP(latent=6, hidden=64))
    loaded = written(tmp_path, model, "onnx")
    target = tmp_path / "run-onnx" / "export-onnx"
    sizes = {name: (target / name).stat().st_size for name in ("model.onnx", "model.onnx.data")}
    assert sizes["model.onnx"] < sizes["model.onnx.data"]
    assert largest_difference(loaded, model) <= 1e-4
