"""Check that the documentation agrees with the code: keys, flags, figures, links, code blocks."""

import re
import tomllib
from dataclasses import MISSING, fields
from pathlib import Path
from typing import get_args

import pytest
import torch
import typer

import remuda
from remuda import config, recipes
from remuda.cli import app
from remuda.config import describe
from remuda.experiments import check
from remuda.networks import DCGAN, MLP, count_parameters
from remuda.strategies import STRATEGIES, Strategy
from tests.contract import test_contract as contract

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
GUIDES = {"extending.md", "own-networks.md"}  # their recipes name parts that tests below define
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def rows(path: Path) -> list[list[str]]:
    """Return the cells of all tables in a page."""
    lines = path.read_text().splitlines()
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in lines
        if line.startswith("|")
    ]


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


# Settings


def settable() -> set[tuple[str, str]]:
    """Return every key of every section and class, with its default as in TOML."""
    found = {(f"{section}.name", repr(name)) for section, name in config.DEFAULT_NAMES.items()}
    classes = [(section, cls) for section, cls in config.PLAIN.items()]
    classes += [(section, cls) for section, known in config.NAMED.items() for cls in known.values()]
    for section, cls in classes:
        for f in fields(cls):
            if f.init:
                assert f.default is not MISSING
                default = list(f.default) if isinstance(f.default, tuple) else f.default
                found.add((f"{section}.{f.name}", repr(default)))
    return found


def test_every_key_is_documented_with_its_default():
    documented = set()
    for key, default, *_ in rows(DOCS / "configuration.md"):
        if re.match(r"`\w+\.\w+`", key):
            value = tomllib.loads(f"value = {default.strip('`')}")["value"]
            documented.add((key.strip("`"), repr(value)))
    # Sentences, not tables, list the names of classes.
    names = {(f"{section}.name", repr(name)) for section, name in config.DEFAULT_NAMES.items()}
    text = (DOCS / "configuration.md").read_text()
    for key, default in names:
        assert f"`{key}` is" in text and f'`"{default[1:-1]}"` (the default)' in text
    assert documented == settable() - names


def test_every_choice_is_documented():
    text = (DOCS / "configuration.md").read_text()
    named = [("networks", DCGAN), ("networks", MLP), ("strategy", Strategy)]
    for section, cls in [*config.PLAIN.items(), *named]:
        literals = [f for f in fields(cls) if f.init and "Literal" in str(f.type)]
        for f in literals:
            choices = [word for part in get_args(f.type) for word in get_args(part) or (part,)]
            for choice in choices:
                choice = "false" if choice is bool else choice
                assert f"`{choice}`" in text, f"{section}.{f.name}={choice}"
    for known in config.NAMED.values():
        assert all(f'"{name}"' in text for name in known)


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_settings_in_examples_exist(path):
    known = {key for key, _ in settable()}
    text = path.read_text()
    used = re.findall(r"--set (\w+\.\w+)=", text) + re.findall(r'"(\w+\.\w+)=', text)
    assert set(used) - {"section.key", "A.B"} <= known
    if path.name not in GUIDES:
        for text in blocks(path, "toml"):
            config.from_dict(tomllib.loads(text))


# Commands


def test_every_command_and_flag_is_documented():
    text = (DOCS / "command-line.md").read_text()
    sections = dict(re.findall(r"^## remuda (\w+)\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL))
    assert set(sections) == set(COMMANDS)
    for name, command in COMMANDS.items():
        options = {option for parameter in command.params for option in parameter.opts}
        flags = {option for option in options if option.startswith("--")}
        assert set(re.findall(r"^\| `(--[a-z-]+)", sections[name], re.MULTILINE)) == flags, name


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_commands_that_are_shown_exist(path):
    text = "\n".join(blocks(path, r"\w*"))
    for name, rest in re.findall(r"^(?:\$ )?remuda (\w+)(.*)$", text, re.MULTILINE):
        known = {option for parameter in COMMANDS[name].params for option in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", rest)) <= known, f"remuda {name}{rest}"


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_make_targets_that_are_shown_exist(path):
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z]+)", path.read_text())) <= targets


# Links


def anchors(path: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)]+)\)", path.read_text()):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        goal = (path.parent / name).resolve() if name else path
        assert goal.exists(), target
        assert not anchor or anchor in anchors(goal), target


