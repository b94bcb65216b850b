"""Read the headers of tar archives that may come from strangers."""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

from remuda.errors import UserError

_MAX_BYTES = 1 << 20  # of one header with its long names; tarfile reads it into memory


class _Limited(io.BufferedReader):
    """A file that is never read in large pieces, whatever an archive says about its size."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or not 0 <= size <= _MAX_BYTES:
            raise tarfile.ReadError("a header is too long")
        return super().read(size)


def _opened(file: _Limited) -> tarfile.TarFile:
    return tarfile.open(fileobj=file, mode="r:", errorlevel=2)


def members(archive: Path) -> Iterator[tarfile.TarInfo]:
    """Yield the members of an uncompressed tar archive. Raise if the archive is damaged."""
    try:
        with _Limited(io.FileIO(archive)) as file, _opened(file) as tar:
            while (member := tar.next()) is not None:
                tar.members.clear()  # type: ignore[attr-defined]  # they would fill the memory
                if member.size < 0:  # it could lead back to an earlier header, endlessly
                    raise tarfile.ReadError(f"the size of {member.name!r} is negative")
                yield member
            # tarfile takes a damaged header for the end, which should be a block of zeros.
            file.seek(tar.offset)
            if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                raise tarfile.ReadError("a header is damaged, or the end is missing")
    except GeneratorExit:
        raise
    except Exception as error:  # a damaged header can raise almost any exception
        raise UserError(
            f"cannot read the archive {archive} ({error}): replace it with a good copy"
        ) from error
