"""The runs behind figures 3 to 6 of the MD-GAN paper."""

from functools import partial

from remuda.experiments.papers.works import Training

# Figures 3 and 5 have a column for each of these networks: recipe, settings of --short.
SHORT = ("run.rounds=5", "run.sample_every=5", "scores.every=1")
SHORT_MLP = (*SHORT, "strategy.steps_per_round=50")
SHORT_CNN = ("run.rounds=3", "run.sample_every=3", "scores.every=1", "strategy.steps_per_round=5")
FOUR = "run.members=4"  # so that k = log N is 2, not 1
SMALL = "scores.classifier=train"  # Inception takes long on a CPU
COLUMNS = {
    "mlp": ("mnist-mlp", SHORT_MLP, ()),
    "cnn": ("mnist-cnn", SHORT_CNN, (FOUR,)),
    "cifar10": ("cifar10-cnn", (*SHORT_CNN, SMALL), (FOUR,)),
}
# Rounds of FL-GAN are whole local epochs: those with b = 100 have a tenth of the iterations.
FL_100 = {
    "mlp": ("scores.every=17", "run.rounds=833", "run.sample_every=100"),
    "cnn": ("scores.every=17", "run.rounds=833", "run.sample_every=100"),
    "cifar10": ("scores.every=20", "run.rounds=1000", "run.sample_every=100"),
}
B_100 = "strategy.batch_size=100"
CRASHES = "crashes"


def _works(column: str) -> tuple[Training, ...]:
    """Return the six runs of a column of figure 3, and the one that figure 5 adds."""
    network, short, few = COLUMNS[column]
    make = partial(Training, home=f"md-gan-figure-3-{column}")
    return (
        make(name="standalone-b-10", recipe=f"standalone-{network}", short=short),
        make(
            name="standalone-b-100", recipe=f"standalone-{network}", short=short, settings=(B_100,)
        ),
        make(name="fl-gan-b-10", recipe=f"fl-gan-{network}", short=(*short, *few)),
        make(
            name="fl-gan-b-100",
            recipe=f"fl-gan-{network}",
            short=(*short, *few),
            settings=(B_100, *FL_100[column]),
        ),
        make(
            name="md-gan-k-1",
            recipe=f"md-gan-{network}",
            short=(*short, *few),
            settings=("strategy.num_fake_batches=1",),
        ),
        make(name="md-gan-k-log-n", recipe=f"md-gan-{network}", short=(*short, *few)),
        Training(
            name=CRASHES,
            home=f"md-gan-figure-5-{column}",
            recipe=f"md-gan-{network}-crashes",
            short=(*short, *few, "strategy.lose_every=1"),
        ),
    )


WORKS = {column: {work.name: work for work in _works(column)} for column in COLUMNS}
# Figure 4: N, batch size, and rounds between swaps for a constant load on workers or server.
LOADS = {
    "workers": {1: (10, 15), 10: (10, 15), 25: (10, 6), 50: (10, 3)},
    "server": {1: (100, 15), 10: (10, 15), 25: (4, 15), 50: (2, 15)},
}
SHORT_4 = ("strategy.steps_per_round=10", "run.rounds=4", "scores.every=4", "run.sample_every=4")


def name_4(num_workers: int, batch_size: int, is_swapping: bool) -> str:
    """Return the name of a run of figure 4."""
    swaps = "swaps" if is_swapping and num_workers > 1 else "no-swaps"  # one worker has no partner
    return f"n-{num_workers}-b-{batch_size}-{swaps}"


def works_4() -> tuple[Training, ...]:
    """Return the runs of figure 4; those that two curves share appear once."""
    found = {}
    for load in LOADS.values():
        for num_workers, (batch_size, every) in load.items():
            for is_swapping in (True, False):
                name = name_4(num_workers, batch_size, is_swapping)
                swap_every = 0 if name.endswith("no-swaps") else every
                found[name] = Training(
                    name=name,
                    home="md-gan-figure-4",
                    recipe="md-gan-mnist-mlp-scaling",
                    settings=(
                        f"run.members={num_workers}",
                        f"strategy.batch_size={batch_size}",
                        f"strategy.swap_every={swap_every}",
                    ),
                    short=(*SHORT_4, *(("strategy.swap_every=1",) if swap_every else ())),
                )
    return tuple(found.values())


SHORT_6 = (
    "data.size=32",
    "run.rounds=3",
    "run.sample_every=3",
    "strategy.steps_per_round=3",
    "strategy.batch_size=20",
    "scores.every=1",
    "scores.kinds=fid",
)
WORKS_6 = tuple(
    Training(name=method, home="md-gan-figure-6", recipe=f"{method}-celeba", short=SHORT_6)
    for method in ("standalone", "fl-gan", "md-gan")
)
