"""Runs with the user's own code: recorded, resumed only if trusted, compared without executing."""

import json
from importlib.metadata import EntryPoint

import pytest

import remuda
from remuda import recipes
from remuda.data import DATASETS
from remuda.errors import UserError, resume_command
from remuda.record import Reader, Record, parts
from remuda.reports import page
from remuda.reports.compare import compare
from remuda.system import choices
from remuda.system import parts as system_parts
from tests.own import TEXT

RECIPE = """
[data]
name = "mine.py:stripes"

[networks]
name = "mine.py:Tiny"
hidden = 12

[strategy]
name = "mine.py:Mine"
loss = "mine.py:LOGISTIC"
batch_size = 4
steps_per_round = 2

[scores]
kinds = "mine.py:BRIGHTNESS"
every = 2
samples = 50

[run]
rounds = 2

[engine]
device = "cpu"
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with a recipe, and the user's parts next to it."""
    (tmp_path / "mine.py").write_text(TEXT + f"# {tmp_path}\n")
    (tmp_path / "mine.toml").write_text(RECIPE)
    return tmp_path


@pytest.fixture
def run(folder, forget):
    """A finished run in which every part is the user's own, as a new process would see it."""
    made = remuda.run(remuda.recipe(str(folder / "mine.toml")), folder / "run")
    forget()
    return made


@pytest.fixture
def forget(monkeypatch):
    """Return a function after which no code counts as executed, as in a new process."""

    def do():
        monkeypatch.setattr(system_parts, "_files", {})
        monkeypatch.setattr(system_parts, "_texts", {})
        monkeypatch.setattr(system_parts, "_modules", set())

    return do


def executed(run):
    """Return how often the run's code was executed since the witness was placed."""
    return (run / "parts" / "witness").read_text().count("executed")


def test_a_run_keeps_a_copy_of_its_code(folder, run):
    assert (run / "parts" / "mine.py").read_text() == (folder / "mine.py").read_text()
    (entry,) = json.loads((run / "parts.json").read_text())
    assert entry["file"] == "mine.py" and entry["source"] == str(folder / "mine.py")
    settings = Reader.open(run).settings
    assert settings["networks"]["name"] == "parts/mine.py:Tiny"
    assert settings["networks"]["hidden"] == 12 and settings["strategy"]["factor"] == 2.0
    assert settings["strategy"]["loss"] == "parts/mine.py:LOGISTIC"
    (score,) = Reader.open(run).scores()
    assert score.name == "brightness_50_pixels" and 0 < score.value < 255
    assert resume_command(run).endswith("--trust")
    page.write(run)
    text = (run / "index.html").read_text()
    assert f"remuda sample {run} --trust" in text and "trust=True).sample(16)" in text


def test_foreign_code_is_not_executed_without_trust(run):
    (run / "parts" / "witness").touch()
    uses = [
        lambda: remuda.load(run),
        lambda: remuda.resume(run, rounds=3),
        lambda: remuda.score(run),
        lambda: recipes.recipe(str(run / "config.toml")),
        lambda: Record.open(run).config,
    ]
    for use in uses:
        with pytest.raises(UserError) as caught:
            use()
        message = str(caught.value)
        assert message.startswith(f"{run} brings its own code, which would run")
        assert f"{run / 'parts' / 'mine.py'}, 96 lines, SHA-256" in message
        assert "--trust" in message and "trust=True" in message and "\n" not in message
    page.write(run)
    assert "factor" in (run / "index.html").read_text()
    assert "mine.py:Mine" in compare([run]).render("csv")
    assert executed(run) == 0


@pytest.mark.parametrize("missing", ["data.json", "parts.json"])
def test_the_settings_of_an_incomplete_run_need_trust_too(run, missing):
    (run / missing).unlink()
    with pytest.raises(UserError, match="brings its own code"):
        recipes.recipe(str(run / "config.toml"))


def test_a_trusted_run_is_used_from_its_folder(folder, run, forget):
    (run / "parts" / "witness").touch()
    (folder / "mine.py").unlink()
    moved = run.rename(folder / "moved")
    model = remuda.load(moved, trust=True)
    assert model.sample(3).shape == (3, 1, 8, 8) and executed(moved) == 1
    assert remuda.load(moved).round == 2, "code that was executed once needs no permission again"
    forget()
    remuda.resume(moved, rounds=3, trust=True)
    assert Reader.open(moved).num_rounds() == 3
    forget()
    assert remuda.score(moved, trust=True)[0].name == "brightness_50_pixels"
    assert remuda.recipe(str(moved / "config.toml"), trust=True).networks.latent == 8


def test_users_are_told_what_has_changed(folder, run, forget):
    values = remuda.config.to_dict(Record.open(run, trust=True).config)
    assert parts.changes(run, values) == []
    (folder / "mine.py").write_text(TEXT + "# new\n")
    (told,) = parts.changes(run, values)
    assert told.startswith(f"{folder / 'mine.py'} has changed since the run started")
    (run / "parts" / "mine.py").write_text(TEXT + "# other\n")
    assert (
        parts.changes(run, values)[0]
        == f"{run / 'parts' / 'mine.py'} has changed since the run started"
    )


