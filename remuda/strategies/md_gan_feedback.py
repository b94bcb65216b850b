"""Combine the feedback of MD-GAN's workers into one gradient for every image.

All functions return gradients (k, b, ...). Only workers with the same batch X_g can be compared, so
every batch has its group of workers. A group counts in proportion to the number of its workers:
if the workers of each group agree, the result is the mean of all feedback, as in the paper.

The forgiving rules follow R. Yonetani, T. Takahashi, A. Hashimoto, Y. Ushiku, "Decentralized
learning of generative adversarial networks from non-iid data", 2019: a worker without images of
some class rejects good images of this class, so the most forgiving workers count most.
"""

from abc import ABC
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from remuda.engines.base import Engine
from remuda.errors import UserError
from remuda.gan import Player
from remuda.networks.layers import one_hot
from remuda.population.aggregates import AGGREGATES
from remuda.population.lies import lie_keys
from remuda.population.reputation import combine_by_reputation, reputations
from remuda.strategies.compression import Compressing
from remuda.strategies.context import Context, Metrics
from remuda.strategies.distrust import Distrust
from remuda.strategies.md_gan_inputs import Iteration
from remuda.tensors import random
from remuda.tensors.codecs import Compressor

Forgive = Literal["none", "f2u", "f2a"]
TOP_K = 0.05


class Message(NamedTuple):
    """What a worker sends: the gradients of its loss for the images of X_g."""

    feedback: Tensor  # (b, ...)
    outputs: Tensor | tuple[()] = ()  # (b,) with forgiving rules: the discriminator's outputs


@dataclass(frozen=True, kw_only=True)
class FeedbackRules(Distrust, Compressing, ABC):
    """The rules by which MD-GAN's server combines feedback, and by which some workers lie."""

    # Which workers count for an image: all alike, the one with the highest output, or all with
    # weights that rise with their outputs.
    forgive: Forgive = "none"
    forgive_sharpness: float = 10.0  # forgive = f2a: how steeply weights rise, finite and >= 0
    # compress_up = top-k: the fraction of the numbers that is sent, the largest, 0 < x < 1.
    top_k: float = TOP_K

    server_tables: ClassVar[frozenset[str]] = frozenset({"server/agreement"})

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_not_negative("forgive_sharpness")
        if not 0 < self.top_k < 1:
            raise UserError(f"strategy.top_k must be above 0 and below 1, not {self.top_k}")
        if self.top_k != TOP_K and self.compress_up != "top-k":
            raise UserError(
                "strategy.top_k has no effect: set strategy.compress_up to top-k, or leave "
                f"strategy.top_k at {TOP_K}"
            )
        if self.forgive != "none" and self.aggregate != "mean":
            raise UserError(
                f"strategy.forgive={self.forgive} and strategy.aggregate={self.aggregate} both "
                "decide which workers count: set strategy.forgive to none or strategy.aggregate "
                "to mean"
            )

    @property
    def up(self) -> Compressor:
        """The compressor of feedback."""
        return Compressor(self.compress_up, self.top_k)

    def combine(
        self, message: Message, now: Iteration, agreement: Tensor | tuple[()]
    ) -> tuple[Tensor, Tensor | tuple[()], Tensor | tuple[()]]:
        """Return gradients (k, b, ...), how much of each worker's was used, and agreements.

        The second part is (N,), and empty with the mean and with forgiving rules. The third part is
        (N, N), and empty without reputations.
        """
        if self.forgive != "none":
            feedback, outputs = message
            assert isinstance(outputs, Tensor), "forgiving rules need the workers' outputs"
            sharpness = self.forgive_sharpness
            gradients = forgiving_feedback(feedback, outputs, now, self.forgive, sharpness)
            return gradients, (), agreement
        if self.aggregate == "mean":
            return mean_feedback(message.feedback, now), (), agreement
        if isinstance(agreement, Tensor):
            return reputable_feedback(message.feedback, now, agreement)
        used = robust_feedback(message.feedback, now, self.aggregate, self.withstand)
        return *used, agreement

    # How much of each worker's feedback was used, and the agreements. Only the server knows them,
    # so they are in its state.

    def first_agreement(self, size: int) -> Tensor | tuple[()]:
        """Return the workers' agreements before the first round; empty without reputations."""
        return torch.zeros(size, size) if self.aggregate == "reputation" else ()

    def start_counting(self, engine: Engine, server: Any) -> Any:
        """Return the server's state at the start of a round.

        If the number of workers changed since the last round, all agreements start again at 0.
        """
        if self.aggregate == "mean" or not server:
            return server
        agreement = server.agreement
        if self.aggregate == "reputation" and len(agreement) != engine.size:
            agreement = torch.zeros(engine.size, engine.size, device=engine.device)
        kept = torch.zeros(engine.size, device=engine.device)
        return server._replace(kept=kept, agreement=agreement)

    def stop_counting(self, engine: Engine, server: Any, num_steps: int) -> tuple[Any, Metrics]:
        """Return the server's state after a round, and what it tells every worker.

        This is how much of the worker's feedback was used, on average, and its last reputation.
        """
        if self.aggregate == "mean":
            return server, {}
        told = engine.scatter(lambda server: self._news(server, num_steps), server)
        return server._replace(kept=()) if server else server, told

    def _news(self, server: Any, num_steps: int) -> Metrics:
        news = {"kept": server.kept / num_steps}
        if self.aggregate == "reputation":
            news["reputation"] = reputations(server.agreement)
        return news

    # Lies

    def lies(self, context: Context, engine: Engine, t: int, num_steps: int) -> tuple[Tensor, ...]:
        """Return who falsifies feedback in round t, and with which keys, each (steps, n)."""
        if not self.falsifies:
            return ()
        keys = lie_keys(self.lie, context.seed, engine.members, t, engine.device)
        numbers = torch.arange(num_steps, device=engine.device)[:, None]
        if self.lie == "constant":
            numbers = torch.zeros_like(numbers)
        keys = random.fold(keys, numbers)
        return self.liars_here(context, engine).expand(num_steps, -1), keys

    def sent(
        self, lies: tuple[Tensor, ...], before: Player, trained: Player, message: Message
    ) -> tuple[Player, Message]:
        """Return one worker's discriminator, and the message that it really sends.

        Liars falsify their feedback, but not their outputs. Free-riders do not train.
        """
        if not self.falsifies:
            return trained, message
        is_liar, key = lies
        trained = self.without_free_rider(is_liar, trained, before)
        return trained, message._replace(feedback=self.falsify(is_liar, key, message.feedback))


