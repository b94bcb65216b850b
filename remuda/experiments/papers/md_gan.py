"""The tables and figures of the MD-GAN paper, which also describes FL-GAN."""

from functools import partial

from remuda.experiments.papers import traffic_tables
from remuda.experiments.papers.charts import FinalScores, Series
from remuda.experiments.papers.curves import Curves, Line
from remuda.experiments.papers.description import Paper, Result
from remuda.experiments.papers.md_gan_works import (
    COLUMNS,
    CRASHES,
    LOADS,
    WORKS,
    WORKS_6,
    name_4,
    works_4,
)
from remuda.experiments.papers.tables import Computed

PAPER = Paper(
    name="md-gan",
    source="Hardy, Le Merrer and Sericola 2019, MD-GAN: Multi-Discriminator Generative "
    "Adversarial Networks for Distributed Datasets",
)
PAGE = "strategies/md-gan.md"
TRAFFIC = f"{PAGE}#traffic"
BLACK, ORANGE, BLUE = "black", "#d55e00", "#0072b2"
AXES = (("score", "MNIST score (higher is better)"), ("fid", "FID (lower is better)"))
INCEPTION_AXES = (("score", "Inception score (higher is better)"), AXES[1])

PROTOCOL = (
    "Data: the same; ten workers with equal shares. Scores: 500 samples every 1,000 iterations, as "
    "in the paper, but against the whole test split instead of 500 test images, and with our own "
    "classifier of MNIST (on CIFAR-10: Inception). The curves are not smoothed; the paper's are. "
    "Learning rates: 2e-4 for both networks, because the paper gives none. FL-GAN is scored after "
    "whole local epochs. Hardware: the paper emulated all workers on Tesla M60 and P100 GPUs and "
    "reports no times. Compare the curves with each other, not with the paper's values."
)


LINES = {
    line.work: line
    for line in (
        Line(work="standalone-b-10", label="standalone, b = 10", colour=BLACK, style=":"),
        Line(work="standalone-b-100", label="standalone, b = 100", colour=BLACK),
        Line(work="fl-gan-b-10", label="FL-GAN, b = 10", colour=ORANGE, style=":"),
        Line(work="fl-gan-b-100", label="FL-GAN, b = 100", colour=ORANGE),
        Line(work="md-gan-k-1", label="MD-GAN, k = 1", colour=BLUE, style=":"),
        Line(work="md-gan-k-log-n", label="MD-GAN, k = log N", colour=BLUE),
        Line(work=CRASHES, label="MD-GAN, crashes", colour=ORANGE),
    )
}
FIGURE_3 = [name for name in LINES if name != CRASHES]
FIGURE_5 = ["standalone-b-10", "standalone-b-100", "md-gan-k-log-n", CRASHES]
TITLES = {"mlp": "MLP on MNIST", "cnn": "CNN on MNIST", "cifar10": "CNN on CIFAR-10"}
MEASURED = {
    "mlp": f"{PAGE}#figures-3-and-5-measured",
    "cnn": f"{PAGE}#figures-3-and-5-with-the-cnn-on-mnist-measured",
    "cifar10": f"{PAGE}#figures-3-and-5-with-the-cnn-on-cifar-10-measured",
}
SCOPES = {(3, "cifar10"): "FID only; FL-GAN with b = 100 is missing", (5, "cifar10"): "FID only"}
FINDINGS_3 = {
    "mlp": "FL-GAN does not converge; MD-GAN has better scores than the standalone GAN.",
    "cnn": "MD-GAN and FL-GAN are close to equivalent; the standalone GAN with b = 100 is better.",
    "cifar10": "MD-GAN is better than FL-GAN, and close to the standalone GAN with b = 100.",
}
FINDINGS_5 = {
    "mlp": "Crashes have no significant impact; the run with crashes has the smallest FID.",
    "cnn": "Crashes have no significant impact.",
    "cifar10": "The scores diverge from the first crash on, and are comparable to the standalone "
    "GAN's up to 8 crashed workers.",
}


def _curves(figure: int, column: str, names: list[str], caption: str, finding: str) -> Result:
    return Result(
        name=f"md-gan-figure-{figure}-{column}",
        paper=PAPER,
        number=f"figure {figure}",
        caption=f"{caption}, {TITLES[column]}",
        state="measured",
        scope=SCOPES.get((figure, column), ""),
        page=MEASURED[column],
        form=Curves(
            lines=tuple(LINES[name] for name in names),
            axes=INCEPTION_AXES if column == "cifar10" else AXES,
        ),
        works=tuple(WORKS[column][name] for name in names),
        finding=finding,
        protocol=PROTOCOL,
    )


