import signal
import tarfile

import pytest

from remuda.data.containers import open_container
from remuda.errors import UserError

from .samples import image_bytes, write_tar

PICTURE = image_bytes()


def _with_size(header: bytes, size: int) -> bytes:
    """Return a tar header with another size, in binary, and with the right checksum."""
    number = (size % (1 << 96) | (size >= 0) << 95).to_bytes(12, "big")
    blank = header[:124] + number + header[136:148] + b" " * 8 + header[156:]
    return blank[:148] + b"%06o\0 " % sum(blank) + blank[156:]


@pytest.mark.parametrize("size", [-512, 1 << 45, 1 << 80])
@pytest.mark.parametrize("name", ["a/1.png", "a/" + 200 * "x" + ".png"])
def test_tar_headers_that_lie_about_their_size(tmp_path, name, size):
    """They once led to an endless loop, to a request for all memory, and to a traceback."""
    path = tmp_path / "x.tar"
    write_tar(path, {"a/0.png": PICTURE, name: PICTURE})
    raw = path.read_bytes()
    start = raw.index(b"././@PaxHeader" if len(name) > 100 else name.encode())
    path.write_bytes(raw[:start] + _with_size(raw[start : start + 512], size) + raw[start + 512 :])

    def fail(*_: object) -> None:
        pytest.fail("the archive is read in an endless loop")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(20)
    try:
        with pytest.raises(UserError, match=r"cannot read the archive .*: replace it with a good"):
            open_container(path)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_tar_files_with_endless_long_names(tmp_path):
    path = tmp_path / "x.tar"
    header = tarfile.TarInfo("././@LongLink")
    header.type = tarfile.GNUTYPE_LONGNAME
    path.write_bytes(header.tobuf() * 2000)
    with pytest.raises(UserError, match=r"cannot read the archive .*: replace it with a good copy"):
        open_container(path)
