"""The tables and figures of the first class-parallel paper (DC-CGAN)."""

from functools import partial

from remuda.experiments.papers.charts import SampleGrids, WeakScaling
from remuda.experiments.papers.description import Paper, Result, State
from remuda.experiments.papers.tables import Column, Printed, Row, Table
from remuda.experiments.papers.values import SCORE, last_score
from remuda.experiments.papers.works import Study, Training

PAPER = Paper(
    name="class-parallel",
    source="Lupo Pasini, Gabbi, Yin, Perotto and Laanait 2021, Scalable balanced training of "
    "conditional generative adversarial neural networks on image data",
)
PAGE = "strategies/class-parallel.md"
MEASURED = f"{PAGE}#measured"
IS, FID = "Inception score", "FID"
# Rows of tables 5, 9, 13 and 17: the model, its recipe, and whether it has a pair per class.
MODELS = {
    "dc-gan": ("DC-GANs", "standalone-{}", False),
    "dc-cgan": ("DC-CGANs", "standalone-{}-conditional", False),
    "distributed-dc-cgan": ("Distributed DC-CGANs", "class-parallel-{}", True),
}
IMAGENET = "ImageNet1k as DIR/imagenet/train/CLASS/ (one sub-folder per class); add --data DIR"
SHORT = (
    "run.rounds=2",
    "run.sample_every=2",
    "strategy.steps_per_round=3",
    "scores.samples=500",
    "scores.classifier=train",  # Inception takes long on a CPU
)
FEW = ("strategy.batch_size=8", "run.members=10")  # train only 10 of 100 or 1,000 classes
EPOCHS = ("run.rounds=1000", "run.sample_every=50", "scores.every=1000")
# Table, data, and further settings of --short for a pair per class.
DATA = {
    5: ("mnist", ()),
    9: ("cifar10", ()),
    13: ("cifar100", FEW),
    17: ("imagenet", FEW),
}
TITLES = {"mnist": "MNIST", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "imagenet": "ImageNet"}
# The Inception score and its standard deviation over ten splits.
SCORES: dict[int, dict[str, Printed]] = {
    5: {"dc-gan": (2.54, 0.54), "dc-cgan": (2.62, 0.03), "distributed-dc-cgan": (2.71, 0.04)},
    9: {"dc-gan": (4.39, 0.28), "dc-cgan": (5.69, 0.31), "distributed-dc-cgan": (6.43, 0.25)},
    13: {"dc-gan": (4.59, 0.28), "dc-cgan": (5.62, 0.23), "distributed-dc-cgan": (6.61, 0.21)},
    17: {},  # missing from the text that we have
}
STATES: dict[int, tuple[State, str, str]] = {  # state, scope, data that users must bring
    5: ("measured", "20 of 1,000 epochs, five seeds", ""),
    9: ("measured", "FID and KID instead of the Inception score; one seed", ""),
    13: ("runnable", "", ""),
    17: ("needs data", "", IMAGENET),
}
# Sample pictures: table, the table with its runs, model. The text calls them figures.
PICTURES = {
    6: (5, "dc-gan"),
    7: (5, "dc-cgan"),
    8: (5, "distributed-dc-cgan"),
    10: (9, "dc-gan"),
    11: (9, "dc-cgan"),
    12: (9, "distributed-dc-cgan"),
    14: (13, "dc-gan"),
    15: (13, "dc-cgan"),
    16: (13, "distributed-dc-cgan"),
    18: (17, "dc-gan"),
    19: (17, "dc-cgan"),
    20: (17, "distributed-dc-cgan"),
}
SHOWN = {8: "10 epochs", 10: "600 epochs", 11: "", 12: ""}  # pictures in docs, and their length
PROTOCOL = (
    "Data: the same{}. Length: 1,000 epochs, as in the paper. Batch size and betas are our choice, "
    "because the paper gives none. Scores: 10,000 samples, ten splits, after the last epoch; the "
    "paper states neither its network nor its number of samples. {} ± is over splits in the paper "
    "and over seeds here. Hardware: the paper used two V100 GPUs per class."
)
NETWORKS = {
    "mnist": "Our score uses a classifier of MNIST and is at most 10, so compare only the order of "
    "the rows.",
    "colour": "Our score uses Inception; it needs its weights with the head.",
}


def works(table: int) -> dict[str, Training]:
    """Return the three runs of a table."""
    data, few = DATA[table]
    make = partial(Training, home=f"class-parallel-table-{table}", settings=EPOCHS)
    return {
        name: make(name=name, recipe=recipe.format(data), short=(*SHORT, *(few if is_herd else ())))
        for name, (_, recipe, is_herd) in MODELS.items()
    }


