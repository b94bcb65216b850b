"""Old names of settings still work on the command line, with one line on stderr."""

from tests.cli.test_cli import call, in_process

KEY = "remuda: engine.on_loss is deprecated: use engine.on_failure"


def test_an_old_name_gives_one_line_on_stderr():
    words = ["train", "standalone-digits", "--dry-run", "--set", "engine.on_loss=drop"]
    result = call(*words)
    assert result.returncode == 0 and 'on_failure = "drop"' in result.stdout
    assert result.stderr.splitlines() == [KEY]


def test_an_old_name_in_a_record_gives_one_line(tmp_path):
    words = ["networks.name=mlp", "networks.hidden=8", "strategy.steps_per_round=1"]
    settings = [part for word in words for part in ("--set", word)]
    run = tmp_path / "run"
    assert in_process("train", "standalone-digits", "--rounds", 1, "--out", run, *settings)[0] == 0
    path = run / "config.toml"
    path.write_text(path.read_text().replace('on_failure = "auto"', 'on_loss = "drop"'))
    result = call("resume", run, "--rounds", 2)
    assert result.returncode == 0 and result.stderr.splitlines() == [KEY]
    assert 'on_failure = "drop"' in path.read_text()


def test_ranks_do_not_repeat_what_their_launcher_has_said():
    words = ["train", "standalone-digits", "--dry-run", "--set", "engine.on_loss=drop"]
    assert call(*words, REMUDA_STARTED="1").stderr == ""


def test_both_names_together_are_an_error():
    names = ["--set", "engine.on_loss=drop", "--set", "engine.on_failure=stop"]
    result = call("train", "standalone-digits", "--dry-run", *names)
    assert result.returncode == 2 and len(result.stderr.splitlines()) == 1
    assert "both are set: remove engine.on_loss" in result.stderr
