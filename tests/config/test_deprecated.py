"""Old names of settings still work in files, with --set and in records, and give one warning."""

import warnings
from pathlib import Path

import pytest

from remuda import config, recipes
from remuda.errors import UserError
from remuda.record import Record

OLD = '[engine]\nname = "mpi"\non_loss = "rehome"\n'


def messages(action) -> list[str]:
    """Return what Python's default filter shows while the action runs."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.resetwarnings()
        action()
    return [str(one.message) for one in caught if issubclass(one.category, FutureWarning)]


BOTH = [
    "engine.on_loss is deprecated: use engine.on_failure",
    "engine.on_failure=rehome is deprecated: use move",
]


def test_old_names_work_in_a_file(tmp_path):
    (tmp_path / "old.toml").write_text(OLD)

    def read():
        made = recipes.recipe(str(tmp_path / "old.toml"))
        assert made.engine.on_failure == "move"
        assert "on_loss" not in config.to_toml(made) and "rehome" not in config.to_toml(made)

    assert messages(read) == BOTH


@pytest.mark.parametrize(
    ("assignment", "expected", "warned"),
    [
        ("engine.on_loss=rehome", "move", BOTH),
        ("engine.on_loss=drop", "drop", BOTH[:1]),
        ("engine.on_failure=rehome", "move", BOTH[1:]),
    ],
)
def test_old_names_work_with_set(assignment, expected, warned):
    """They also change a file that has the new name."""

    def override():
        values = config.override({"engine": {"on_failure": "stop"}}, [assignment])
        assert config.from_dict(values).engine.on_failure == expected

    assert messages(override) == warned


def test_old_names_work_in_a_record_and_are_reported_once(tmp_path: Path):
    (tmp_path / "config.toml").write_text(OLD)

    def read_twice():
        for _ in range(2):
            assert Record.open(tmp_path).config.engine.on_failure == "move"

    assert messages(read_twice) == BOTH


@pytest.mark.parametrize(("old", "new"), [(True, ("tensorboard",)), (False, ())])
def test_the_old_switch_of_tensorboard_chooses_a_tracker(old, new):
    def read():
        assert config.from_dict({"run": {"tensorboard": old}}).run.trackers == new

    assert messages(read) == ["run.tensorboard is deprecated: use run.trackers"]
    assert (
        config.from_dict(config.override({}, [f"run.tensorboard={str(old).lower()}"])).run.trackers
        == new
    )


def test_a_wrong_value_of_an_old_name_is_refused():
    with pytest.raises(UserError, match=r"run\.trackers: expected words in brackets"):
        config.from_dict({"run": {"tensorboard": "yes"}})


def test_an_old_and_a_new_name_together_are_an_error():
    both = {"engine": {"on_loss": "drop", "on_failure": "stop"}}
    sentence = r"engine\.on_loss is the old name of engine\.on_failure, but both are set: remove"
    with pytest.raises(UserError, match=sentence):
        config.from_dict(both)
    with pytest.raises(UserError, match=sentence):
        config.override({}, ["engine.on_loss=drop", "engine.on_failure=stop"])


def test_every_old_name_leads_to_a_setting():
    for old, new in config.DEPRECATED.items():
        section, key = new.split(".")
        assert hasattr(config.PLAIN[section](), key) and not hasattr(config.PLAIN[section](), old)
    for path, renamed in config.DEPRECATED_VALUES.items():
        for value in renamed.values():
            config.from_dict(config.override({}, [f"{path}={value}"]))
