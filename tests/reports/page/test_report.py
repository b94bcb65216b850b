import ast
import base64
import io
import time
from pathlib import Path

import pytest
from PIL import Image

from remuda.errors import UserError
from remuda.reports import page as report

from .pages import page_of
from .records import add_grid, add_rounds, make_record, round_line


def decoded(image) -> Image.Image:
    kind, data = image["src"].split(",")
    assert kind == "data:image/png;base64"
    return Image.open(io.BytesIO(base64.b64decode(data)))


def test_the_head_has_the_main_facts(tmp_path):
    text = page_of(make_record(tmp_path / "my run", rounds=4, planned=10)).text
    for expected in (
        "my run",
        "strategy class-parallel",
        "data digits, 300 images, 1 x 8 x 8",
        "members 3",
        "rounds 4 of 10",
        "images seen 4,000",
        "time trained 2 min 0 s",
        "images/s, median 2,500",
        "device cuda:0: Fast <GPU>",
        "A <b>small</b> herd",
    ):
        assert expected in text


def test_the_page_needs_no_other_file(tmp_path):
    folder = make_record(tmp_path / "run")
    add_grid(folder, 4)
    page = page_of(folder)
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    for attributes in page.attributes:
        for name in ("src", "href", "xlink:href"):
            assert attributes.get(name, "#").startswith(("data:", "#"))
    assert "viewport" in {attributes.get("name") for attributes in page.attributes}
    assert "prefers-color-scheme: dark" in (folder / "index.html").read_text()


def test_the_same_run_gives_the_same_page(tmp_path):
    folder = make_record(tmp_path / "run")
    first = report.write(folder).read_bytes()
    assert report.write(folder).read_bytes() == first


def test_the_newest_grid_is_large_and_a_strip_has_earlier_ones(tmp_path):
    folder = make_record(tmp_path / "run")
    for t in range(1, 31):
        add_grid(folder, t)
    page = page_of(folder)
    newest, *strip = page.images()
    assert decoded(newest).getpixel((0, 0)) == 30
    assert newest["width"] == "662" and newest["class"] == "pixels"
    values = [decoded(image).getpixel((9, 9)) for image in strip]
    assert len(values) == 8 and values[0] == 1 and values[-1] == 30 and values == sorted(values)
    assert all(decoded(image).width <= 240 for image in strip)


def test_a_single_grid_has_no_strip(tmp_path):
    folder = make_record(tmp_path / "run")
    add_grid(folder, 4)
    assert len(page_of(folder).images()) == 1


def test_a_damaged_picture_is_named(tmp_path):
    folder = make_record(tmp_path / "run")
    for t in (1, 2, 3):
        add_grid(folder, t)
    path = folder / "samples" / "round-000002.png"
    path.write_bytes(path.read_bytes()[:60])
    page = page_of(folder)
    assert len(page.images()) == 3 and "round-000002.png is damaged" in page.text


def test_every_metric_has_a_panel_even_with_few_rounds(tmp_path):
    folder = make_record(tmp_path / "run", rounds=4)
    add_rounds(folder, [round_line(5, 3, new_score=[7.125, 8.125, 9.125])])
    page = page_of(folder)
    assert page.tags.count("svg") == 3
    for title in ("discriminator loss", "generator loss", "new score"):
        assert page.text.count(title) == 2  # panel and table
    assert "8.1250" in page.text


def test_values_that_are_not_numbers_are_gaps(tmp_path):
    folder = make_record(tmp_path / "run", rounds=20)
    values = [float("nan"), float("inf"), 0.5]
    add_rounds(folder, [round_line(21, 3, generator_loss=values, odd=["x", None])])
    text = page_of(folder).text
    assert text.count("not finite") == 2 and "odd" not in text


def test_ids_are_unique(tmp_path):
    page = page_of(make_record(tmp_path / "run", rounds=30))
    ids = [attributes["id"] for attributes in page.attributes if "id" in attributes]
    assert ids and len(ids) == len(set(ids))


def test_the_table_names_classes_and_stops_after_thirty(tmp_path):
    few = page_of(make_record(tmp_path / "few", classes=["cat", "dog", "emu"])).text
    assert "1 dog 1.4000 2.4000" in few and "mean 1.4000 2.4000" in few and "more" not in few
    many = page_of(make_record(tmp_path / "many", members=45)).text
    assert "class-29" in many and "class-30 " not in many and "… 15 more" in many


def test_members_of_other_strategies_have_no_class(tmp_path):
    classes = ["cat", "dog", "emu"]
    text = page_of(make_record(tmp_path / "run", strategy="fl-gan", classes=classes)).text
    assert "dog" not in text and "1 1.4000 2.4000" in text


def test_a_value_of_the_server_belongs_to_no_member(tmp_path):
    folder = make_record(tmp_path / "run", rounds=0)
    add_rounds(folder, [round_line(1, 3, generator_loss=[0.625])])
    text = page_of(folder).text
    assert text.count("0.6250") == 1 and "mean 1.1000 0.6250" in text


