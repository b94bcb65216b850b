"""The tables and figures of the cellular paper."""

from remuda.experiments.papers import values
from remuda.experiments.papers.charts import Bars
from remuda.experiments.papers.description import Paper, Result
from remuda.experiments.papers.tables import Column, Row, Table
from remuda.experiments.papers.works import Study, Training

PAPER = Paper(
    name="cellular",
    source="Perez, Nesmachnow, Toutouh, Hemberg and O'Reilly 2020, Parallel/distributed "
    "implementation of cellular training for generative adversarial neural networks",
)
PAGE = "strategies/cellular.md#the-papers-4-x-4-grid-on-a-gpu"
HOME = "cellular-table-3"
GRIDS = {"2x2": 4, "3x3": 9, "4x4": 16}  # cells
SHORT = ("strategy.steps_per_round=10", "run.rounds=3", "run.sample_every=3", "scores.samples=500")
ONE_CORE, DISTRIBUTED = "single core, min", "distributed, min"
ACCELERATION, SPEEDUP = "acceleration, %", "speed-up"

STUDIES = {
    grid: Study(
        name=f"{grid}-ranks",
        home=HOME,
        recipe=f"cellular-mnist-{grid}",
        short=("strategy.steps_per_round=10",),
        most_ranks=cells,
    )
    for grid, cells in GRIDS.items()
}
TRAININGS = {
    grid: Training(
        name=f"{grid}-one-device", home=HOME, recipe=f"cellular-mnist-{grid}", short=SHORT
    )
    for grid in GRIDS
}

TIMES = (
    "Hardware: the paper used Xeon Gold 6138 cores, one for each cell and one for the master (5, "
    "10 and 17). Here, `single core` is one rank with one thread, and `distributed` has as many "
    "ranks as this machine has cores, at most one per cell. Both run on the CPU, are timed over a "
    "few iterations without the first one, and are extrapolated to the paper's 200 iterations; ± "
    "is over the timed iterations, not over ten executions. `one device` trains all cells "
    "together in one process, on the device of --device. Data: MNIST, as in the paper. The paper "
    "does not score its samples."
)

TABLE_3 = Table(
    corner="grid",
    columns=(
        Column(title=ONE_CORE, extract=values.minutes_on_ranks(0), work="{}-ranks"),
        Column(title=DISTRIBUTED, extract=values.minutes_on_ranks(-1), work="{}-ranks"),
        Column(title=SPEEDUP, extract=values.speedup, work="{}-ranks"),
        Column(title="cores", extract=values.num_ranks, work="{}-ranks", digits=0),
        Column(title="one device, min", extract=values.minutes_of_training, work="{}-one-device"),
        Column(
            title="total variation distance",
            extract=values.last_score("tvd"),
            work="{}-one-device",
            digits=3,
        ),
        Column(title="FID", extract=values.last_score("fid"), work="{}-one-device"),
    ),
    rows=(
        Row(
            title="2 x 2",
            key="2x2",
            paper={ONE_CORE: 339.6, DISTRIBUTED: (39.81, 0.01), SPEEDUP: 8.53, "cores": 5},
        ),
        Row(
            title="3 x 3",
            key="3x3",
            paper={ONE_CORE: 999.5, DISTRIBUTED: (73.24, 2.56), SPEEDUP: 13.65, "cores": 10},
        ),
        Row(
            title="4 x 4",
            key="4x4",
            paper={ONE_CORE: 1920.0, DISTRIBUTED: (126.68, 3.42), SPEEDUP: 15.17, "cores": 17},
        ),
    ),
)

# Minutes on a single core and distributed, per cent, and ratio, as printed.
ROUTINES = {
    "gather": (19.4, 19.4, 0.0, 1.00),
    "train": (264.9, 43.8, 83.5, 6.05),
    "update_genomes": (199.8, 16.8, 91.6, 11.87),
    "mutate": (25.6, 17.9, 29.9, 1.43),
    "overall": (509.6, 97.9, 80.8, 5.21),
}
TABLE_4 = Table(
    corner="routine",
    columns=(
        Column(title=ONE_CORE, extract=values.routine_on_ranks(0), work="4x4-ranks"),
        Column(title=DISTRIBUTED, extract=values.routine_on_ranks(-1), work="4x4-ranks"),
        Column(title=ACCELERATION, extract=values.routine_acceleration, work="4x4-ranks", digits=1),
        Column(title=SPEEDUP, extract=values.routine_speedup, work="4x4-ranks"),
        Column(title="one device, min", extract=values.routine_on_device, work="4x4-one-device"),
    ),
    rows=tuple(
        Row(
            title=name,
            key=name,
            paper=dict(zip((ONE_CORE, DISTRIBUTED, ACCELERATION, SPEEDUP), printed, strict=True)),
        )
        for name, printed in ROUTINES.items()
    ),
)
FIGURE_4 = Bars(
    rows=tuple(name for name in ROUTINES if name != "overall"),
    columns=(
        ("single core", "4x4-ranks", values.routine_on_ranks(0)),
        ("distributed", "4x4-ranks", values.routine_on_ranks(-1)),
    ),
    paper={
        title: tuple(printed[i] for name, printed in ROUTINES.items() if name != "overall")
        for i, title in enumerate(("single core", "distributed"))
    },
    unit="minutes for 200 iterations",
)
ROUTINE_TIMES = (
    f"The paper does not define its four routines; compare totals rather than single rows. {TIMES} "
    "On ranks, the times are those of rank 0, including waiting. They are scaled by cells and "
    "iterations to the paper's 16 and 200."
)

RESULTS = (
    Result(
        name="cellular-table-3",
        paper=PAPER,
        number="table III",
        caption="minutes of training on one core and distributed, and speed-up, for three grids",
        state="measured",
        page=PAGE,
        scope="4 x 4 on one GPU",
        form=TABLE_3,
        works=(*STUDIES.values(), *TRAININGS.values()),
        seeds=10,
        protocol=TIMES,
    ),
    Result(
        name="cellular-table-4",
        paper=PAPER,
        number="table IV",
        caption="minutes of the four routines on one core and distributed, 4 x 4 grid",
        state="measured",
        page=PAGE,
        scope="one GPU",
        form=TABLE_4,
        works=(STUDIES["4x4"], TRAININGS["4x4"]),
        protocol=ROUTINE_TIMES,
    ),
    Result(
        name="cellular-figure-4",
        paper=PAPER,
        number="figure 4",
        caption="the times of table IV as bars",
        state="runnable",
        form=FIGURE_4,
        works=(STUDIES["4x4"],),
        protocol=ROUTINE_TIMES,
    ),
    *(
        Result(
            name=f"cellular-{name}",
            paper=PAPER,
            number=number,
            caption=caption,
            state="not a result",
        )
        for name, number, caption in (
            ("figure-1", "figure 1", "grid and neighbourhoods"),
            ("figure-2", "figure 2", "states of a slave process"),
            ("figure-3", "figure 3", "messages between master and slave"),
            ("table-1", "table I", "settings; the recipes cellular-mnist-* have them"),
            ("table-2", "table II", "cores and memory that were requested"),
        )
    ),
)
