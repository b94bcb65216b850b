"""The numbers that decide what MD-GAN and FL-GAN send, and what each of their messages weighs.

C. Hardy, E. Le Merrer, B. Sericola, "MD-GAN: Multi-Discriminator Generative Adversarial Networks for Distributed
Datasets", IPDPS 2019, section IV-D.
"""

from dataclasses import dataclass, fields

from remuda.errors import UserError

FLOAT = 4  # bytes of a parameter and of a pixel
MIB = 2**20  # bytes of what the paper calls a MB


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One pair of networks, one data set, and how they are spread; in brackets the paper's letters."""

    generator_size: int  # (|w|) parameters, >= 1
    discriminator_size: int  # (|theta|) parameters, >= 1
    image_size: int  # (d) values of an image, >= 1
    num_images: int  # (m N) of all workers together, >= num_workers
    num_workers: int = 10  # (N) >= 1
    batch_size: int = 10  # (b) >= 1
    num_fake_batches: int = (
        1  # (k) batches that MD-GAN's server makes in an iteration, 1..num_workers
    )
    epochs: int = 1  # (E) between two swaps of MD-GAN, or two averages of FL-GAN, >= 1
    steps_per_epoch: int = (
        0  # iterations that count as a local epoch; 0 = one pass over a worker's images
    )
    swaps: bool = True  # whether MD-GAN's discriminators change places
    iterations: int = 50_000  # (I) generator updates, >= 1

    def __post_init__(self):
        for field in fields(self):
            least = 0 if field.name in ("steps_per_epoch", "swaps") else 1
            if getattr(self, field.name) < least:
                name, value = field.name, getattr(self, field.name)
                raise UserError(
                    f"{name} must be at least {least} for traffic to be counted, not {value}"
                )
        if self.num_fake_batches > self.num_workers:
            raise UserError(
                f"{self.num_workers} members cannot use {self.num_fake_batches} different batches: lower "
                "strategy.num_fake_batches or take more members"
            )
        if self.num_images < self.num_workers:
            raise UserError(
                f"{self.num_workers} members cannot share {self.num_images} images: raise data.limit or take fewer "
                "members"
            )

    @property
    def images_per_worker(self) -> float:
        """(m)"""
        return self.num_images / self.num_workers

    @property
    def period(self) -> int:
        """Iterations between two swaps, or two averages: m E / b, where a pass ends with a full batch."""
        a_pass = -(-self.num_images // (self.num_workers * self.batch_size))
        return self.epochs * (self.steps_per_epoch or a_pass)


@dataclass(frozen=True, kw_only=True)
class Messages:
    """What a method sends: bytes of one message in each direction, and how often."""

    num_workers: int
    down: int  # from the server to one worker, in an exchange
    up: int  # from one worker to the server, in an exchange
    across: int  # from one worker to another, in a swap
    num_exchanges: int  # of the server with all workers
    num_swaps: int

    @property
    def worker_ingress(self) -> int:
        """Bytes that reach a worker in the busiest iteration: that of an exchange and a swap."""
        return self.down + self.across

    @property
    def server_ingress(self) -> int:
        return self.num_workers * self.up

    @property
    def total_down(self) -> int:
        """Bytes in the whole run, to all workers."""
        return self.num_workers * self.down * self.num_exchanges

    @property
    def total_up(self) -> int:
        return self.num_workers * self.up * self.num_exchanges

    @property
    def total_across(self) -> int:
        return self.num_workers * self.across * self.num_swaps

    @property
    def total(self) -> int:
        return self.total_down + self.total_up + self.total_across


def fl_gan(setting: Setting) -> Messages:
    """Both networks go to the server, and their means come back."""
    pair = FLOAT * (setting.generator_size + setting.discriminator_size)
    return Messages(
        num_workers=setting.num_workers,
        down=pair,
        up=pair,
        across=0,
        num_exchanges=setting.iterations // setting.period,
        num_swaps=0,
    )


def md_gan(setting: Setting) -> Messages:
    """Generated batches come from the server, the feedback on one goes back; discriminators change places."""
    batch = FLOAT * setting.batch_size * setting.image_size
    swaps = setting.swaps and setting.num_workers > 1  # a lonely discriminator stays where it is
    return Messages(
        num_workers=setting.num_workers,
        down=batches_sent(setting) * batch,
        up=batch,
        across=FLOAT * setting.discriminator_size if swaps else 0,
        num_exchanges=setting.iterations,
        num_swaps=setting.iterations // setting.period if swaps else 0,
    )


def batches_sent(setting: Setting) -> int:
    """Generated batches for each worker in an iteration: one to train on, one to judge; with k = 1 one for both."""
    return 1 if setting.num_fake_batches == 1 else 2