def mean_feedback(feedback: Tensor, now: Iteration) -> Tensor:
    """Return the mean of the feedback (N, b, ...), as in the paper."""
    # (k, N): the weight of each worker's feedback in the gradient for each batch.
    shares = one_hot(now.places[:, 0], len(now.noise)).T * now.weights
    # A weight of 0 is not enough for lost workers: if they diverged, 0 times NaN is NaN.
    is_alive = (now.weights > 0).reshape(-1, *[1] * (feedback.ndim - 1))
    feedback = torch.where(is_alive, feedback, 0.0)
    return torch.einsum("kn,n...->k...", shares, feedback)


def robust_feedback(
    feedback: Tensor, now: Iteration, aggregate: str, withstand: int
) -> tuple[Tensor, Tensor]:
    """Return an aggregate of the feedback, and how much of each worker's was used, (N,)."""
    messages, gradients = feedback.flatten(1), []
    kept = torch.zeros_like(now.weights)
    for group in range(len(now.noise)):
        is_inside = (now.places[:, 0] == group) & (now.weights > 0)
        combined, used = AGGREGATES[aggregate](messages, is_inside, withstand)
        gradients.append(_in_proportion(combined, is_inside, now))
        kept = kept + used
    gradients = torch.stack(gradients).unflatten(1, feedback.shape[1:])
    return gradients.to(feedback.dtype), kept


def reputable_feedback(
    feedback: Tensor, now: Iteration, agreement: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the feedback of trusted workers, how much of each worker's was used, and agreements.

    The second part is (N,), the third one (N, N).
    """
    messages, gradients = feedback.flatten(1), []
    kept = torch.zeros_like(now.weights)
    for group in range(len(now.noise)):
        is_inside = (now.places[:, 0] == group) & (now.weights > 0)
        judged = combine_by_reputation(messages, is_inside, agreement)
        gradients.append(_in_proportion(judged.combined, is_inside, now))
        kept, agreement = kept + judged.kept, judged.agreement
    gradients = torch.stack(gradients).unflatten(1, feedback.shape[1:])
    return gradients.to(feedback.dtype), kept, agreement


def forgiving_feedback(
    feedback: Tensor, outputs: Tensor, now: Iteration, forgive: Forgive, sharpness: float
) -> Tensor:
    """Return the feedback of forgiving workers; outputs (N, b) are high for images taken as real.

    f2u uses only the worker with the highest output for an image. f2a uses all workers; their
    weights are softmax(sharpness * sigmoid(output)). NaN and infinite outputs have no weight.
    """
    gradients = []
    for group in range(len(now.noise)):
        is_inside = (now.places[:, 0] == group) & (now.weights > 0)
        weights = _forgiving_weights(outputs.float(), is_inside, forgive, sharpness)
        weights = weights.reshape(*weights.shape, *[1] * (feedback.ndim - 2))
        combined = torch.where(weights > 0, weights * feedback, 0.0).sum(0)
        gradients.append(_in_proportion(combined, is_inside, now))
    return torch.stack(gradients).to(feedback.dtype)


def _forgiving_weights(
    outputs: Tensor, is_inside: Tensor, forgive: Forgive, sharpness: float
) -> Tensor:
    """Return the weights of the workers (N, b); they have the sum 1 for every image."""
    counts = is_inside[:, None] & outputs.isfinite()
    if forgive == "f2a":
        return torch.where(counts, sharpness * outputs.sigmoid(), -torch.inf).softmax(0)
    outputs = torch.where(counts, outputs, -torch.inf)
    is_highest = (counts & (outputs == outputs.amax(0))).float()
    return is_highest / is_highest.sum(0)


def _in_proportion(combined: Tensor, is_inside: Tensor, now: Iteration) -> Tensor:
    """Return a group's gradient with the weight of its workers; 0 if it has no workers left."""
    return torch.where(is_inside.any(), (now.weights * is_inside).sum() * combined, 0.0)
