"""Define tiny training runs, and read the results that the golden files store.

This module uses only recipes, ``remuda.run`` and the files of a run, which stay the same when
modules move.
"""

import hashlib
import importlib.util
import json
import shutil
import sys
from pathlib import Path

import numpy
from safetensors import safe_open

import remuda

HERE = Path(__file__).parent
ROUNDS = 3
LAYOUTS = ("loop", "vmap")  # layouts of the engine "stacked"; their rounding errors differ
RANKS = "mpi-2"
TINY = (
    f"run.rounds={ROUNDS}",
    f"run.sample_every={ROUNDS}",
    f"run.checkpoint_every={ROUNDS}",
    "run.seed=5",
    "strategy.batch_size=4",
    "strategy.steps_per_round=2",
    "engine.device=cpu",
    "engine.threads=1",
)

# Use small learning rates for convolutions: Adam's first step has full size even if the gradient is
# only a rounding error.
SLOW = ("strategy.generator_lr=1e-5", "strategy.discriminator_lr=1e-5")
MLP = ("networks.name=mlp", "networks.latent=6", "networks.hidden=12")
ACGAN_MLP = ("networks.name=acgan-mlp", "networks.latent=14", "networks.hidden=12")
ACGAN_MNIST = (
    "networks.name=acgan-mnist",
    "networks.latent=14",
    "networks.minibatch_kernels=4",
    *SLOW,
)
DCGAN = (
    "networks.name=dcgan",
    "networks.latent=6",
    "networks.width=16",
    "networks.epsilon=0.01",
    *SLOW,
)
WCGAN = ("networks.name=wcgan", "networks.latent=6", "networks.width=8", *SLOW)
PLAIN = (*WCGAN, "networks.critic_width=4")
# Use images of 32 pixels. With smaller images the last BatchNorm sees single pixels and removes the
# mean, on which these losses depend.
LARGE = "data.size=32"
CONDITIONAL = "networks.conditional=true"
LABELLED = (*MLP, CONDITIONAL)
SMALL_RING = ("networks.hidden=12", "networks.num_hidden=2")
FOUR = "run.members=4"
WASSERSTEIN = "strategy.loss=wasserstein"
SHARED = (
    "strategy.shared_generator=[input, body, head]",
    "strategy.shared_discriminator=[input, body]",
)
AUGMENTED = ("strategy.shift=0.25", "strategy.cutout=0.25")

