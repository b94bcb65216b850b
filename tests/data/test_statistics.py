import io

import numpy as np
import pytest
import scipy.stats
import torch
from rich.console import Console

from remuda.data import DataConfig, Dataset, load, oneway_anova, paper_anova, print_summary
from remuda.data.statistics import moments
from remuda.errors import UserError


def _random(num_classes=4, count=300):
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, num_classes, (count,), generator=generator)
    images = torch.randint(0, 200, (count, 2, 5, 5), generator=generator, dtype=torch.uint8)
    images += (labels * 7).to(torch.uint8).reshape(-1, 1, 1, 1)
    return Dataset("random", images, labels, tuple(f"c{i}" for i in range(num_classes)))


def _text(dataset, anova=False, width=80):
    stream = io.StringIO()
    print_summary(dataset, Console(file=stream, width=width), anova)
    return stream.getvalue()


def test_moments_are_those_of_all_pixels():
    dataset = _random()
    pixels = dataset.images.numpy() / 255
    values = moments(dataset)
    assert np.allclose(values.mean, pixels.mean(axis=(0, 2, 3)))
    assert np.allclose(values.variance, pixels.var(axis=(0, 2, 3)))


def test_oneway_anova_equals_scipys():
    dataset = _random()
    means = dataset.images.numpy().mean(axis=(2, 3))
    for channel, result in enumerate(oneway_anova(dataset)):
        groups = [means[dataset.labels.numpy() == label, channel] for label in range(4)]
        expected = scipy.stats.f_oneway(*groups)
        assert result.f == pytest.approx(expected.statistic)
        assert result.p == pytest.approx(expected.pvalue)


def test_the_papers_formula_by_hand():
    images = torch.tensor([0, 0, 51, 51, 102, 204], dtype=torch.uint8).reshape(6, 1, 1, 1)
    dataset = Dataset("hand", images, torch.tensor([0, 0, 0, 1, 1, 1]), ("a", "b"))
    pixels = np.array([0, 0, 0.2, 0.2, 0.4, 0.8])  # class means 1/15 and 7/15, variance 0.04
    between = 0.04 * 1 * (6 / 2 - 1)
    within = pixels.var() * 5 - between
    (result,) = paper_anova(dataset)
    assert result.between == pytest.approx(between) and result.within == pytest.approx(within)
    assert result.f == pytest.approx(between / (within / 4))
    assert result.p == pytest.approx(scipy.stats.f.sf(result.f, 1, 4))


def test_classes_without_images_do_not_count():
    dataset = _random()
    wider = Dataset("wider", dataset.images, dataset.labels, (*dataset.classes, "none"))
    assert paper_anova(wider) == paper_anova(dataset)
    assert oneway_anova(wider) == oneway_anova(dataset)


def test_data_that_cannot_be_analysed():
    with pytest.raises(UserError, match="images of only one class"):
        paper_anova(_random(num_classes=1))
    with pytest.raises(UserError, match=r"needs more images than classes.*raise data.limit"):
        oneway_anova(load(DataConfig(limit=10)))


def test_plain_images_have_no_f():
    images = torch.zeros(4, 1, 2, 2, dtype=torch.uint8)
    dataset = Dataset("plain", images, torch.tensor([0, 0, 1, 1]), ("a", "b"))
    assert np.isnan(oneway_anova(dataset)[0].f)
    assert "nan" in _text(dataset, anova=True)


def test_summary_of_digits():
    text = _text(load(DataConfig()), anova=True)
    assert "digits: 1,501 images of 1 x 8 x 8 in 10 classes" in text
    assert "Lupo Pasini" in text and "one-way" in text
    assert "Lupo Pasini" not in _text(load(DataConfig()))
    assert "20,000 points in 8 classes" in _text(load(DataConfig(name="ring")))


@pytest.mark.parametrize(("num_classes", "most_lines"), [(100, 40), (1000, 50)])
def test_many_classes_fit_on_a_page(num_classes, most_lines):
    text = _text(_random(num_classes, 3000))
    assert len(text.splitlines()) < most_lines and max(map(len, text.splitlines())) <= 80
    assert ("and 880 more classes of" in text) == (num_classes == 1000)


def test_brackets_in_names_are_printed():
    dataset = _random(num_classes=2)
    named = Dataset("folder:[red]", dataset.images, dataset.labels, ("[bold]x", "[/]"))
    text = _text(named)
    assert "folder:[red]" in text and "[bold]x" in text and "[/]" in text


def test_mnist_figures_of_the_paper(real_path):
    dataset = load(DataConfig(name="mnist", path=real_path("mnist")))
    values = moments(dataset)
    assert round(values.mean[0], 4) == 0.1307 and round(np.sqrt(values.variance[0]), 4) == 0.3081
    assert [round(result.f, 2) for result in paper_anova(dataset)] == [38.78]


def test_cifar10_figures_of_the_paper(real_path):
    dataset = load(DataConfig(name="cifar10", path=real_path("cifar10")))
    assert [round(result.f, 2) for result in paper_anova(dataset)] == [22.12, 103.20, 400.47]