def test_a_resumed_run_can_use_a_new_version(folder, run):
    (folder / "mine.py").write_text(TEXT.replace("factor: float = 2.0", "factor: float = 4.0"))
    recorded = Record.open(run, trust=True).config
    values = remuda.config.to_dict(recorded)
    name = f"strategy.name={folder / 'mine.py'}:Mine"
    config = remuda.config.from_dict(remuda.config.override(values, [name]))
    told = parts.changes(run, remuda.config.to_dict(config))
    assert len(told) == 1 and "the run uses its own copy" in told[0], "of the networks"
    everything = remuda.config.references.map_references(
        values, lambda one: one.replace(str(run / "parts"), str(folder))
    )
    assert parts.changes(run, everything) == []
    remuda.resume(run, rounds=3, config=config, trust=True)
    settings = Reader.open(run).settings
    assert settings["strategy"]["name"] == "parts/mine-2.py:Mine"
    assert settings["networks"]["name"] == "parts/mine.py:Tiny"
    assert len(json.loads((run / "parts.json").read_text())) == 2


def test_equal_code_is_equal_wherever_it_is(folder, run):
    there = recipes.recipe(str(folder / "mine.toml"), "run.seed=1")
    again = remuda.run(there, folder / "again")
    comparison = compare([run, again])
    assert len(comparison.groups) == 1, "two seeds of the same code"
    (folder / "mine.py").write_text(TEXT + "# another text\n")
    third = remuda.run(recipes.recipe(str(folder / "mine.toml"), "run.seed=2"), folder / "third")
    assert len(compare([run, again, third]).groups) == 2


@pytest.mark.parametrize(
    "content",
    ["{}", '[{"file": "../x.py", "source": "", "sha256": ""}]', '[{"file": 3}]', "[3]", "nothing"],
)
def test_a_damaged_index_gets_one_sentence(run, content):
    (run / "parts.json").write_text(content)
    with pytest.raises(UserError, match=r"parts\.json cannot be read"):
        parts.changes(run, {})


def test_a_hostile_configuration_imports_nothing(run, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "evil_module.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nX = 1\n")
    text = (run / "config.toml").read_text()
    for name in ("evil_module:X", f"{tmp_path}/evil_module.py:X", "../evil_module.py:X"):
        (run / "config.toml").write_text(text.replace("parts/mine.py:Tiny", name))
        with pytest.raises(UserError, match="brings its own code"):
            remuda.load(run)
        compare([run]), page.write(run)
    assert not (tmp_path / "ran").exists()


def test_a_rejected_run_leaves_nothing(folder):
    config = remuda.recipe(str(folder / "mine.toml"), f"scores.kinds=fid,{folder}/mine.py:NOPE")
    with pytest.raises(UserError, match="has no NOPE"):
        remuda.run(config, folder / "rejected")
    assert not (folder / "rejected").exists()


def test_a_file_may_change_or_vanish_while_a_run_trains(folder):
    class Editing(remuda.Progress):
        def round(self, line):
            (folder / "mine.py").unlink(missing_ok=True)

    config = remuda.recipe(str(folder / "mine.toml"), "scores.every=1", "run.rounds=3")
    text = (folder / "mine.py").read_text()
    run = remuda.run(config, folder / "edited", progress=Editing())
    assert [score.round for score in Reader.open(run).scores()] == [1, 2, 3]
    assert (run / "parts" / "mine.py").read_text() == text


def test_a_score_of_a_user_chooses_the_best_checkpoint(folder):
    settings = ["scores.every=1", "run.rounds=4", "run.keep_best=brightness"]
    run = remuda.run(remuda.recipe(str(folder / "mine.toml"), *settings), folder / "best")
    scores = {score.round: score.value for score in Reader.open(run).scores()}
    best = max(scores, key=lambda t: scores[t])
    assert remuda.load(run, "best").round == best and "↑" in compare([run]).render("text")


def test_repeats_continue_with_the_same_code_only(folder):
    recipe = str(folder / "mine.toml")
    assert len(remuda.repeat(remuda.recipe(recipe), folder / "repeats", 2).finished) == 2
    assert len(remuda.repeat(remuda.recipe(recipe), folder / "repeats", 2).finished) == 2
    (folder / "mine.py").write_text(TEXT + "# another text\n")
    with pytest.raises(UserError, match=r"was trained with a different .*networks\.name"):
        remuda.repeat(remuda.recipe(recipe), folder / "repeats", 2)


def test_parts_of_packages_are_recorded(folder, monkeypatch):
    offers = {"stripy": [EntryPoint("stripy", f"{folder / 'mine.py'}:stripes", "remuda.datasets")]}
    monkeypatch.setattr(DATASETS, "_offers", offers)
    monkeypatch.setattr(choices, "_packages", lambda points: "mine 1.0" if points else "")
    run = remuda.run(
        remuda.recipe(str(folder / "mine.toml"), "data.name=stripy"), folder / "offered"
    )
    assert Reader.open(run).environments()[-1]["parts"] == {"data.name": "mine 1.0"}
