"""Define a run's data settings."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from remuda.errors import UserError

FOLDER = "folder:"  # prefix of data.name for a folder or an archive of images
MAX_SIDE = 16_384  # pixels per side of images to train on
Split = Literal["train", "test"]
PartitionName = Literal["auto", "all", "class", "iid", "dirichlet", "subset"]
FitName = Literal["crop", "pad", "stretch"]
FilterName = Literal["bilinear", "bicubic"]
ColourName = Literal["black", "white"]
StorageName = Literal["auto", "memory", "disk"]
_CHOICES = {
    "partition": PartitionName,
    "fit": FitName,
    "filter": FilterName,
    "background": ColourName,
    "storage": StorageName,
}


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Choose the images, their size, and how the members share them."""

    # digits, mnist, fashion-mnist, cifar10, cifar100, ring, grid or folder:PATH
    name: str = "digits"
    # folder with the data sets' files; the path may contain {rank} and {host}
    # "" = search $REMUDA_DATA, then the user's cache
    path: str = ""
    # pixels per side, or height and width; images are resized if needed; 0 = as stored
    size: int | tuple[int, int] = 0
    fit: FitName = "crop"  # how images with another aspect ratio get the size
    filter: FilterName = "bilinear"  # how images are resized; both filters are antialiased
    channels: int = 0  # 1 = grey, 3 = RGB, 4 = RGBA; 0 = as stored
    # colour behind transparent pixels with channels 1 or 3, and around images with fit = "pad"
    background: ColourName = "black"
    # folder:PATH: where decoded images are during training; auto: memory if they fit, else disk
    storage: StorageName = "auto"
    skip_broken: bool = False  # folder:PATH: leave out files that cannot be decoded
    # mirror each image with probability 1/2; not suitable for digits and letters
    mirror: bool = False
    limit: int = 0  # maximum number of images, spread evenly over the classes; 0 = all
    partition: PartitionName = "auto"  # auto: the strategy's choice
    alpha: float = 0.5  # dirichlet: concentration, 0 < alpha <= 1e6; small = skewed
    fraction: float = 0.5  # subset: fraction of the images that each member draws, above 0, <= 1
    # with {rank} or {host}: the ranks whose data the members started with; the run sets this
    ranks: tuple[int, ...] = ()
    # classes that come first, in this order; the others follow in the order of the data; a run
    # whose population changes its size sets this, so that known classes keep their numbers
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for key in ("size", "channels", "limit"):
            value = getattr(self, key)
            if min(value if isinstance(value, tuple) else [value]) < 0:
                raise UserError(f"data.{key} must be 0 or more, not {value}")
        if isinstance(self.size, tuple) and 0 in self.size:
            raise UserError(f"data.size must have a height and a width above 0, not {self.size}")
        if max(self.sides or [0]) > MAX_SIDE:
            raise UserError(f"data.size must be at most {MAX_SIDE} pixels per side")
        if "\0" in self.name + self.path:
            raise UserError("data.name and data.path must not contain zero bytes: remove them")
        if self.ranks and not self.is_per_rank:
            raise UserError(
                "data.ranks requires {rank} or {host} in data.name or data.path: leave it out"
            )
        if len(set(self.classes)) < len(self.classes):
            raise UserError(f"data.classes={list(self.classes)} names a class twice: remove one")
        if not self.alpha > 0:
            raise UserError(f"data.alpha must be above 0, not {self.alpha:g}")
        # Far above 1e6 the gamma variates overflow. Shares are equal at much smaller values.
        if self.alpha > 1e6:
            raise UserError(
                f"data.alpha must be at most 1e6, where all shares are equal, not {self.alpha:g}"
            )
        if not 0 < self.fraction <= 1:
            raise UserError(f"data.fraction must be above 0 and at most 1, not {self.fraction:g}")
        for key, kind in _CHOICES.items():
            if getattr(self, key) not in get_args(kind):
                known = ", ".join(get_args(kind))
                raise UserError(f"data.{key} must be one of {known}, not {getattr(self, key)}")

    @property
    def sides(self) -> tuple[int, int] | None:
        """Return the height and width of the images; None means as stored."""
        if isinstance(self.size, tuple):
            return self.size
        return (self.size, self.size) if self.size else None

    @property
    def is_images(self) -> bool:
        """Return whether the data are a user's folder or archive of images."""
        return self.name.startswith(FOLDER)

    @property
    def images_path(self) -> Path:
        """Return the path of the user's folder or archive of images."""
        path = self.name.removeprefix(FOLDER)
        if not path:
            raise UserError(
                "data.name=folder: needs a path: write folder:PATH with the path of a folder or an "
                "archive of images"
            )
        return Path(path).expanduser()

    @property
    def is_per_rank(self) -> bool:
        """Return whether each rank has its own data, which never leave that rank."""
        texts = self.name + "\0" + self.path
        return "{rank}" in texts or "{host}" in texts

    def at(self, rank: int, host: str) -> "DataConfig":
        """Return the settings of one rank, with {rank} and {host} filled in."""
        name, path = (
            text.replace("{rank}", str(rank)).replace("{host}", host)
            for text in (self.name, self.path)
        )
        return replace(self, name=name, path=path, ranks=())

    def in_folder(self, path: str | None) -> "DataConfig":
        """Return the same settings with another data folder, if one is given."""
        if path is None:
            return self
        other = replace(self, path=path, ranks=())
        return replace(other, ranks=self.ranks) if other.is_per_rank else other

    def with_full_paths(self) -> "DataConfig":
        """Return the same settings with absolute paths, which are valid in any working folder."""
        name, path = self.name, self.path
        if name.startswith(FOLDER) and name != FOLDER:
            name = FOLDER + str(Path(name.removeprefix(FOLDER)).expanduser().resolve())
        if path:
            path = str(Path(path).expanduser().resolve())
        return replace(self, name=name, path=path)