def test_every_picture_is_shown():
    text = "".join(path.read_text() for path in PAGES)
    assert not [path.name for path in (DOCS / "pictures").iterdir() if path.name not in text]


def test_the_map_knows_every_page():
    index = DOCS / "index.md"
    links = {(DOCS / link).resolve() for link in re.findall(r"\]\(([^)#]+)", index.read_text())}
    assert links >= set(DOCS.rglob("*.md")) - {index}


# Figures


def test_parameter_counts():
    letter = DCGAN(conditional=True, judge_label=False)
    checked = 0
    for row in rows(DOCS / "networks.md"):
        if re.fullmatch(r"\d+ x \d+ x \d+", row[0]):
            shape = tuple(map(int, row[0].split(" x ")))
            family = DCGAN if len(row) == 6 else MLP
            pairs = [family(), family(conditional=True)]
            modules = [
                make(shape, 10) for pair in pairs for make in (pair.generator, pair.discriminator)
            ]
            modules += [letter.discriminator(shape, 10)] if family is DCGAN else []
            assert row[1:] == [f"{count_parameters(module):,}" for module in modules], row
            checked += 1
    assert checked == 9


def test_the_papers_figures_are_those_of_the_recipes():
    """Some table shows each recipe that quotes a paper next to the same numbers."""
    page = [row for path in (DOCS / "strategies").glob("*.md") for row in rows(path)]
    for name in recipes.names():
        paper = recipes.recipe(name).paper
        figures = {str(value) for key, value in paper.items() if isinstance(value, float)}
        if figures:
            assert any(f"`{name}`" in row and figures <= set(row) for row in page), name


def test_every_recipe_is_mentioned():
    text = "".join(path.read_text() for path in (DOCS / "strategies").glob("*.md"))
    assert all(f"`{name}`" in text for name in recipes.names() if name != "class-parallel-digits")
    assert "class-parallel-digits" in (ROOT / "README.md").read_text()


# Code


@pytest.mark.parametrize(
    "pages",
    [
        ("README.md", "docs/record.md"),
        ("docs/python-api.md", "docs/export.md"),
        ("docs/engines.md",),
        ("docs/randomness.md",),
        ("docs/own-parts.md",),
        ("docs/trackers.md",),
    ],
)
def test_python_blocks_run_in_order(pages, tmp_path, monkeypatch):
    """The page on the record reads the run that the README's code trains."""
    monkeypatch.chdir(tmp_path)
    namespace: dict = {}
    for page in pages:
        assert blocks(ROOT / page, "python")
        for text in blocks(ROOT / page, "python"):
            exec(compile(text, page, "exec"), namespace)


