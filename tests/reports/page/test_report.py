"""The page of a run as one file."""

import ast
import base64
import io
import re
import time
from pathlib import Path

import pytest
from PIL import Image

from remuda.errors import UserError
from remuda.reports import page as report
from remuda.reports.page.pictures import Embedded, png_size

from .pages import written_payload
from .records import add_grid, add_rounds, add_scores, make_record, round_line, score_line


def decoded(picture: dict) -> Image.Image:
    kind, data = picture["src"].split(",")
    assert kind in ("data:image/png;base64", "data:image/webp;base64")
    return Image.open(io.BytesIO(base64.b64decode(data)))


def test_the_page_needs_no_other_file(tmp_path):
    folder = make_record(tmp_path / "run")
    add_grid(folder, 4)
    written_payload(folder)
    text = (folder / "index.html").read_text()
    assert not re.search(r'<iframe|<object|(src|href)="(?!data:|#)', text)
    assert "default-src &#x27;none&#x27;" in text and "<script src" not in text


def test_pictures_are_embedded(tmp_path):
    folder = make_record(tmp_path / "run")
    for t in range(1, 61):
        add_grid(folder, t)
    found = written_payload(folder)["pictures"]
    assert len(found) == 40 and [found[0]["round"], found[-1]["round"]] == [1, 60]
    assert decoded(found[-1]).getpixel((0, 0)) == 60
    assert (found[-1]["width"], found[-1]["height"]) == (331, 331)


def test_large_pictures_become_smaller(tmp_path):
    folder = make_record(tmp_path / "run")
    path = folder / "samples" / "round-000001.png"
    Image.effect_noise((600, 600), 80).save(path)
    found = Embedded(budget=40 * 20_000)(path)
    assert found is not None and len(found["src"]) < 30_000 < path.stat().st_size
    assert (found["width"], found["height"]) == (600, 600), "the page scales the picture"
    assert decoded(found).format == "WEBP"


def test_a_damaged_picture_is_named(tmp_path):
    folder = make_record(tmp_path / "run")
    for t in (1, 2, 3):
        add_grid(folder, t)
    path = folder / "samples" / "round-000002.png"
    path.write_bytes(path.read_bytes()[:60])
    found = written_payload(folder)["pictures"]
    assert [each["src"] is None for each in found] == [False, True, False]
    assert found[1]["name"] == "round-000002.png"
    path.write_bytes(b"no picture at all, but long enough to have a size")
    assert png_size(path) is None and png_size(folder / "missing.png") is None
    assert png_size(folder / "samples" / "round-000001.png") == (331, 331)


def test_hostile_names_stay_text(tmp_path):
    evil = "</script><script>alert('x')</script><!--"
    classes = [evil, '"><img src=x onerror=y>', "a&b", "\udc80"]
    paper = f'[paper]\n"{evil}" = "{evil}"\n'
    folder = make_record(tmp_path / "a<i>'b'", members=4, classes=classes, paper=paper)
    add_rounds(folder, [round_line(5, 4, **{evil: [1.0, 2.0, 3.0, 4.0]})])
    add_scores(folder, score_line(4, evil, 1.0, network=evil))
    found = written_payload(folder)
    assert [each["name"] for each in found["members"]][:3] == classes[:3]
    assert evil in found["curves"]["metrics"] and found["scores"][0]["name"] == evil
    text = (folder / "index.html").read_text()
    assert "alert('x')</script>" not in text and "<img src=x" not in text and "<i>" not in text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.toml", "= 3"),
        ("config.toml", ""),
        ("data.json", "{"),
        ("environment.json", "{}"),
        ("rounds.jsonl", "3\n"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, name, content):
    folder = make_record(tmp_path / "run")
    (folder / name).write_text(content)
    with pytest.raises(UserError, match=f"{name} cannot be read .*: "):
        report.write(folder)
    assert not (folder / "index.html").exists()


def test_a_folder_that_is_not_a_run(tmp_path):
    for folder in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(
            UserError, match=r"is not a run of remuda, because it has no config\.toml"
        ):
            report.write(folder)


@pytest.mark.parametrize(("members", "rounds"), [(1, 9_000), (100, 600), (2_000, 30)])
def test_long_and_wide_runs_have_small_pages(tmp_path, members, rounds):
    """benchmarks/watch.py measures 10,000 rounds of 100 members."""
    folder = make_record(tmp_path / "run", members=members, rounds=rounds, planned=rounds)
    began = time.process_time()
    found = written_payload(folder)
    assert time.process_time() - began < 5
    assert (folder / "index.html").stat().st_size < 3_000_000
    assert found["state"]["reached"] == rounds and len(found["members"]) == members


def test_no_training_code_is_imported():
    allowed = ("reports", "record", "errors", "system", "strategies.MEMBER_NOUNS")
    allowed = (*allowed, "scores.directions")
    reports = Path(report.__file__).parents[1]
    for path in [*reports.glob("page/*.py"), *reports.glob("watch/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                assert not name.startswith(("torch", "numpy"))
                if name.startswith("remuda"):
                    assert name.startswith(tuple(f"remuda.{part}" for part in allowed)), name
