"""List the data sets that come as files: their names on disk, mirrors and checksums."""

from collections.abc import Mapping
from dataclasses import dataclass

from remuda.data.config import Split


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Describe one way in which a data set's files are arranged below a data folder."""

    kind: str  # the reader to use: idx, binary or python
    folders: tuple[str, ...]  # searched in this order; "." is the data folder itself
    files: Mapping[Split, tuple[str, ...]]  # the files of each split; idx files may end in .gz


@dataclass(frozen=True)
class Package:
    """Describe one file on the mirrors."""

    file: str
    md5: str
    folder: str  # its place below the data folder; also the top folder of a tar archive

    @property
    def is_archive(self) -> bool:
        """Return whether the file is a tar archive."""
        return self.file.endswith(".tar.gz")


@dataclass(frozen=True, kw_only=True)
class Source:
    """Describe all files of one data set."""

    name: str
    layouts: tuple[Layout, ...]
    mirrors: tuple[str, ...]  # URL prefixes of the files, tried in this order
    packages: Mapping[Split, tuple[Package, ...]]  # files to download for each split
    archives: tuple[Package, ...] = ()  # unpacked if the user puts one into the data folder
    # MD5 of the decompressed labels of another data set with the same file names
    foreign_labels: frozenset[str] = frozenset()


_IDX_FILES: dict[Split, tuple[str, ...]] = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


def _idx_packages(
    folder: str, checksums: Mapping[Split, tuple[str, str]]
) -> dict[Split, tuple[Package, ...]]:
    return {
        split: tuple(
            Package(f"{file}.gz", md5, folder)
            for file, md5 in zip(files, checksums[split], strict=True)
        )
        for split, files in _IDX_FILES.items()
    }


# MNIST and Fashion-MNIST use the same file names. If the files are in the data folder itself, the
# decompressed labels tell the two data sets apart (train, then test).
_MNIST_LABELS = frozenset({"a25bea736e30d166cdddb491f175f624", "27ae3e4e09519cfbb04c329615203637"})
_FASHION_LABELS = frozenset(
    {"9018921c3c673c538a1fc5bad174d6f9", "15d484375f8d13e6eb1aabb0c3f46965"}
)

_MNIST = Source(
    name="mnist",
    layouts=(Layout(kind="idx", folders=("mnist", "MNIST/raw", "MNIST", "."), files=_IDX_FILES),),
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    packages=_idx_packages(
        "mnist",
        {
            "train": ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432"),
            "test": ("9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c"),
        },
    ),
    foreign_labels=_FASHION_LABELS,
)

_FASHION_MNIST = Source(
    name="fashion-mnist",
    layouts=(
        Layout(
            kind="idx",
            folders=("fashion-mnist", "FashionMNIST/raw", "FashionMNIST", "."),
            files=_IDX_FILES,
        ),
    ),
    mirrors=(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    ),
    packages=_idx_packages(
        "fashion-mnist",
        {
            "train": ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", "25c81989df183df01b3e8a0aad5dffbe"),
            "test": ("bef4ecab320f06d8554ea6380940ec79", "bb300cfdad3c16e7a12a480ee83cd310"),
        },
    ),
    foreign_labels=_MNIST_LABELS,
)

_CIFAR10_BATCHES = tuple(f"data_batch_{i}" for i in range(1, 6))
_CIFAR10_BINARY = Package(
    "cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", "cifar-10-batches-bin"
)
_CIFAR10_PYTHON = Package(
    "cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a", "cifar-10-batches-py"
)

_CIFAR10 = Source(
    name="cifar10",
    layouts=(
        Layout(
            kind="binary",
            folders=("cifar-10-batches-bin", "."),
            files={
                "train": tuple(f"{batch}.bin" for batch in _CIFAR10_BATCHES),
                "test": ("test_batch.bin",),
            },
        ),
        Layout(
            kind="python",
            folders=("cifar-10-batches-py", "."),
            files={"train": _CIFAR10_BATCHES, "test": ("test_batch",)},
        ),
    ),
    mirrors=("https://www.cs.toronto.edu/~kriz/",),
    packages={"train": (_CIFAR10_BINARY,), "test": (_CIFAR10_BINARY,)},
    archives=(_CIFAR10_BINARY, _CIFAR10_PYTHON),
)

_CIFAR100_BINARY = Package(
    "cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8", "cifar-100-binary"
)
_CIFAR100_PYTHON = Package(
    "cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85", "cifar-100-python"
)

_CIFAR100 = Source(
    name="cifar100",
    layouts=(
        Layout(
            kind="binary",
            folders=("cifar-100-binary", "."),
            files={"train": ("train.bin",), "test": ("test.bin",)},
        ),
        Layout(
            kind="python",
            folders=("cifar-100-python", "."),
            files={"train": ("train",), "test": ("test",)},
        ),
    ),
    mirrors=("https://www.cs.toronto.edu/~kriz/",),
    packages={"train": (_CIFAR100_BINARY,), "test": (_CIFAR100_BINARY,)},
    archives=(_CIFAR100_BINARY, _CIFAR100_PYTHON),
)

SOURCES = {source.name: source for source in (_MNIST, _FASHION_MNIST, _CIFAR10, _CIFAR100)}
