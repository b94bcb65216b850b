import math

import pytest
import torch

from remuda.data import MODES, DataConfig, load
from remuda.data.synthetic import Modes
from remuda.errors import UserError
from remuda.scores.modes import mode_scores

from .samples import DEVICES

TWO = Modes(((-0.5, 0.0), (0.5, 0.0)), 0.01)


def test_numbers_by_hand():
    points = torch.tensor([[-0.5, 0.029]] * 14 + [[-0.5, 0.031]] * 5 + [[0.52, 0.02]])
    result = mode_scores(points, TWO)
    # 1 of 20 samples is at the second mode: a tenth of its fair share of 10
    assert result[:3] == (2, 2, 15 / 20)
    assert result.total_variation == pytest.approx(0.45)
    assert result.reverse_kl == pytest.approx(0.95 * math.log(1.9) + 0.05 * math.log(0.1))
    more = torch.cat([points, points[:1]])  # now the tenth is 1.05
    assert mode_scores(more, TWO).num_covered == 1


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["ring", "grid"])
def test_data_have_all_modes(name, device):
    points = load(DataConfig(name=name)).images.to(device)
    result = mode_scores(points, MODES[name])
    assert result.num_covered == result.num_modes == len(MODES[name].centres)
    assert result.high_quality == pytest.approx(1 - math.exp(-4.5), abs=0.002)
    assert result.total_variation == pytest.approx(0, abs=1e-9)
    assert result.reverse_kl == pytest.approx(0, abs=1e-9)


def test_missing_modes_are_not_covered():
    dataset = load(DataConfig(name="grid"))
    result = mode_scores(dataset.images[dataset.labels < 5], MODES["grid"])
    assert result.num_covered == 5 and result.high_quality > 0.98
    assert result.total_variation == pytest.approx(0.8)
    assert result.reverse_kl == pytest.approx(math.log(5))


@pytest.mark.parametrize("name", ["ring", "grid"])
def test_noise_covers_nothing(name):
    noise = torch.rand(2500, 2, generator=torch.Generator().manual_seed(0)) * 2 - 1
    result = mode_scores(noise, MODES[name])
    assert result.num_covered == 0 and result.high_quality < 0.05


def test_invalid_input_is_an_error():
    points = torch.rand(100, 2)
    for wrong, match in [
        (points[:19], "at least 20 generated points, but there are 19"),
        (points[:1].expand(100, 2), "all generated points are equal"),
        (points / 0, "NaN or infinity"),
        (torch.rand(100, 3, 8, 8), "2 coordinates, not 192"),
        (points[0], "one row per image"),
    ]:
        with pytest.raises(UserError, match=match):
            mode_scores(wrong, TWO)
