"""Commands that train nothing start fast: they import neither PyTorch nor NumPy."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import remuda
from remuda import recipes
from remuda.reports.compare import FORMATS
from tests.cli.test_cli import call

SLOW = ["torch", "numpy", "scipy", "matplotlib", "sklearn", "torchmetrics"]
SLOW += ["tensorboard", "wandb", "mlflow"]
# Runs a command and then prints which slow packages it imported.
SPY = f"""
import sys
from remuda.cli import main
try:
    main()
finally:
    print("slow:", [name for name in {SLOW!r} if name in sys.modules], file=sys.stderr)
"""


def imported(*words, cwd=None, **environment) -> tuple[str, list[str]]:
    """Return what a command prints, and the slow packages that it imports."""
    result = subprocess.run(
        [sys.executable, "-c", SPY, *map(str, words)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **environment},
        timeout=60,
    )
    *errors, last = result.stderr.strip().splitlines()
    assert not errors, result.stderr
    return result.stdout, json.loads(last.removeprefix("slow: ").replace("'", '"'))


@pytest.mark.parametrize(
    "words", [["--version"], ["list"], ["--help"], ["train", "--help"]], ids=str
)
def test_commands_that_train_nothing_import_nothing_slow(words):
    printed, slow = imported(*words)
    assert printed and not slow


@pytest.mark.parametrize("has_trained", [False, True])
def test_status_imports_nothing_slow(tmp_path, has_trained):
    (tmp_path / "config.toml").write_text('[strategy]\nname = "md-gan"\n[run]\nrounds = 7\n')
    if has_trained:
        line = {"round": 2, "seconds": 1.0, "images": 4, "images_per_second": 4.0, "loss": [1.0]}
        (tmp_path / "rounds.jsonl").write_text(json.dumps(line) + "\n")
    printed, slow = imported("status", tmp_path)
    assert f"round {2 if has_trained else 0} of 7" in printed and not slow


def complete(*words, cwd=None) -> list[str]:
    """Return what the shell offers for the last of the words."""
    environment = {
        "_REMUDA_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["remuda", *words]),
        "COMP_CWORD": str(len(words)),
    }
    printed, slow = imported(cwd=cwd, **environment)
    assert not slow
    return printed.split()


def test_the_shell_completes_recipes_and_toml_files(tmp_path):
    (tmp_path / "class-mine.toml").touch()
    (tmp_path / "class-notes.txt").touch()
    expected = [name for name in recipes.names() if name.startswith("class")]
    assert complete("train", "class", cwd=tmp_path) == [*expected, "class-mine.toml"]
    assert complete("train", f"{tmp_path}/cl") == [f"{tmp_path}/class-mine.toml"]


def test_the_shell_completes_run_folders(tmp_path):
    for name in ("runs/a-001", "runs/b-001", "elsewhere/c-001"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.toml").touch()
    (tmp_path / "runs/not-a-run").mkdir()
    assert complete("resume", "", cwd=tmp_path) == ["runs/a-001", "runs/b-001"]
    assert complete("status", "runs/b", cwd=tmp_path) == ["runs/b-001"]
    assert complete("resume", "b-", cwd=tmp_path) == ["b-001"]
    assert complete("sample", "elsewhere/", cwd=tmp_path) == ["elsewhere/c-001"]


def test_the_shell_completes_commands():
    assert complete("sta") == ["status"]


def test_the_version_is_printed_fast():
    def seconds() -> float:
        start = time.perf_counter()
        assert call("--version").stdout == f"remuda {remuda.__version__}\n"
        return time.perf_counter() - start

    # 0.2 s on an idle machine; the limit leaves room for a busy one.
    assert min(seconds() for _ in range(5)) < 1.0


def test_the_help_names_the_formats_of_compare():
    text = call("compare", "--help").stdout
    assert not [name for name in FORMATS if name not in text]


@pytest.mark.parametrize("delay", [0.02, 0.2, 0.5, 1.0])
def test_ctrl_c_while_starting_prints_no_traceback(tmp_path, delay):
    program = "from remuda.cli import main; print('ready', flush=True); main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "train", "standalone-digits", "--out", str(tmp_path / "a")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 130 and "Traceback" not in errors
    assert errors.startswith("stopped"), errors


@pytest.mark.parametrize("streams", [">&-", "<&- >&- 2>&-"])
def test_standard_streams_may_be_closed(streams, tmp_path):
    """As in some services and cron jobs; files must not receive the numbers of these streams."""
    out = tmp_path / "x.txt"
    code = (
        "import sys; sys.argv = ['remuda', '--version']\n"
        "from remuda.cli import main\n"
        "try:\n    main()\n"
        f"finally:\n    file = open({str(out)!r}, 'w'); file.write(str(file.fileno() > 2))\n"
    )
    words = ["sh", "-c", f'exec "$0" -c "$1" {streams}', sys.executable, code]
    assert subprocess.run(words, timeout=60, check=False).returncode == 0
    assert out.read_text() == "True"
