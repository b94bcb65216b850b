import io
import os
import stat
import struct
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remuda.data import DataConfig, load
from remuda.data.containers import MAX_BYTES, open_container
from remuda.data.decoding import Broken
from remuda.errors import UserError

from .samples import image_bytes, write_image, write_tar, write_zip

PICTURE = image_bytes()
FILES = {"cat/1.png": PICTURE, "cat/2.png": PICTURE, "dog/1.png": PICTURE}


def _load(root: Path, **values):
    return load(DataConfig(name=f"folder:{root}", **values))


def _pack(path: Path, files: dict[str, bytes]) -> Path:
    write = write_zip if path.suffix == ".zip" else write_tar
    write(path, files)
    return path


@pytest.mark.parametrize("name", ["pets.zip", "pets.tar"])
def test_archives_are_read_like_folders_and_never_unpacked(tmp_path, name):
    place = tmp_path / "here"
    place.mkdir()
    hidden = {"__MACOSX/cat/._1.png": b"", "cat/.thumb.png": b"", "notes.txt": b"ignored"}
    archive = _pack(place / name, FILES | hidden)
    for path, content in FILES.items():
        (tmp_path / "pets" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pets" / path).write_bytes(content)
    expected, found = _load(tmp_path / "pets"), _load(archive)
    assert found.classes == expected.classes == ("cat", "dog")
    assert found.counts == expected.counts == [2, 1]
    assert found.images.equal(expected.images)
    assert list(place.iterdir()) == [archive], "nothing is written next to the archive"


@pytest.mark.parametrize("name", ["pets.zip", "pets.tar"])
def test_one_folder_around_everything_is_skipped(tmp_path, name):
    archive = _pack(tmp_path / name, {f"./pets/{path}": raw for path, raw in FILES.items()})
    assert _load(archive).classes == ("cat", "dog")
    flat = _pack(tmp_path / f"flat-{name}", {"1.png": PICTURE, "2.png": PICTURE})
    assert _load(flat).classes == ("flat-pets",)


@pytest.mark.parametrize("name", ["x.zip", "x.tar"])
@pytest.mark.parametrize("member", ["../out.png", "/out.png", "a/../../out.png", "a/\x1b[2J.png"])
def test_paths_that_leave_the_archive(tmp_path, name, member):
    archive = _pack(tmp_path / "in" / name, {"ok.png": PICTURE, member: PICTURE})
    with pytest.raises(
        UserError, match=r"^\S+ contains the unsafe path .*: pack the archive again"
    ):
        _load(archive, storage="disk")
    assert not list(tmp_path.rglob("out.png"))


@pytest.mark.parametrize("name", ["x.zip", "x.tar"])
@settings(max_examples=40, deadline=None)
@given(path=st.text(st.sampled_from("ab./\\: \n"), min_size=1, max_size=12))
def test_no_path_creates_a_file(tmp_path_factory, name, path):
    place = tmp_path_factory.mktemp("archive")
    archive = _pack(place / name, {path: PICTURE, "x.png": PICTURE})
    try:
        container = open_container(archive)
    except UserError:
        pass
    else:
        assert all(".." not in found.split("/") for found in container.names)
        assert not any(found.startswith("/") for found in container.names)
    assert list(place.iterdir()) == [archive]


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
)
def test_links_and_devices_in_tar_files(tmp_path, kind):
    archive = tmp_path / "x.tar"
    write_tar(archive, FILES)
    with tarfile.open(archive, "a") as tar:
        member = tarfile.TarInfo("cat/3.png")
        member.type, member.linkname = kind, "/etc/passwd"
        tar.addfile(member)
    with pytest.raises(
        UserError, match=r"^\S+ contains (the link )?cat/3.png, which .*: pack the arch"
    ):
        _load(archive)


