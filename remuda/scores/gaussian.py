"""Accumulate the mean and covariance of features, batch by batch."""

import torch
from torch import Tensor

from remuda.errors import UserError
from remuda.scores.checks import check_rows

_CHUNK = 4096  # rows converted to float64 at once


class Gaussian:
    """The normal distribution with the mean and covariance of the features added so far.

    The covariance is unbiased (divided by n - 1). The state is the count, the mean and the scatter
    matrix, the sum of (x - mean)(x - mean)^T, in float64. Batches are merged with the formula of
    Chan, Golub and LeVeque (1983). The formula never subtracts large sums from each other, so the
    batch size affects only the last digits.
    """

    def __init__(self, width: int, device: torch.device | str = "cpu") -> None:
        self.count = 0
        self._mean = torch.zeros(width, dtype=torch.float64, device=device)
        self._scatter = torch.zeros(width, width, dtype=torch.float64, device=device)

    @classmethod
    def of(cls, features: Tensor) -> "Gaussian":
        """Return the Gaussian of features (n, d), on their device."""
        check_rows(features, "images", at_least=1)
        gaussian = cls(features.shape[1], features.device)
        gaussian.update(features)
        return gaussian

    @property
    def width(self) -> int:
        """Return the number of features per image."""
        return len(self._mean)

    @property
    def mean(self) -> Tensor:
        """Return the mean, (d,) float64."""
        self._need(1)
        return self._mean.clone()

    @property
    def covariance(self) -> Tensor:
        """Return the covariance, (d, d) float64, exactly symmetric."""
        self._need(2)
        return (self._scatter + self._scatter.T) / (2.0 * (self.count - 1))

    def update(self, features: Tensor) -> None:
        """Add features (n, d); if any of them is not finite, raise and add none."""
        check_rows(features, "images", at_least=0)
        self._check_width(features.shape[1])
        for start in range(0, len(features), _CHUNK):
            rows = features[start : start + _CHUNK].to(self._mean)
            mean = rows.mean(0)
            self._join(len(rows), mean, rows - mean)

    def merge(self, other: "Gaussian") -> None:
        """Add the features of another Gaussian."""
        self._check_width(other.width)
        if other.count:
            self._scatter += other._scatter.to(self._scatter)
            self._join(other.count, other._mean.to(self._mean), self._mean.new_zeros(0, self.width))

    def tensors(self) -> dict[str, Tensor]:
        """Return the complete state as tensors that safetensors can store."""
        return {
            "count": torch.tensor(self.count),
            "mean": self._mean.clone(),
            "scatter": self._scatter.clone(),
        }

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> "Gaussian":
        """Restore a Gaussian from ``tensors()``, on their device."""
        remedy = "delete the file to rebuild it"
        if set(tensors) != {"count", "mean", "scatter"} or tensors["mean"].ndim != 1:
            raise UserError(f"these tensors are not statistics of features: {remedy}")
        count, mean, scatter = tensors["count"], tensors["mean"], tensors["scatter"]
        intact = (
            count.shape == ()
            and not count.is_floating_point()
            and int(count) >= 0
            and scatter.shape == (len(mean), len(mean))
            and mean.dtype == scatter.dtype == torch.float64
            and bool(mean.isfinite().all())
            and bool(scatter.isfinite().all())
        )
        if not intact:
            raise UserError(f"these statistics of features are damaged: {remedy}")
        gaussian = cls(len(mean), mean.device)
        gaussian.count = int(count)
        gaussian._mean.copy_(mean)
        gaussian._scatter.copy_(scatter)
        return gaussian

    def _join(self, count: int, mean: Tensor, centred: Tensor) -> None:
        """Add ``count`` rows with this mean, and the scatter of ``centred`` (n, d)."""
        total = self.count + count
        shift = mean - self._mean
        # The difference between the two means contributes the scatter of one more row.
        between = shift * (self.count * count / total) ** 0.5
        rows = torch.cat([centred, between[None]])
        self._scatter.addmm_(rows.T, rows)
        self._mean += shift * (count / total)
        self.count = total

    def _check_width(self, width: int) -> None:
        if width != self.width:
            raise UserError(
                f"these statistics have {self.width} features per image, but the new features have "
                f"{width}: use the same feature extractor for all images"
            )

    def _need(self, count: int) -> None:
        if self.count < count:
            raise UserError(
                "a mean needs at least 1 image and a covariance at least 2, but these statistics "
                f"have {self.count}: add features first"
            )
