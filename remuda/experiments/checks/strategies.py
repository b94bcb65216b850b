"""Check a strategy on a tiny herd of small networks."""

from collections.abc import Iterator, Sequence

from remuda.config import from_dict, override
from remuda.experiments.checks.outcome import Outcome, problem_of, run_all
from remuda.experiments.checks.trial import Trial


def check_strategy(name: str, settings: Sequence[str]) -> Iterator[Outcome]:
    """Yield the outcome of every check of the strategy with this name."""
    values = {"networks": {"name": "mlp", "latent": 6, "hidden": 12}, "strategy": {"name": name}}
    config = from_dict(override(values, list(settings)))
    title = "the strategy accepts the data and trains a first round"
    try:
        trial = Trial(config)
    except Exception as error:
        yield Outcome(title, problem_of(error))
        return
    yield Outcome(title)
    yield from run_all(trial.promises())
    vmap = "engine.layout loop and vmap agree up to rounding", trial.agrees_with_vmap
    counts = "batches and updates are counted both ways", lambda: _counts(trial)
    yield from run_all([vmap, counts])


def _counts(trial: Trial) -> str:
    strategy = trial.herd.strategy
    counted = [strategy.steps_in(strategy.batches_for(steps)) for steps in (1, 2, 12)]
    if counted != [1, 2, 12]:
        return f"steps_in(batches_for(n)) gives {counted} for n = 1, 2, 12"
    return ""
