"""The numbers that determine the traffic of MD-GAN and FL-GAN, and the size of each message.

C. Hardy, E. Le Merrer, B. Sericola, "MD-GAN: Multi-Discriminator Generative Adversarial Networks
for Distributed Datasets", IPDPS 2019, section IV-D.
"""

from dataclasses import dataclass, fields, replace

from remuda.errors import UserError
from remuda.system.text import count
from remuda.tensors.codecs import COARSE, UNCOMPRESSED, Compressor

FLOAT = 4  # bytes of a parameter and of a pixel
MIB = 2**20  # bytes; the paper calls it a MB


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A pair of networks, a data set and its workers. Comments give the paper's symbols."""

    generator_size: int  # (|w|) parameters, >= 1
    discriminator_size: int  # (|theta|) parameters, >= 1
    image_size: int  # (d) values of an image, >= 1
    num_images: int  # (m N) images of all workers together, >= num_workers
    num_workers: int = 10  # (N) >= 1
    batch_size: int = 10  # (b) >= 1
    num_fake_batches: int = 1  # (k) batches that MD-GAN's server generates per iteration, 1 to N
    epochs: int = 1  # (E) between two swaps of MD-GAN, or two averages of FL-GAN, >= 1
    steps_per_epoch: int = 0  # iterations of a local epoch; 0 = one pass over a worker's images
    swaps: bool = True  # whether MD-GAN's workers swap discriminators
    iterations: int = 50_000  # (I) generator updates, >= 1
    # Sizes of the parameters, which are compressed one by one; () = all in one.
    generator_leaves: tuple[int, ...] = ()
    discriminator_leaves: tuple[int, ...] = ()
    down: Compressor = UNCOMPRESSED  # of messages from the server to workers
    up: Compressor = UNCOMPRESSED  # of messages from workers to the server
    across: Compressor = UNCOMPRESSED  # of discriminators in a swap

    def __post_init__(self):
        for field in fields(self):
            least = 0 if field.name in ("steps_per_epoch", "swaps") else 1
            name, value = field.name, getattr(self, field.name)
            if isinstance(value, int) and value < least:
                raise UserError(
                    f"cannot count traffic: {name} must be at least {least}, not {value}"
                )
        members = count(self.num_workers, "member")
        if self.num_fake_batches > self.num_workers:
            raise UserError(
                f"{members} cannot use {self.num_fake_batches} different "
                "batches: lower strategy.num_fake_batches or use more members"
            )
        if self.num_images < self.num_workers:
            raise UserError(
                f"{members} cannot share {count(self.num_images, 'image')}: raise data.limit or "
                "use fewer members"
            )

    @property
    def uncompressed(self) -> "Setting":
        """The same setting without compression, as in the paper."""
        return replace(self, down=UNCOMPRESSED, up=UNCOMPRESSED, across=UNCOMPRESSED)

    @property
    def images_per_worker(self) -> float:
        """The number of images per worker, which the paper calls m."""
        return self.num_images / self.num_workers

    @property
    def period(self) -> int:
        """Iterations between two swaps or averages: E epochs of m / b iterations, rounded up."""
        steps_per_pass = -(-self.num_images // (self.num_workers * self.batch_size))
        return self.epochs * (self.steps_per_epoch or steps_per_pass)


@dataclass(frozen=True, kw_only=True)
class Messages:
    """The size of a message in each direction, and how often a method sends it."""

    num_workers: int
    down: int  # from the server to one worker, per exchange
    up: int  # from one worker to the server, per exchange
    across: int  # from one worker to another, per swap
    num_exchanges: int  # between the server and all workers
    num_swaps: int

    @property
    def worker_ingress(self) -> int:
        """Bytes that a worker receives in the busiest iteration, with an exchange and a swap."""
        return self.down + self.across

    @property
    def server_ingress(self) -> int:
        """Bytes that the server receives in one exchange."""
        return self.num_workers * self.up

    @property
    def total_down(self) -> int:
        """Bytes that the server sends to all workers in the whole run."""
        return self.num_workers * self.down * self.num_exchanges

    @property
    def total_up(self) -> int:
        """Bytes that all workers send to the server in the whole run."""
        return self.num_workers * self.up * self.num_exchanges

    @property
    def total_across(self) -> int:
        """Bytes that workers send to each other in the whole run."""
        return self.num_workers * self.across * self.num_swaps

    @property
    def total(self) -> int:
        """Bytes in all directions in the whole run."""
        return self.total_down + self.total_up + self.total_across


def fl_gan(setting: Setting) -> Messages:
    """Return the messages of FL-GAN: both networks go up, and their means come back.

    FL-GAN cannot use coarse codecs, so it sends such messages without compression.
    """
    pair = [
        *(setting.generator_leaves or (setting.generator_size,)),
        *(setting.discriminator_leaves or (setting.discriminator_size,)),
    ]
    up = UNCOMPRESSED if setting.up.codec in COARSE else setting.up
    return Messages(
        num_workers=setting.num_workers,
        down=setting.down.row_bytes(pair),
        up=up.row_bytes(pair),
        across=0,
        num_exchanges=setting.iterations // setting.period,
        num_swaps=0,
    )


def md_gan(setting: Setting) -> Messages:
    """Return the messages of MD-GAN: batches down, feedback up, discriminators across."""
    batch = setting.batch_size * setting.image_size
    discriminator = setting.discriminator_leaves or (setting.discriminator_size,)
    swaps = setting.swaps and setting.num_workers > 1  # a single worker has no partner
    return Messages(
        num_workers=setting.num_workers,
        down=setting.down.row_bytes([batches_sent(setting) * batch]),
        up=setting.up.row_bytes([batch]),
        across=setting.across.row_bytes(discriminator) if swaps else 0,
        num_exchanges=setting.iterations,
        num_swaps=setting.iterations // setting.period if swaps else 0,
    )


def batches_sent(setting: Setting) -> int:
    """Return how many generated batches each worker receives per iteration.

    A worker trains on one batch and returns feedback on another. With k = 1 it uses the same batch
    for both.
    """
    return 1 if setting.num_fake_batches == 1 else 2
