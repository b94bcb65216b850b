"""The tables of the MD-GAN paper: formulas with numbers made by hand, and table IV as printed."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from remuda.experiments.traffic import communications, complexities, describe, print_tables, totals
from remuda.experiments.traffic.setting import MIB
from remuda.experiments.traffic.tables import compressions, legend, mib, notes
from remuda.tensors.codecs import Compressor
from tests.experiments.traffic.samples import CIFAR, SMALL


def test_table_2_on_small_numbers():
    rows = {row.name: (row.fl_gan, row.md_gan) for row in complexities(SMALL)}
    assert rows == {
        "computation C": (5 * 4 * 1000, 100 * 10 * (5 * 4 + 2 * 700)),
        "memory C": (4 * 1000, 10 * (5 * 4 + 2 * 700)),
        "computation W": (100 * 10 * 1000, 100 * 10 * 300),
        "memory W": (1000, 300),
    }


def test_table_3_on_small_numbers():
    assert [
        (row.name, row.fl_gan, row.md_formula, row.md_gan) for row in communications(SMALL)
    ] == [
        ("C → W (C)", 16_000, "2bdN", 1600),
        ("C → W (W)", 4000, "2bd", 400),
        ("W → C (W)", 4000, "bd", 200),
        ("W → C (C)", 16_000, "bdN", 800),
        ("number of C ↔ W", 5, "I", 100),
        ("W → W (W)", None, "θ", 1200),
        ("number of W ↔ W", None, "Ib/(mE)", 5),
    ]


def test_table_3_with_one_batch_is_the_printed_one():
    for row in communications(replace(SMALL, num_fake_batches=1)):
        assert row.md_formula == row.printed


def test_without_swaps_there_is_no_such_message():
    rows = communications(replace(SMALL, swaps=False))
    assert [
        (row.md_formula, row.md_gan) for row in rows if "W → W" in row.name or "W ↔ W" in row.name
    ] == [
        ("-", None),
        ("-", None),
    ]


def test_the_whole_run():
    assert totals(SMALL) == [
        ("C → W in total", 80_000, 160_000),
        ("W → C in total", 80_000, 80_000),
        ("W → W in total", 0, 24_000),
        ("total", 160_000, 264_000),
    ]


@pytest.mark.parametrize(("batch_size", "exchanges"), [(10, 100), (100, 1000)])
def test_table_4_of_the_paper_fl_gan(batch_size, exchanges):
    down_all, down, up, up_all, count, *_ = communications(replace(CIFAR, batch_size=batch_size))
    assert [mib(row.fl_gan or 0) for row in (down_all, down, up, up_all)] == [
        "175",
        "17.5",
        "17.5",
        "175",
    ]
    assert count.fl_gan == exchanges


@pytest.mark.parametrize(("batch_size", "swaps"), [(10, 100), (100, 1000)])
def test_table_4_of_the_paper_md_gan(batch_size, swaps):
    """The paper prints 0.23, rounded, and its multiples 2.30 and 23.0 instead of 2.34 and 23.4.

    It prints them for both directions.
    """
    down_all, down, up, up_all, iterations, across, count = communications(
        replace(CIFAR, batch_size=batch_size)
    )
    assert f"{(down.md_gan or 0) / MIB * 10 / batch_size:.2f}" == "0.23"
    assert (
        f"{(up.md_gan or 0) / MIB * 10 / batch_size:.3f}" == "0.117"
    )  # half of the printed figure
    assert (down_all.md_gan, up_all.md_gan) == (10 * (down.md_gan or 0), 10 * (up.md_gan or 0))
    assert iterations.md_gan == 50_000
    assert (mib(across.md_gan or 0), count.md_gan) == ("6.34", swaps)


def test_amounts_have_three_digits_or_are_rounded_to_the_unit():
    assert [mib(round(x * MIB)) for x in (0, 0.234375, 2.34375, 23.4375, 234.375, 12345.6)] == [
        "0",
        "0.234",
        "2.34",
        "23.4",
        "234",
        "12,346",
    ]


def printed(setting, *batch_sizes):
    page = io.StringIO()
    print_tables(setting, Console(file=page, width=140), batch_sizes)
    return page.getvalue()


def test_the_output_has_all_three_tables_and_the_crossings():
    text = printed(CIFAR)
    for letter, value, meaning in legend(CIFAR):
        assert re.search(rf"^{re.escape(letter)} +{value} +{re.escape(meaning)} *$", text, re.M)
    values = {letter: value for letter, value, _ in legend(CIFAR)}
    assert (values["N"], values["m"], values["b"], values["k"]) == ("10", "5,000", "10", "3")
    assert (values["E"], values["I"]) == ("1", "50,000")
    for words in ("II: ", "III: ", "IV: ", "MD-GAN b = 100", "b = 477", "b = 748", "b = 1,496"):
        assert words in text
    assert "2bd, as in the paper's text" in text


def test_table_4_has_the_requested_columns():
    text = printed(SMALL, 20)
    assert "FL-GAN b = 10" in text and "MD-GAN b = 20" in text and "GAN b = 100" not in text


def test_notes_mention_short_epochs_and_missing_swaps():
    assert not any("An epoch is" in note for note in notes(SMALL))
    assert any(
        "An epoch is 7 iterations here" in note for note in notes(replace(SMALL, steps_per_epoch=7))
    )
    assert "without swaps" in describe(replace(SMALL, swaps=False))


def test_the_table_of_compression_compares_both_methods():
    """10 images of 3,072 numbers have 60 blocks; the 20 images of two batches have 120."""
    setting = replace(CIFAR, down=Compressor("int4"), up=Compressor("int8"))
    rows = {name: sizes for name, *sizes in compressions(setting)}
    assert rows["C → W (W)"][2:] == [4 * 61440, 30720 + 4 * 120]
    assert rows["W → C (W)"][2:] == [4 * 30720, 30720 + 4 * 60]
    assert rows["W → W (W)"] == [0, 0, 4 * 1_663_243, 4 * 1_663_243]
    texts = []
    for each in (setting, setting.uncompressed):
        page = io.StringIO()
        print_tables(each, Console(file=page, width=160))
        texts.append(page.getvalue())
    assert "Compression: down int4, up int8, across none" in texts[0]
    assert "Compression" not in texts[1] and texts[0].startswith(texts[1][:2000])


@pytest.mark.parametrize("codec", ["sign", "top-k"])
def test_fl_gan_sends_weights_without_coarse_codecs(codec):
    rows = {name: sizes for name, *sizes in compressions(replace(CIFAR, up=Compressor(codec, 0.1)))}
    before, after, feedback, compressed = rows["W → C (W)"]
    assert before == after and compressed < feedback