SERIES = tuple(
    Series(
        label=f"constant load on {load}, {'swaps' if is_swapping else 'no swaps'}",
        colour=BLUE if load == "workers" else ORANGE,
        style="o-" if is_swapping else "o:",
        works={n: name_4(n, b, is_swapping) for n, (b, _) in LOADS[load].items()},
    )
    for load in LOADS
    for is_swapping in (True, False)
)

CELEBA = (
    "CelebA as DIR/celeba/train/faces/ (190,000 images) and DIR/celeba/test/faces/ (10,000); add "
    "--data DIR"
)
LINES_6 = (
    Line(work="standalone", label="standalone, b = 200", colour=BLACK),
    Line(work="fl-gan", label="FL-GAN, b = 200", colour=ORANGE),
    Line(work="md-gan", label="MD-GAN, b = 40", colour=BLUE),
)


def _analytic(name: str, number: str, caption: str, form: Computed, finding: str = "") -> Result:
    return Result(
        name=f"md-gan-{name}",
        paper=PAPER,
        number=number,
        caption=caption,
        state="analytic",
        page=TRAFFIC,
        form=form,
        finding=finding,
        protocol=(
            "Computed from the networks of our recipes, without data and without training: ten "
            "workers, E = 1, 50,000 iterations. The paper's MB is 2^20 bytes."
        ),
    )


RESULTS = (
    _analytic(
        "table-2",
        "table II",
        "computation and memory of FL-GAN and MD-GAN, as formulas",
        Computed(compute=traffic_tables.table_2, notes=traffic_tables.notes),
    ),
    _analytic(
        "table-3",
        "table III",
        "size and number of messages, as formulas",
        Computed(compute=traffic_tables.table_3, notes=traffic_tables.notes),
    ),
    _analytic(
        "table-4",
        "table IV",
        "size and number of messages on CIFAR-10 with ten workers, b = 10 and b = 100",
        Computed(
            compute=traffic_tables.table_4,
            paper=traffic_tables.NUMBERS_4,
            notes=traffic_tables.notes,
        ),
    ),
    *(
        _analytic(
            f"figure-2-{data}",
            "figure 2",
            f"bytes that workers and server receive in an iteration, over the batch size, {title}",
            Computed(
                compute=partial(traffic_tables.crossings, data),
                paper=(traffic_tables.CROSSINGS[data],),
                draw=partial(traffic_tables.draw, data),
            ),
            f"MD-GAN is competitive for less than around b = {traffic_tables.CROSSINGS[data]:g}.",
        )
        for data, title in (("mnist", "MNIST"), ("cifar10", "CIFAR-10"))
    ),
    *(
        _curves(3, column, FIGURE_3, "scores over iterations, six methods", FINDINGS_3[column])
        for column in COLUMNS
    ),
    Result(
        name="md-gan-figure-4",
        paper=PAPER,
        number="figure 4",
        caption="scores after 20,000 iterations over the number of workers, with and without swaps",
        state="measured",
        scope="constant load on workers",
        page=f"{PAGE}#figure-4-measured",
        form=FinalScores(axis="workers", series=SERIES, scores=AXES),
        works=works_4(),
        finding="A constant load on workers is better than a constant load on the server. Swaps "
        "help. The differences show beyond 10 workers.",
        protocol=PROTOCOL.replace("every 1,000 iterations", "after the last iteration"),
    ),
    *(
        _curves(5, column, FIGURE_5, "scores over iterations with crashes", FINDINGS_5[column])
        for column in COLUMNS
    ),
    Result(
        name="md-gan-figure-6",
        paper=PAPER,
        number="figure 6",
        caption="Inception score and FID over iterations on CelebA",
        state="needs data",
        needs=CELEBA,
        form=Curves(lines=LINES_6, axes=INCEPTION_AXES),
        works=WORKS_6,
        finding="Inception scores are comparable, MD-GAN slightly above; the FID of the standalone "
        "GAN is the best.",
        protocol="Data: your folder of CelebA at 128 x 128. Learning rates and betas are the "
        "paper's. Scores: 500 samples against all test images; the paper does not say how many it "
        "uses here. The curves are not smoothed.",
    ),
    Result(
        name="md-gan-figure-1",
        paper=PAPER,
        number="figure 1",
        caption="who sends what to whom",
        state="not a result",
    ),
    Result(
        name="md-gan-table-1",
        paper=PAPER,
        number="table I",
        caption="notation",
        state="not a result",
    ),
)
