import os
import shutil
import subprocess

import pytest

from remuda.record import environment


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_revision_is_read_without_locking_the_repository(tmp_path, monkeypatch):
    """A killed run must not leave a lock, and a commit at the same time must not fail."""
    (tmp_path / ".git").mkdir()
    package = tmp_path / "remuda" / "record"
    package.mkdir(parents=True)
    (package / "environment.py").write_text("")

    def git(*words):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", tmp_path, *who, *words], check=True, capture_output=True)

    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    monkeypatch.setattr(environment, "__file__", str(package / "environment.py"))
    os.utime(package / "environment.py", (1, 1))  # "git status" would write this to the index
    index = (tmp_path / ".git" / "index").read_bytes()
    revision = environment._revision()
    assert revision is not None and len(revision) == 40
    assert (tmp_path / ".git" / "index").read_bytes() == index
    (package / "environment.py").write_text("changed")
    assert environment._revision() == f"{revision}+"
