"""What a run says about its data."""

import platform
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from remuda.errors import UserError

FOLDER = "folder:"  # begins the name of a data set that is a folder of images
Split = Literal["train", "test"]
PartitionName = Literal["auto", "all", "class", "iid", "dirichlet", "subset"]


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which images, at what size, and how the members share them."""

    name: str = (
        "digits"  # digits, mnist, fashion-mnist, cifar10, cifar100, ring, grid or folder:PATH
    )
    path: str = ""  # folder with the data sets' files; "" = $REMUDA_DATA, then the user's cache; also {rank}, {host}
    size: int = 0  # pixels a side, resized if needed; 0 = as stored
    channels: int = 0  # 1 or 3 (or any the images have): convert; 0 = as stored
    mirror: bool = (
        False  # train on mirror images too, each image half of the time; not for digits and letters
    )
    limit: int = 0  # images at most, spread evenly over the classes; 0 = all
    partition: PartitionName = "auto"  # auto: what the strategy asks for
    alpha: float = 0.5  # dirichlet: concentration, 0 < alpha <= 1e6; small = skewed
    fraction: float = 0.5  # subset: share of the data set that each member draws, 0 < fraction <= 1
    ranks: tuple[
        int, ...
    ] = ()  # with {rank} or {host}: whose data the members began with; set by the run

    def __post_init__(self) -> None:
        for key in ("size", "channels", "limit"):
            if getattr(self, key) < 0:
                raise UserError(f"data.{key} must be 0 or more, not {getattr(self, key)}")
        if "\0" in self.name + self.path:
            raise UserError(
                "data.name and data.path are names of files, which have no zero bytes: take them out"
            )
        if self.ranks and not self.is_per_rank:
            raise UserError(
                "data.ranks has a meaning with {rank} or {host} in data.path alone: leave it out"
            )
        if not self.alpha > 0:
            raise UserError(f"data.alpha must be above 0, not {self.alpha:g}")
        if (
            self.alpha > 1e6
        ):  # far above, the gamma variates overflow; the shares have long been equal
            raise UserError(
                f"data.alpha must be at most 1e6, where all shares are equal, not {self.alpha:g}"
            )
        if not 0 < self.fraction <= 1:
            raise UserError(f"data.fraction must be above 0 and at most 1, not {self.fraction:g}")
        if self.partition not in get_args(PartitionName):
            known = ", ".join(get_args(PartitionName))
            raise UserError(f"data.partition must be one of {known}, not {self.partition}")

    @property
    def is_per_rank(self) -> bool:
        """Whether each rank of a job has data of its own, which stay where they are."""
        return any(
            place in text for place in ("{rank}", "{host}") for text in (self.name, self.path)
        )

    def at(self, rank: int, host: str) -> "DataConfig":
        """The data of one rank."""
        name, path = (
            text.replace("{rank}", str(rank)).replace("{host}", host)
            for text in (self.name, self.path)
        )
        return replace(self, name=name, path=path, ranks=())

    def at_root(self) -> "DataConfig":
        """The data of the first rank, on this host."""
        return self.at(0, platform.node())

    def in_folder(self, path: str | None) -> "DataConfig":
        """The same data in another folder, if one is given."""
        return self if path is None else replace(self, path=path, ranks=())

    def with_full_paths(self) -> "DataConfig":
        """The same data from wherever the reader of a record stands."""
        name, path = self.name, self.path
        if name.startswith(FOLDER) and name != FOLDER:
            name = FOLDER + str(Path(name.removeprefix(FOLDER)).expanduser().resolve())
        if path:
            path = str(Path(path).expanduser().resolve())
        return replace(self, name=name, path=path)