STANDALONE = {
    "plain": MLP,
    "conditional": ("standalone-digits-conditional", *LABELLED),
    "ring": ("standalone-ring", *SMALL_RING),
    "dcgan": (*DCGAN, CONDITIONAL, "strategy.ema=0.0"),
    "normal-weights": (
        *DCGAN,
        "networks.weights=normal",
    ),  # too small to learn, but part of the state
    "wcgan": (*PLAIN, CONDITIONAL, WASSERSTEIN, "strategy.discriminator_steps=2"),
    "table": (
        *WCGAN,
        LARGE,
        "networks.critic=table",
        "strategy.loss=hinge",
        "strategy.lipschitz=penalty",
    ),
    "clip": (*MLP, WASSERSTEIN, "strategy.lipschitz=clip", "strategy.clip=0.05"),
    "spectral": (*DCGAN, LARGE, "strategy.loss=hinge", "strategy.lipschitz=spectral"),
    "least-squares": (*MLP, "strategy.loss=least-squares", "strategy.label_smoothing=0.1"),
    "minimax": (
        *MLP,
        "strategy.loss=minimax",
        "strategy.label_smoothing=0.1",
        "data.partition=subset",
    ),
    "augmented": (*DCGAN, *AUGMENTED, "data.mirror=true"),
    "acgan-mnist": (*ACGAN_MNIST, "networks.batch_norm=both", "networks.minibatch_dims=3"),
    "pass": (*MLP, "strategy.steps_per_round=0", "data.limit=20"),
}
CLASS_PARALLEL = {
    "plain": (*MLP, FOUR),
    "wcgan": (*PLAIN, FOUR, WASSERSTEIN, "strategy.discriminator_steps=2"),
    "spectral": (*PLAIN, FOUR, WASSERSTEIN, "strategy.lipschitz=spectral", "strategy.ema=0.0"),
    "augmented": (*MLP, FOUR, *AUGMENTED, "strategy.loss=hinge"),
    "shared": (*PLAIN, FOUR, *SHARED, "strategy.loss=hinge", "strategy.lipschitz=spectral"),
    "averaged": (
        *MLP,
        FOUR,
        *SHARED,
        "strategy.share_every=2",
        "strategy.families=[[0, 2]]",
        "strategy.family_discriminator=[head]",
    ),
}
CELLULAR = {
    "plain": MLP,
    "ring": ("cellular-ring", *SMALL_RING, "strategy.height=2", "strategy.width=2"),
    "moore": (*MLP, "strategy.neighbourhood=moore", "strategy.height=3", "strategy.width=3"),
    "alone": (*MLP, "strategy.neighbourhood=none", "strategy.replacement=better"),
    "schedule": (*MLP, "strategy.neighbourhood=ring", 'strategy.schedule="2: moore, 3: none"'),
    "population": (
        *MLP,
        "strategy.population=2",
        "strategy.fitness=worst",
        "strategy.tournament_size=3",
    ),
    "unselected": (*MLP, "strategy.selection=none", "strategy.population=2"),
    "better": (*MLP, "strategy.replacement=better", "strategy.fitness=best", "data.partition=iid"),
    "skipping": (
        *MLP,
        "strategy.skip_discriminator=2",
        "strategy.steps_per_round=3",
        "strategy.ema=0.0",
    ),
    "mustangs-creation": (*MLP, "strategy.mustangs=creation", "data.partition=dirichlet"),
    "mustangs-update": (*MLP, "strategy.mustangs=update", "strategy.population=2"),
    "losses": (*MLP, "strategy.lose_every=1"),
    "mixtures": (
        *MLP,
        "strategy.mixture_mutation=0.2",
        "strategy.lr_mutation=0.0",
        "data.partition=class",
    ),
    "wasserstein": (*PLAIN, WASSERSTEIN, "strategy.height=1", "data.partition=subset"),
    "conditional": (*ACGAN_MLP, "strategy.lr_mutation_probability=1.0"),
}
MD_GAN = {
    "plain": (*ACGAN_MLP, FOUR),
    "one-batch": (*ACGAN_MLP, FOUR, "strategy.num_fake_batches=1", "strategy.swap_every=0"),
    "two-steps": (
        *ACGAN_MLP,
        FOUR,
        "strategy.num_fake_batches=3",
        "strategy.discriminator_steps=2",
    ),
    "carry": (*ACGAN_MLP, FOUR, "strategy.swap_optimizer=carry", "data.partition=dirichlet"),
    "reset": (*ACGAN_MLP, FOUR, "strategy.swap_optimizer=reset", "strategy.swap_every=2"),
    "losses": (*ACGAN_MLP, FOUR, "strategy.lose_every=1", "strategy.ema=0.0"),
    "by-class": (*LABELLED, FOUR, "data.partition=class", "strategy.loss=least-squares"),
    "wasserstein": (*PLAIN, FOUR, WASSERSTEIN, "strategy.discriminator_steps=2", *AUGMENTED),
    "acgan-mnist": (*ACGAN_MNIST, "run.members=2", "strategy.label_smoothing=0.1"),
}
FL_GAN = {
    "plain": (*ACGAN_MLP, FOUR),
    "epochs": (*ACGAN_MLP, FOUR, "strategy.epochs=2", "data.partition=class"),
    "pass": (*ACGAN_MLP, FOUR, "strategy.steps_per_round=0", "data.limit=40", "strategy.epochs=2"),
    "fraction": (*ACGAN_MLP, FOUR, "strategy.fraction=0.5", "data.partition=dirichlet"),
    "generator": (*MLP, FOUR, "strategy.sync=generator", "strategy.ema=0.0"),
    "discriminator": (*MLP, FOUR, "strategy.sync=discriminator", "strategy.sync_optimizer=average"),
    "average": (*ACGAN_MLP, FOUR, "strategy.sync_optimizer=average", "strategy.fraction=0.5"),
    "reset": (*LABELLED, FOUR, "strategy.sync_optimizer=reset", "strategy.discriminator_steps=2"),
    "local-norms": (*DCGAN, FOUR, "strategy.local_norms=true", "data.mirror=true"),
    "wasserstein": (*PLAIN, FOUR, WASSERSTEIN, "strategy.sync_optimizer=average"),
}
GROUPS = {
    "standalone": STANDALONE,
    "class-parallel": CLASS_PARALLEL,
    "cellular": CELLULAR,
    "md-gan": MD_GAN,
    "fl-gan": FL_GAN,
}