def test_links_in_zip_files(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        member = zipfile.ZipInfo("a/1.png")
        member.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(member, "/etc/passwd")
    with pytest.raises(UserError, match=r"contains the link a/1.png"):
        _load(tmp_path / "x.zip")


def test_zip_bombs_are_not_unpacked(tmp_path):
    path = tmp_path / "x.zip"
    write_zip(path, {"a/1.png": PICTURE, "a/bomb.png": b"x"})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/1.png", PICTURE)
        with archive.open("a/bomb.png", "w", force_zip64=True) as file:
            for _ in range(MAX_BYTES // (1 << 24) + 1):
                file.write(bytes(1 << 24))
    assert path.stat().st_size < MAX_BYTES // 100
    with pytest.raises(
        UserError, match=r"cannot read 1 of 2 .*bomb.png \(it has .* than the limit"
    ):
        _load(path)
    assert _load(path, skip_broken=True).counts == [1]


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_zip_bombs_that_lie_about_their_size(tmp_path, method):
    path, size = tmp_path / "x.zip", 96 << 20
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("a/1.png", PICTURE, zipfile.ZIP_DEFLATED)
        archive.writestr("a/bomb.png", bytes(size))
    path.write_bytes(path.read_bytes().replace(struct.pack("<L", size), struct.pack("<L", 1000)))
    tracemalloc.start()
    try:
        assert _load(path, skip_broken=True).counts == [1]
        assert tracemalloc.get_traced_memory()[1] < 0.8 * size
    finally:
        tracemalloc.stop()
    with pytest.raises(
        UserError, match=r"1 of 2 images .*bomb.png \((it cannot be u|its compress)"
    ):
        _load(path)


def test_a_member_that_lies_about_its_size(tmp_path):
    path = tmp_path / "x.tar"
    header = tarfile.TarInfo("a/1.png")
    header.size = 1 << 40
    path.write_bytes(header.tobuf() + PICTURE)
    with pytest.raises(UserError, match=r"cannot read the archive .*: replace it with a good copy"):
        _load(path)


def test_a_member_of_a_zip_file_without_a_name(tmp_path):
    path = _pack(tmp_path / "x.zip", FILES | {"z": b""})
    raw = bytearray(path.read_bytes())
    start = raw.rindex(b"PK\x01\x02")
    raw[start + 28] = 0  # the length of the name
    raw[start + 30] = 1  # of the extra field, which the name becomes
    path.write_bytes(raw)
    assert _load(path).counts == [2, 1]


@pytest.mark.parametrize("name", ["x.zip", "x.tar"])
def test_damaged_archives(tmp_path, name):
    path = _pack(tmp_path / name, {f"a/{i}.png": PICTURE for i in range(20)})
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="replace it with a good copy"):
        _load(path)
    path.write_bytes(b"not an archive at all" * 100)
    with pytest.raises(UserError, match="replace it with a good copy"):
        _load(path)


def test_a_damaged_header_in_the_middle_of_a_tar_file(tmp_path):
    path = _pack(tmp_path / "x.tar", {f"a/{i}.png": PICTURE for i in range(3)})
    raw = bytearray(path.read_bytes())
    start = raw.index(b"a/1.png")
    raw[start : start + 512] = b"\xff" * 512
    path.write_bytes(raw)
    with pytest.raises(UserError, match="a header is damaged"):
        _load(path)


def test_a_damaged_member_of_a_zip_file_is_broken(tmp_path):
    path = _pack(tmp_path / "x.zip", FILES)
    raw = bytearray(path.read_bytes())
    start = raw.index(PICTURE)
    raw[start + 40 : start + 50] = b"\0" * 10
    path.write_bytes(raw)
    with pytest.raises(UserError, match=r"cannot read 1 of 3 images .*cannot be unpacked: Bad CRC"):
        _load(path)
    assert _load(path, skip_broken=True).num_skipped == 1


def test_encrypted_members_are_broken(tmp_path):
    path = _pack(tmp_path / "x.zip", FILES)
    with zipfile.ZipFile(path) as archive:
        places = [info.header_offset for info in archive.infolist()]
    raw = bytearray(path.read_bytes())
    for place in places:
        raw[place + 6] |= 1
    start = 0
    while (start := raw.find(b"PK\x01\x02", start)) >= 0:
        raw[start + 8] |= 1
        start += 4
    path.write_bytes(raw)
    with pytest.raises(UserError, match=r"cannot read 3 of 3 .*encrypted"):
        _load(path)


def test_other_files_are_not_archives(tmp_path):
    (tmp_path / "x.rar").write_bytes(b"")
    (tmp_path / "x.tar.gz").write_bytes(b"")
    with pytest.raises(UserError, match=r"is not a folder, a .zip file or a .tar file"):
        _load(tmp_path / "x.rar")
    with pytest.raises(UserError, match=r"is compressed.*: decompress it to a .tar file"):
        _load(tmp_path / "x.tar.gz")
    write_zip(tmp_path / "x.zip", FILES)
    with pytest.raises(UserError, match=r"is an archive: write folder:.*x.zip"):
        load(DataConfig(name=str(tmp_path / "x.zip")))


def test_special_files_and_endless_links_in_folders(tmp_path):
    root = tmp_path / "root"
    write_image(root / "a" / "1.png")
    (root / "a" / "again").symlink_to(root, target_is_directory=True)
    os.mkfifo(root / "a" / "2.png")
    (root / "a" / "3.png").symlink_to("nowhere")
    (root / "a" / "4.png").symlink_to("4.png")
    with pytest.raises(UserError, match=r"cannot read 3 of 4 images .*2.png \(it is not a regular"):
        _load(root)
    assert _load(root, skip_broken=True).counts == [1]


def test_very_large_files_are_not_read(tmp_path):
    write_image(tmp_path / "1.png")
    with (tmp_path / "2.png").open("wb") as file:
        file.truncate(MAX_BYTES + 1)  # sparse
    container = open_container(tmp_path)
    with pytest.raises(Broken, match="more than the limit"):
        container.read("2.png")


def test_images_are_not_opened_by_other_programs(tmp_path):
    """Pillow would start Ghostscript for PostScript, whatever the suffix."""
    (tmp_path / "1.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EOF\n")
    (tmp_path / "2.eps").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EOF\n")
    write_image(tmp_path / "3.png")
    with pytest.raises(UserError, match=r"cannot read 1 of 2 .*1.png \(it is not an image"):
        _load(tmp_path)


def test_streams_are_not_confused_by_equal_names(tmp_path):
    """The last member of a tar file with a name wins, as when it is unpacked."""
    red, blue = image_bytes(colour=(255, 0, 0)), image_bytes(colour=(0, 0, 255))
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        for raw in (red, blue):
            member = tarfile.TarInfo("1.png")
            member.size = len(raw)
            tar.addfile(member, io.BytesIO(raw))
    assert _load(tmp_path / "x.tar").images[:, :, 0, 0].tolist() == [[0, 0, 255]]