def test_the_strategy_of_the_guide(tmp_path, monkeypatch, toy_data):
    """It passes the contract tests of all strategies as a module, and trains a whole run."""
    (text,) = blocks(DOCS / "extending.md", "python")
    (tmp_path / "carousel.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    from carousel import Carousel  # type: ignore[import-not-found]

    monkeypatch.setitem(STRATEGIES, "carousel", Carousel)
    for engine in contract.ENGINES:
        contract.test_rounds_learn_report_every_member_and_are_pure(
            toy_data, "carousel", engine, "dcgan"
        )
        contract.test_a_fresh_start_from_saved_tensors_is_exact(toy_data, "carousel", engine)
        contract.test_engines_agree_to_rounding(toy_data, "carousel", engine, "mlp")
    contract.test_samples_have_the_shape_of_the_data(toy_data, "carousel", "mlp")

    (recipe,) = blocks(DOCS / "extending.md", "toml")
    short = ["strategy.steps_per_round=1", "run.rounds=2", "strategy.swap_every=2"]
    values = config.override(tomllib.loads(recipe), short)
    folder = remuda.run(config.from_dict(values), tmp_path / "run")
    remuda.resume(folder, rounds=3)
    assert remuda.load(folder).sample(2).shape == (2, 1, 8, 8)
    with pytest.raises(remuda.UserError, match=r"strategy\.swap_every"):
        config.from_dict(config.override(values, ["strategy.swap_every=0"]))


def test_the_carousel_turns(tmp_path, monkeypatch, toy_data):
    namespace: dict = {}
    exec(blocks(DOCS / "extending.md", "python")[0], namespace)
    monkeypatch.setitem(STRATEGIES, "carousel", namespace["Carousel"])
    still = contract.Small(toy_data, "carousel", "stacked-loop", swap_every=2).train(1)[0]
    turned = contract.Small(toy_data, "carousel", "stacked-loop", swap_every=1).train(1)[0]
    for name, before in still.discriminator.params.items():
        assert torch.equal(before, turned.discriminator.params[name].roll(-1, 0))


def test_the_parts_of_the_guide_work(tmp_path, monkeypatch):
    """Save the blocks of the page as a file, and train with all of them, as the page says."""
    monkeypatch.chdir(tmp_path)
    text = "\n".join(blocks(DOCS / "own-parts.md", "python"))
    Path("my_parts.py").write_text(text)
    settings = [
        "strategy.loss=my_parts.py:LOGISTIC",
        "data.name=my_parts.py:stripes",
        "scores.kinds=my_parts.py:BRIGHTNESS",
        "scores.every=1",
        "scores.samples=40",
        "run.rounds=1",
    ]
    folder = remuda.run(remuda.recipe("class-parallel-digits", *settings), "run")
    (score,) = remuda.record.Reader.open(folder).scores()
    assert score.name == "brightness_40_pixels"
    assert [one.setting for one in describe.find("my_parts.py")] == [
        "strategy.loss",
        "data.name",
        "scores.kinds",
    ]


def test_the_networks_of_the_guide(tmp_path, monkeypatch):
    """They pass ``remuda check``, and train, resume and sample a run with md-gan."""
    plain, *parts, noise = blocks(DOCS / "own-networks.md", "python")
    assert plain.count("\n") < 35, "the first example is short"
    example = (ROOT / "examples" / "own_networks.py").read_text()
    assert "\n\n".join(parts) == example, "the page shows the file of the example"
    monkeypatch.chdir(tmp_path)
    Path("my_networks.py").write_text(plain + "\n\n" + "\n\n".join(parts) + "\n\n" + noise)
    for name in ("Plain", "TinyConv"):
        outcomes = list(check(f"my_networks.py:{name}"))
        assert outcomes and not [one for one in outcomes if one.verdict == "fails"]

    (recipe,) = blocks(DOCS / "own-networks.md", "toml")
    file = ROOT / "examples" / "own_networks.toml"
    assert recipe.replace("my_networks", "own_networks") == file.read_text()
    Path("mine.toml").write_text(recipe)
    short = ["strategy.steps_per_round=1", "run.rounds=2", "networks.width=4"]
    folder = remuda.run(remuda.recipe("mine.toml", *short), tmp_path / "run")
    remuda.resume(folder, rounds=3)
    assert remuda.load(folder).sample(2, labels=3).shape == (2, 1, 8, 8)
    with pytest.raises(remuda.UserError, match=r"networks\.dropout 0 to 0\.9"):
        remuda.recipe("mine.toml", "networks.dropout=1")


def test_the_noise_of_the_guide():
    namespace: dict = {}
    exec(blocks(DOCS / "own-networks.md", "python")[-1], namespace)
    layer = namespace["Noise"](0.5)
    x = torch.zeros(3, 4)
    first, second = layer(x), layer(x)
    assert not torch.equal(first, second) and torch.equal(layer.eval()(x), x)
