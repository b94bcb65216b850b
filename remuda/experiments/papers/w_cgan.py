"""The tables and figures of the second class-parallel paper (W-CGAN)."""

from remuda.experiments.papers import class_parallel as first
from remuda.experiments.papers.charts import SampleGrids, WeakScaling
from remuda.experiments.papers.class_parallel import EPOCHS, FID, IS, MEASURED, SHORT, TITLES
from remuda.experiments.papers.description import Paper, Result
from remuda.experiments.papers.tables import Column, Row, Table
from remuda.experiments.papers.values import SCORE, last_score
from remuda.experiments.papers.works import Training

PAPER = Paper(
    name="w-cgan",
    source="Lupo Pasini and Yin, Stable parallel training of Wasserstein conditional generative "
    "adversarial neural networks",
)
DC_CGAN, W_CGAN = "distributed-dc-cgan", "w-cgan"
NAMES = {DC_CGAN: "Parallel DC-CGANs", W_CGAN: "Parallel W-CGANs"}
# Table, data, the table of the first paper that has the same runs, further settings of --short.
TABLES = {3: ("cifar10", 9, ()), 4: ("cifar100", 13, first.FEW)}
ROMAN = {3: "III", 4: "IV"}
# Inception score and FID.
SCORES = {
    3: {DC_CGAN: {IS: 6.43, FID: 9.41}, W_CGAN: {IS: 7.43, FID: 8.53}},
    4: {DC_CGAN: {IS: 6.61, FID: 9.23}, W_CGAN: {IS: 6.93, FID: 8.92}},
}
PICTURES = {2: (3, DC_CGAN), 3: (3, W_CGAN), 4: (4, DC_CGAN), 5: (4, W_CGAN)}
WORKS = {
    table: {
        DC_CGAN: first.WORKS[same][DC_CGAN],
        W_CGAN: Training(
            name=W_CGAN,
            home=f"w-cgan-table-{table}",
            recipe=f"class-parallel-{data}-wasserstein",
            settings=EPOCHS,
            short=(*SHORT, *few),
        ),
    }
    for table, (data, same, few) in TABLES.items()
}
PROTOCOL = (
    "Data: the same. Length: 1,000 epochs, as in the paper. Our W-CGAN has its own critic, a "
    "gradient penalty, an averaged generator, and mirrored, shifted and cut images. The "
    "paper does not say how it keeps the critic Lipschitz. Scores: 10,000 samples against the "
    "training split, with Inception; the paper does not state its protocol. The Inception score "
    "needs Inception's weights with the head. Hardware: the paper used V100 GPUs."
)


def _table(number: int) -> Result:
    data, _, _ = TABLES[number]
    is_measured = data == "cifar10"
    return Result(
        name=f"w-cgan-table-{number}",
        paper=PAPER,
        number=f"table {ROMAN[number]}",
        caption=f"Inception score and FID of DC-CGANs and W-CGANs on {TITLES[data]}",
        state="measured" if is_measured else "runnable",
        page=MEASURED if is_measured else "",
        scope="FID, one seed" if is_measured else "",
        form=Table(
            corner="model",
            columns=(
                Column(title=IS, extract=last_score(SCORE)),
                Column(title=FID, extract=last_score("fid")),
            ),
            rows=tuple(
                Row(title=title, key=key, paper=SCORES[number][key]) for key, title in NAMES.items()
            ),
        ),
        works=tuple(WORKS[number].values()),
        protocol=PROTOCOL,
    )


def _picture(number: int) -> Result:
    table, model = PICTURES[number]
    data, _, _ = TABLES[table]
    is_measured, caption = data == "cifar10", f"{NAMES[model]} on {TITLES[data]}"
    return Result(
        name=f"w-cgan-figure-{number}",
        paper=PAPER,
        number=f"figure {number}",
        caption=f"samples of {caption}",
        state="measured" if is_measured else "runnable",
        page=MEASURED if is_measured else "",
        form=SampleGrids(works={caption: model}),
        works=(WORKS[table][model],),
        protocol=PROTOCOL,
    )


def _scaling(data: str) -> Result:
    recipe = f"class-parallel-{data}"
    studies = {
        "DC-CGAN": first.study("w-cgan", data, recipe, "dc-cgan-weak-scaling", 6),
        "W-CGAN": first.study("w-cgan", data, f"{recipe}-wasserstein", "w-cgan-weak-scaling", 6),
    }
    return Result(
        name=f"w-cgan-figure-6-{data}",
        paper=PAPER,
        number="figure 6",
        caption=f"weak scaling: time of the slowest process over their number, {TITLES[data]}",
        state="runnable",
        form=WeakScaling(works={label: work.name for label, work in studies.items()}),
        works=tuple(studies.values()),
        finding="The Wasserstein loss does not change how the method scales.",
        protocol=first.SCALING.format("on up to 100 V100 GPUs"),
    )


RESULTS = (
    _table(3),
    _table(4),
    *(_picture(number) for number in PICTURES),
    *(_scaling(data) for data in ("cifar10", "cifar100")),
    *(
        Result(
            name=f"w-cgan-{name}",
            paper=PAPER,
            number=number,
            caption=caption,
            state="not a result",
        )
        for name, number, caption in (
            ("figure-1", "figure 1", "one pair per class"),
            ("table-1", "table I", "generator"),
            ("table-2", "table II", "discriminator"),
        )
    ),
)