WORKS = {table: works(table) for table in DATA}


def protocol(data: str) -> str:
    """Return how our values differ from the paper's."""
    size = " (scaled to 32 x 32)" if data in ("mnist", "imagenet") else ""
    return PROTOCOL.format(size, NETWORKS.get(data, NETWORKS["colour"]))


def _table(number: int) -> Result:
    data, _ = DATA[number]
    state, scope, needs = STATES[number]
    rows = tuple(
        Row(title=title, key=key, paper={IS: SCORES[number][key]} if SCORES[number] else {})
        for key, (title, _, _) in MODELS.items()
    )
    return Result(
        name=f"class-parallel-table-{number}",
        paper=PAPER,
        number=f"table {number}",
        caption=f"Inception score of three models on {TITLES[data]}"
        + ("" if SCORES[number] else " (its values are missing from the text that we have)"),
        state=state,
        page=MEASURED if state == "measured" else "",
        scope=scope,
        needs=needs,
        form=Table(
            corner="model",
            columns=(
                Column(title=IS, extract=last_score(SCORE), digits=3),
                Column(title=FID, extract=last_score("fid")),
            ),
            rows=rows,
        ),
        works=tuple(WORKS[number].values()),
        protocol=protocol(data),
    )


def _picture(number: int) -> Result:
    table, model = PICTURES[number]
    data, (state, _, needs) = DATA[table][0], STATES[table]
    if state == "measured" and number not in SHOWN:
        state = "runnable"
    return Result(
        name=f"class-parallel-table-{number}",
        paper=PAPER,
        number=f"table {number}",
        caption=f"samples of {MODELS[model][0]} on {TITLES[data]}",
        state=state,
        page=MEASURED if state == "measured" else "",
        scope=SHOWN.get(number, ""),
        needs=needs,
        form=SampleGrids(works={f"{MODELS[model][0]} on {TITLES[data]}": model}),
        works=(WORKS[table][model],),
        protocol=protocol(data),
    )


# Weak scaling: one class per rank, rounds of one epoch of a class.
STEPS = {"mnist": 94, "cifar10": 50, "cifar100": 5, "imagenet": 13}
CLASSES = {"mnist": 10, "cifar10": 10, "cifar100": 100, "imagenet": 1000}
RANGES = {
    "mnist": "1 to 10",
    "cifar10": "1 to 10",
    "cifar100": "10 to 100",
    "imagenet": "100 to 1,000",
}
SCALING = (
    "The paper prints wall-clock times only as a figure, measured {}. Here, every rank "
    "is one thread on the CPU of this machine and trains one class; the number of ranks ends with "
    "the number of cores. Times are medians of a few rounds, without the first one. To predict the "
    "times on more ranks, use `remuda scaling --weak`."
)


def study(paper: str, data: str, recipe: str, name: str, figure: int) -> Study:
    """Return the study of weak scaling with one class per rank."""
    return Study(
        name=name,
        home=f"{paper}-figure-{figure}-{data}",
        recipe=recipe,
        settings=(f"strategy.steps_per_round={STEPS[data]}",),
        short=("strategy.steps_per_round=2", "strategy.batch_size=16"),
        most_ranks=CLASSES[data],
        weak=True,
    )


def _scaling(data: str) -> Result:
    needs = IMAGENET if data == "imagenet" else ""
    return Result(
        name=f"class-parallel-figure-4-{data}",
        paper=PAPER,
        number="figure 4",
        caption=f"weak scaling: time over the number of processes, {TITLES[data]}",
        state="needs data" if needs else "runnable",
        needs=needs,
        form=WeakScaling(works={"DC-CGAN": "weak-scaling"}),
        works=(study("class-parallel", data, f"class-parallel-{data}", "weak-scaling", 4),),
        finding="The time does not depend on the number of classes.",
        protocol=SCALING.format(f"on {RANGES[data]} processes with two V100 GPUs each"),
    )


RESULTS = (
    *(
        _table(number) if number in DATA else _picture(number)
        for number in sorted([*DATA, *PICTURES])
    ),
    *(_scaling(data) for data in TITLES),
    *(
        Result(
            name=f"class-parallel-{kind}-{number}",
            paper=PAPER,
            number=f"{kind} {number}",
            caption=caption,
            state="not a result",
        )
        for kind, number, caption in (
            ("figure", 1, "a GAN"),
            ("figure", 2, "families of generative models"),
            ("figure", 3, "one pair per class"),
            ("table", 1, "generator of DC-GANs"),
            ("table", 2, "discriminator of DC-GANs"),
            ("table", 3, "generator of DC-CGANs"),
            ("table", 4, "discriminator of DC-CGANs"),
        )
    ),
)
