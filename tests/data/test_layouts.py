import json
from pathlib import Path

import pytest

from remuda.data import DataConfig, Split, load
from remuda.errors import UserError

from .samples import image_bytes, write_image, write_tar, write_zip

RED, BLUE = image_bytes(colour=(255, 0, 0)), image_bytes(colour=(0, 0, 255))


def _load(root: Path, split: Split = "train", **values):
    return load(DataConfig(name=f"folder:{root}", **values), split)


def _reds(dataset) -> list[int]:
    """Return the labels of the red images."""
    return dataset.labels[dataset.images[:, 0, 0, 0] == 255].tolist()


# Hugging Face


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_metadata_tell_the_labels(tmp_path, kind):
    rows = [("0001.png", "sea"), ("more/0002.png", "fire"), ("0003.png", "fire")]
    for name, label in rows:
        colour = (255, 0, 0) if label == "fire" else (0, 0, 255)
        write_image(tmp_path / "train" / name, colour=colour)
    if kind == "csv":
        text = "\ufefffile_name,label,text\n" + "".join(f"{a},{b},a caption\n" for a, b in rows)
    else:
        # JSON may contain Unicode's line separators, which do not end a line of the file.
        lines = [{"file_name": f"./{a}", "label": b, "text": "\u2028 \x85"} for a, b in rows]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\r\n\n" for line in lines)
    (tmp_path / "train" / f"metadata.{kind}").write_text(text, encoding="utf-8")
    found = _load(tmp_path)
    assert found.classes == ("fire", "sea") and found.counts == [2, 1]
    assert _reds(found) == [0, 0]


def test_metadata_of_every_split_and_in_an_archive(tmp_path):
    files = {}
    for split, colours in (("train", [RED, BLUE]), ("validation", [BLUE])):
        rows = []
        for i, raw in enumerate(colours):
            files[f"top/{split}/{i}.png"] = raw
            rows.append(f"{i}.png,{10 if raw == RED else 9}")
        files[f"top/{split}/metadata.csv"] = "\n".join(["file_name,label", *rows]).encode()
    write_zip(tmp_path / "x.zip", files)
    found = _load(tmp_path / "x.zip")
    assert found.classes == ("9", "10"), "numbers are sorted by value"
    assert _reds(found) == [1]
    assert _load(tmp_path / "x.zip", "test").labels.tolist() == [0]


def test_metadata_without_labels_leave_the_classes_to_the_folders(tmp_path):
    write_image(tmp_path / "a" / "1.png")
    write_image(tmp_path / "b" / "1.png")
    (tmp_path / "metadata.csv").write_text("file_name,text\na/1.png,hello\nb/1.png,world\n")
    assert _load(tmp_path).classes == ("a", "b")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file_name,label\n1.png,a\n", "tells no label for 1 of 2 images, such as 2.png"),
        ("file_name,label\n1.png,a\n2.png,b\n../3.png,c\n", "name '../3.png', which is no image"),
        ("name,label\n1.png,a\n", "needs the column file_name in every row"),
        ("file_name,label\n1.png,a\n2.png," + "x" * 500 + "\n", "is no name of a class"),
        ('file_name,label\n"1.png,a\n', "metadata.csv cannot be read"),
    ],
)
def test_wrong_metadata(tmp_path, text, message):
    write_image(tmp_path / "1.png")
    write_image(tmp_path / "2.png")
    (tmp_path / "metadata.csv").write_text(text)
    with pytest.raises(UserError, match=message):
        _load(tmp_path)


# WebDataset


@pytest.mark.parametrize("kind", ["cls", "txt", "json"])
def test_labels_next_to_the_images_of_a_tar_file(tmp_path, kind):
    files = {}
    for i, (raw, label) in enumerate([(RED, 1), (BLUE, 0), (RED, 1)]):
        files[f"{i:03}.png"] = raw
        text = json.dumps({"label": label, "source": "x"}) if kind == "json" else f"{label}\n"
        files[f"{i:03}.{kind}"] = text.encode()
    write_tar(tmp_path / "x.tar", files)
    found = _load(tmp_path / "x.tar")
    assert found.classes == ("0", "1") and _reds(found) == [1, 1]


def _write_shards(folder: Path) -> None:
    for split, numbers in (("train", range(3)), ("test", range(1))):
        for number in numbers:
            files = {}
            for i, raw in enumerate([RED, BLUE]):  # all shards use the same names
                files |= {f"{i}.png": raw, f"{i}.cls": b"1" if raw == RED else b"0"}
            write_tar(folder / f"{split}-{number:03}.tar", files)


def test_a_folder_of_shards_with_splits(tmp_path):
    _write_shards(tmp_path)
    train, test = _load(tmp_path), _load(tmp_path, "test")
    assert train.counts == [3, 3] and test.counts == [1, 1]
    assert _reds(train) == [1, 1, 1] and _reds(test) == [1]


def test_a_pattern_of_shards(tmp_path):
    _write_shards(tmp_path)
    found = _load(tmp_path / "train-{000..001}.tar")
    assert found.counts == [2, 2]
    with pytest.raises(UserError, match=r"train-003.tar does not exist, but .* requires it"):
        _load(tmp_path / "train-{000..003}.tar")
    with pytest.raises(UserError, match="stands for 0 files"):
        _load(tmp_path / "train-{3..0}.tar")
    with pytest.raises(UserError, match="has no test split"):
        _load(tmp_path / "train-{000..001}.tar", "test")


def test_shards_with_class_folders(tmp_path):
    for number in range(2):
        files = {"cat/1.png": RED, "dog/1.png": BLUE}
        write_tar(tmp_path / "shards" / f"{number}.tar", files)
    found = _load(tmp_path / "shards")
    assert found.classes == ("cat", "dog") and _reds(found) == [0, 0]


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"1.png": RED}, "tells no label for 1 of 2 images, such as 1.png"),
        ({"1.png": RED, "1.json": b"{"}, "1.json is not valid JSON"),
        ({"1.png": RED, "1.cls": b"\xff\xfe"}, "cannot read 1.cls"),
        ({"1.png": RED, "1.txt": b"two\nlines"}, "is no name of a class"),
        ({"1.png": RED, "1.json": b'{"label": [1]}'}, "is no name of a class"),
    ],
)
def test_wrong_labels_in_a_tar_file(tmp_path, extra, message):
    write_tar(tmp_path / "x.tar", {"0.png": RED, "0.cls": b"a"} | extra)
    with pytest.raises(UserError, match=message):
        _load(tmp_path / "x.tar")


def test_texts_next_to_images_in_a_folder_are_ignored(tmp_path):
    write_image(tmp_path / "a" / "1.png")
    (tmp_path / "a" / "1.txt").write_text("a caption")
    assert _load(tmp_path).classes == ("a",)


def test_limit_and_classes_apply_to_archives(tmp_path):
    files = {f"{name}/{i}.png": RED for name in ("a", "b", "c") for i in range(3)}
    write_zip(tmp_path / "x.zip", files)
    found = _load(tmp_path / "x.zip", limit=4, classes=("c",))
    assert found.classes == ("c", "a", "b") and found.counts == [2, 1, 1]
