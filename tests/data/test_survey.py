import io

from rich.console import Console

from remuda.data import DataConfig
from remuda.data.pool import TASK_SIZE, in_parallel
from remuda.data.survey import print_survey, survey
from remuda.system import progress
from tests.cli.test_cli import call

from .samples import image_bytes, write_image, write_zip


def _printed(config: DataConfig) -> str:
    file = io.StringIO()
    print_survey(survey(config), config, Console(file=file, width=200))
    return file.getvalue()


def test_shapes_kinds_and_broken_files(tmp_path):
    for i in range(7):
        write_image(tmp_path / "a" / f"{i}.png", (200, 150))
    write_image(tmp_path / "b" / "0.png", (90, 300), mode="L")
    (tmp_path / "b" / "[red]1.png").write_bytes(b"")
    config = DataConfig(name=f"folder:{tmp_path}")
    found = survey(config)
    assert found.shapes == {(150, 200): 7, (300, 90): 1} and found.kinds == {3: 7, 1: 1}
    assert not found.can_load(config)
    assert found.can_load(DataConfig(size=64, channels=3))
    text = _printed(config)
    for words in (
        "8 images in 2 classes",
        "7 RGB, 1 grey",
        "height: 150 to 300 pixels, median 150",
        "width: 90 to 200 pixels, median 200",
        "150 x 200",
        "broken: 1 file",
        "b/[red]1.png: it is empty",
        "--set data.size=64",
        "--set data.channels=3",
        "--skip-broken",
    ):
        assert words in text


def test_many_shapes_and_broken_files_are_shortened(tmp_path):
    files = {f"{i}.png": image_bytes((8 + i, 8)) for i in range(9)}
    files |= {f"broken-{i}.png": b"" for i in range(12)}
    write_zip(tmp_path / "x.zip", files)
    text = _printed(DataConfig(name=f"folder:{tmp_path / 'x.zip'}"))
    assert "3 other shapes" in text and "and 2 more" in text and "broken: 12 files" in text
    assert "--set data.size=32" in text


def test_progress_ends_at_the_number_of_images():
    parts = in_parallel(lambda start: start, TASK_SIZE + 6, "reading")
    assert next(parts) == 0
    task = progress._tasks[-1]
    assert list(parts) == [TASK_SIZE] and task.done == TASK_SIZE + 6


def test_names_of_folders_are_shown_as_they_are(tmp_path):
    write_image(tmp_path / "cat" / "a\x1b[31m\nb" / "1.png")
    (tmp_path / "cat" / "a\x1b[31m\nb" / "2\x1b[31m.png").write_bytes(b"")
    result = call("data", "folder:cat", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "folder:cat: 1 images" in result.stdout
    assert "\x1b" not in result.stdout and "a\ufffd[31m b 1" in result.stdout
    assert "unknown recipe ':cat:'" in call("train", ":cat:", cwd=tmp_path).stderr


def test_the_command(tmp_path):
    for i in range(3):
        write_image(tmp_path / "photos" / f"{i}.png")
    (tmp_path / "photos" / "3.png").write_bytes(b"")
    result = call("data", f"folder:{tmp_path / 'photos'}")
    assert result.returncode == 0, result.stderr
    assert "broken: 1 file" in result.stdout and "3 images of 3 x 8 x 8" in result.stdout
    for name in ("folder:", "folder:{rank}"):
        result = call("data", name)
        assert result.returncode == 2 and len(result.stderr.splitlines()) == 1


def test_nothing_is_left_without_the_broken_files(tmp_path):
    (tmp_path / "a.png").write_text("no image")
    text = _printed(DataConfig(name=f"folder:{tmp_path}"))
    assert "broken: 1 file" in text and "--skip-broken" not in text