def _case(strategy: str, words: tuple[str, ...]) -> tuple[str, list[str]]:
    """Return a recipe and settings. If no recipe comes first, use the strategy's digits recipe."""
    recipe = f"{strategy}-digits" if "=" in words[0] else words[0]
    own = words if "=" in words[0] else words[1:]
    more: tuple[str, ...] = ()
    if strategy == "cellular":  # training the feature extractor would take long
        more = ("strategy.mixture_by=pixels", "strategy.mixture_samples=32")
    return recipe, [*TINY, *more, *own]


CASES = {
    f"{strategy}/{name}": _case(strategy, words)
    for strategy in GROUPS
    for name, words in GROUPS[strategy].items()  # in the order in which they run
}
# A standalone run has only one member, so it cannot run on two ranks.
ON_RANKS = [case for case in CASES if not case.startswith("standalone/")]


def has_ranks() -> bool:
    """Return whether mpi4py is installed and mpirun is next to Python or on PATH."""
    next_to_python = Path(sys.executable).with_name("mpirun")
    has_mpirun = next_to_python.exists() or shutil.which("mpirun") is not None
    return has_mpirun and importlib.util.find_spec("mpi4py") is not None


def run_stacked(case: str, layout: str, folder: Path) -> dict:
    """Train a case in this process and return its summary."""
    recipe, settings = CASES[case]
    return summary(remuda.run(remuda.recipe(recipe, *settings, f"engine.layout={layout}"), folder))


def run_on_ranks(case: str, folder: Path) -> None:
    """Train a case as one rank of a job. A job may train several cases, one after the other."""
    recipe, settings = CASES[case]
    remuda.run(remuda.recipe(recipe, *settings, "engine.name=mpi"), folder)


def summary(folder: Path) -> dict:
    """Return a summary of the rounds and the last checkpoint in a run folder."""
    lines = (folder / "rounds.jsonl").read_text().splitlines()[:ROUNDS]
    return {"rounds": [_facts(json.loads(line)) for line in lines], **_state(folder)}


def _facts(line: dict) -> dict:
    """Return a round's traffic and its metrics, which are lists of one number per member."""
    lists = {key: value for key, value in line.items() if isinstance(value, list)}
    metrics = {key: value for key, value in lists.items() if not isinstance(value[0], list)}
    return {"metrics": metrics, "bytes": line["bytes"], "traffic": line["traffic"]}


def _state(folder: Path) -> dict:
    """Return a checksum of the last checkpoint, and the mean absolute values of its tensors.

    Each mean is over all tensors whose names start with the same two parts. The last part of a name
    is ignored, because a single bias may consist only of rounding errors.
    """
    digest, sums, counts = hashlib.sha256(), {}, {}
    for name, tensor in sorted(_tensors(folder / "checkpoints").items()):
        digest.update(f"{name} {tensor.dtype} {tensor.shape}".encode() + tensor.tobytes())
        part = "/".join(name.split("/")[:-1][:2]) or name
        sums[part] = sums.get(part, 0.0) + float(abs(tensor.astype("float64")).sum())
        counts[part] = counts.get(part, 0) + tensor.size
    sizes = {part: sums[part] / max(counts[part], 1) for part in sums}
    return {"sha256": digest.hexdigest(), "state": sizes}


def _tensors(checkpoints: Path) -> dict[str, numpy.ndarray]:
    """Return the tensors of the last checkpoint; join the rows of all its shards."""
    parts: dict[str, list[numpy.ndarray]] = {}
    for path in sorted(sorted(checkpoints.iterdir())[-1].glob("*.safetensors")):
        with safe_open(path, "np") as tensors:
            for name in sorted(tensors.keys()):
                parts.setdefault(name, []).append(tensors.get_tensor(name))
    # Only shard 0 holds the tensors of a server, which have no rows.
    return {
        name: part[0] if len(part) == 1 else numpy.concatenate(part) for name, part in parts.items()
    }


def golden(strategy: str) -> dict:
    """Read the golden results of a strategy, by case and then by engine."""
    path = HERE / f"{strategy}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def keep(strategy: str, results: dict) -> None:
    """Write the golden results of a strategy, one line per case and engine."""
    blocks = []
    for case in sorted(results):
        engines = sorted(results[case].items())
        lines = [f"  {json.dumps(engine)}: {json.dumps(found)}" for engine, found in engines]
        blocks.append(f" {json.dumps(case)}: {{\n" + ",\n".join(lines) + "\n }")
    (HERE / f"{strategy}.json").write_text("{\n" + ",\n".join(blocks) + "\n}\n")