def test_members_that_were_lost_before_the_first_round_are_counted(tmp_path):
    folder = make_record(tmp_path / "run", members=3, strategy="md-gan")
    config = folder / "config.toml"
    config.write_text(config.read_text().replace("members = 0", "members = 3\nlost = [1]"))
    assert "4, 1 of them lost" in page_of(folder).text


def test_a_run_that_lost_a_member(tmp_path):
    folder = make_record(tmp_path / "run", classes=["cat", "dog", "emu"])
    add_rounds(folder, [round_line(5, 2)])
    text = page_of(folder).text
    assert "members 3" in text and "dog" not in text and "band" in text


def test_hostile_names_stay_text(tmp_path):
    evil = "<script>alert('x')</script>"
    classes = [evil, '"><img src=x onerror=y>', "a&b", "\udc80"]
    paper = f'[paper]\n"{evil}" = "{evil}"\n'
    folder = make_record(tmp_path / "a<i>'b'", members=4, classes=classes, paper=paper)
    add_rounds(folder, [round_line(5, 4, **{evil: [1.0, 2.0, 3.0, 4.0]})])
    page = page_of(folder)
    assert "script" not in page.tags and "i" not in page.tags and not page.images()
    for text in (evil, classes[1], "a&b", r"\udc80", "a<i>'b'"):
        assert text in page.text


def test_results_in_the_paper(tmp_path):
    figures = ('source = "A. Author"', "inception_score = 6.43", "splits = [1, 2]")
    paper = "\n".join(["[paper]", *figures, "[paper.cifar]", "mean = 5.5", ""])
    text = page_of(make_record(tmp_path / "with", paper=paper)).text
    figures = "source A. Author inception score 6.43 splits 1, 2 cifar, mean 5.5"
    assert f"Results in the paper {figures}" in text
    assert "Results in the paper" not in page_of(make_record(tmp_path / "without")).text


def test_commands_to_resume_and_sample(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page_of(make_record(Path("my run"), rounds=4, planned=10)).text
    assert "remuda resume 'my run' --rounds 10" in text
    assert "remuda sample 'my run' --label all --n 10 --out grid.png" in text
    assert "remuda.load('my run').sample(16)" in text
    single = {"strategy": "standalone", "members": 1}
    text = page_of(make_record(Path("done"), rounds=4, planned=4, **single)).text
    assert "remuda resume done --rounds 8" in text
    assert "remuda sample done --n 64 --out grid.png" in text
    text = page_of(make_record(Path("asked"), conditional=True, **single)).text
    assert "--label all" in text


def test_configuration_and_environment_are_folded_in(tmp_path):
    page = page_of(make_record(tmp_path / "run"))
    assert page.tags.count("details") == 2
    assert "batch_size = 32" in page.text and '"device": "old"' in page.text


def test_a_run_before_its_first_round(tmp_path):
    text = page_of(make_record(tmp_path / "run", rounds=0)).text
    assert "rounds 0 of 10" in text and "members 3" in text
    assert "No samples have been drawn yet" in text
    assert "member by member" not in text and "Training" not in text


def test_a_run_folder_with_only_a_configuration(tmp_path):
    folder = make_record(tmp_path / "run", rounds=0)
    for name in ("data.json", "environment.json", "rounds.jsonl"):
        (folder / name).unlink()
    (folder / "samples").rmdir()
    text = page_of(folder).text
    assert "data digits" in text
    assert "members not known yet" in text and "device not known yet" in text


def test_a_torn_last_line_is_ignored(tmp_path):
    folder = make_record(tmp_path / "run", rounds=4)
    with (folder / "rounds.jsonl").open("a") as file:
        file.write('{"round": 5, "discriminator_loss": [0.')
    assert "rounds 4 of 10" in page_of(folder).text


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


def test_points_are_not_pixelated(tmp_path):
    folder = make_record(tmp_path / "run", members=1, strategy="standalone")
    data = folder / "data.json"
    data.write_text(data.read_text().replace("[1, 8, 8]", "[2, 1, 1]"))
    add_grid(folder, 4, size=(400, 400))
    page = page_of(folder)
    assert page.images()[0]["class"] == "plot" and page.images()[0]["width"] == "400"
    assert "data digits, 100 points" in page.text


@pytest.mark.parametrize(
    ("members", "rounds", "limit"),
    [(1, 1, 50_000), (1, 100_000, 500_000), (40, 3_000, 1_000_000), (1_000, 60, 200_000)],
)
def test_long_and_wide_runs_have_small_pages(tmp_path, members, rounds, limit):
    folder = make_record(tmp_path / "run", members=members, rounds=rounds, planned=rounds)
    began = time.perf_counter()
    page = page_of(folder)
    assert time.perf_counter() - began < 30
    assert (folder / "index.html").stat().st_size < limit
    assert f"rounds {rounds:,} of {rounds:,}" in page.text and f"members {members:,}" in page.text
    assert ("the mean of up to 50 rounds" in page.text) == (rounds == 100_000)


def test_no_training_code_is_imported():
    allowed = ("reports.page", "record", "errors", "system", "strategies.MEMBER_NOUNS")
    for path in Path(report.__file__).parent.glob("*.py"):
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
