"""Runs with shared layers resume exactly, also if they adapt augmentation or have penalties."""

import pytest
import torch

import remuda
from remuda.record import Record
from tests.training.test_run import assert_same_run, final_tensors, make

pytestmark = pytest.mark.usefixtures("empty_pages")
EVERYTHING = ["input", "body", "head"]
PENALTIES = {"r1": 0.5, "penalty_every": 2}
# Two updates in a round, with 4 of 40 images each, move the probability by up to 0.2.
ADAPTIVE = {"colour": 1.0, "shift": 0.25, "ada_target": 0.1, "ada_images": 40.0}
P = "own/discriminator/buffers/ada_probability"


@pytest.fixture(params=[1, 2], ids=["gradients", "tensors"])
def settings(tiny, request):
    tiny["networks"]["conditional"] = True
    tiny["strategy"] |= {"shared_generator": EVERYTHING, "shared_discriminator": EVERYTHING}
    tiny["strategy"] |= {"share_every": request.param, "loss": "relativistic"}
    tiny["run"] |= {"checkpoint_every": 1, "sample_every": 1}
    return tiny


@pytest.mark.parametrize("more", [PENALTIES, ADAPTIVE, PENALTIES | ADAPTIVE], ids=str)
def test_resuming_is_exact(settings, tmp_path, more):
    settings["strategy"] |= more
    whole = remuda.run(make(settings, rounds=2), tmp_path / "whole")
    half = remuda.run(make(settings, rounds=1), tmp_path / "half")
    assert_same_run(whole, remuda.resume(half, rounds=2))
    lines = Record.open(whole).rounds()
    for name in ("generator_loss", "discriminator_loss"):
        assert torch.tensor([line[name] for line in lines]).isfinite().all()


def test_every_member_adapts_its_own_probability(settings, tmp_path):
    """The probability belongs to no group of layers, so members never average it."""
    settings["strategy"] |= ADAPTIVE
    folder = remuda.run(make(settings, rounds=2), tmp_path / "run")
    found = torch.tensor([line["augmentation"] for line in Record.open(folder).rounds()])
    assert torch.allclose(10 * found, (10 * found).round(), atol=1e-5)
    assert found.min() >= 0 and found.max() <= 1 and len(found[-1].unique()) > 1
    assert torch.equal(final_tensors(folder)[P], found[-1])
