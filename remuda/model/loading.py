"""Load the model of a run from a checkpoint."""

from pathlib import Path
from typing import Literal

from remuda.engines import Stacked
from remuda.errors import UserError
from remuda.model.model import Model
from remuda.record import Record, checkpoints
from remuda.system.devices import find_device
from remuda.system.text import Notify, ignore
from remuda.tensors import trees


def load(
    run: str | Path,
    checkpoint: int | Literal["best"] | None = None,
    device: str = "cpu",
    notify: Notify = ignore,
    trust: bool = False,
) -> Model:
    """Load a run's model from its newest intact checkpoint, or from the checkpoint of a round.

    ``checkpoint="best"`` loads the best round by the score of ``run.keep_best``.
    ``notify`` receives a message about each damaged checkpoint that is skipped. If the run brings
    its own code, ``trust`` must allow to execute it.
    """
    record = Record.open(run, trust)
    config, facts = record.config, record.facts
    if checkpoint is None:
        chosen, complaints = record.newest()
        if chosen is None:
            why = "; ".join(complaints) or "it has not saved one yet"
            raise UserError(f"{run} has no checkpoint to load: {why}")
        for complaint in complaints:
            notify(f"{complaint}; using the checkpoint of round {chosen.round}")
    elif checkpoint == "best":
        chosen = record.best_checkpoint()
    else:
        chosen = record.checkpoint(checkpoint)
    num_classes = len(facts.classes)
    strategy = config.strategy
    context = strategy.prepare(config.networks, facts.shape, num_classes, config.run.seed)
    # The number of members may have changed since the checkpoint was written.
    num_members = len(checkpoints.members(chosen))
    engine = Stacked(num_members, find_device(device))
    like = trees.to(strategy.init(context, Stacked(num_members)), "meta")
    state = checkpoints.load(chosen, strategy, like, engine.device)
    num_labels = strategy.num_labels(context.gan, num_members)
    return Model(
        strategy=strategy,
        context=context,
        state=state,
        engine=engine,
        facts=facts,
        num_labels=num_labels,
        round=chosen.round,
    )
