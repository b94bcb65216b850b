"""Test when a run is restarted, and how, with stand-ins for mpirun and ssh."""

import os
import signal
import time

import pytest

from remuda import config
from remuda.cluster import hosts, launcher, supervision
from remuda.cluster.hosts import Host
from remuda.cluster.job import resumed
from remuda.errors import Interrupted, StoppedByFailure, UserError
from tests.cluster.test_launcher import RULER, fake_mpirun, start  # noqa: F401

LOST_DAEMON = [
    "PRTE has lost communication with a remote daemon.",
    "",
    "  HNP daemon   : [prterun-n1-70@0,0] on node n1",
    "  Remote daemon: [prterun-n1-70@0,2] on node n3",
    "",
    "This is usually due to either a failure of the TCP network",
]
DEATH = ["prterun noticed that process rank 0 with PID 9 on node n7 exited on signal 9."]


def notice(lines):
    """Return a shell command that prints a notice of mpirun."""
    return "printf '%s\\n' " + " ".join(f"'{line}'" for line in (RULER, *lines, RULER)) + " >&2\n"


STARTED = r"printf '\002\n' >&2" + "\n"
ALIVE = r"printf '\004\n' >&2" + "\n"
ROOT_LOST = r"printf '\005\n' >&2" + "\n"
ENDED = {
    status: rf"printf '\{byte}\n' >&2" + "\n"
    for status, byte in {0: "016", 1: "017", 2: "020", 75: "021", 130: "022"}.items()
}
SUCCESS = STARTED + ENDED[0]
ALL_DIED = STARTED + "exit 1"


@pytest.fixture
def attempts(fake_mpirun, tmp_path, monkeypatch):  # noqa: F811
    """Write a stand-in for mpirun that runs a script per attempt, and notes its arguments."""
    monkeypatch.setattr(launcher, "END_GRACE", 0.3)
    monkeypatch.setattr(launcher, "KILL_AFTER", 0.3)
    told: list[str] = []

    def write(*scripts):
        for number, script in enumerate(scripts, start=1):
            (tmp_path / f"attempt-{number}").write_text(script)
        fake_mpirun(
            "test \"$1\" = --version && echo 'mpirun (Open MPI) 5.0.11' && exit\n"
            f"cd {tmp_path}\n"
            'echo "$@" >> calls\n'
            ". ./attempt-$(wc -l < calls)"
        )
        return told

    return write


def calls(folder):
    """Return the arguments of remuda in each attempt."""
    lines = (folder / "calls").read_text().splitlines()
    return [line.partition(" remuda.cluster.rank ")[2] for line in lines]


@pytest.mark.parametrize(
    "script, cause",
    [
        (STARTED + ROOT_LOST + "exit 75", "rank 0 was lost"),
        (STARTED + notice(DEATH), "rank 0 on n7 was ended by signal 9 (Killed)"),
        (STARTED + notice(LOST_DAEMON) + "exit 1", "mpirun lost contact with n3"),
        (STARTED + ENDED[130] + notice(LOST_DAEMON), "mpirun lost contact with n3"),
        (notice(LOST_DAEMON) + "exit 1", "mpirun lost contact with n3"),
        (STARTED + ENDED[75] + "exit 75", "ranks were lost"),
        (ALL_DIED, "all ranks died"),
        (STARTED, "all ranks died"),
    ],
)
def test_a_run_that_lost_its_ranks_is_restarted(attempts, tmp_path, script, cause):
    told = attempts(script, SUCCESS)
    assert start(tmp_path, told.append, restarts=3) == 0
    assert told == [f"{cause}; restarting the run (restart 1 of 3)"]
    assert calls(tmp_path) == ["train"] * 2


def test_the_number_of_restarts_is_limited(attempts, tmp_path):
    told = attempts(ALL_DIED, STARTED + ROOT_LOST, STARTED + notice(LOST_DAEMON) + "exit 1")
    with pytest.raises(
        StoppedByFailure, match=r"^mpirun lost contact with n3: start the run again"
    ):
        start(tmp_path, told.append, restarts=2)
    assert [line[-16:] for line in told] == ["(restart 1 of 2)", "(restart 2 of 2)"]


@pytest.mark.parametrize(
    "end", [ENDED[75] + "exit 75", "echo 'remuda: rank 0 on n1 was lost' >&2\n" + ROOT_LOST]
)
def test_ranks_that_have_explained_the_loss_end_with_its_status(attempts, tmp_path, end):
    told = attempts(STARTED + end)
    assert start(tmp_path, told.append) == 75 and not told


def test_the_loss_of_rank_0_and_of_the_rank_that_would_report_it_is_explained(attempts, tmp_path):
    told = attempts(STARTED + ROOT_LOST)
    with pytest.raises(StoppedByFailure, match=r"^rank 0 was lost: start the run again$"):
        start(tmp_path, told.append)


@pytest.mark.parametrize(
    "script, status",
    [
        (STARTED + ENDED[2] + "exit 2", 2),
        (STARTED + ENDED[1] + "exit 1", 1),
        (STARTED + ENDED[130] + "exit 130", 130),
        (STARTED + ENDED[0] + notice(DEATH) + "exit 137", 0),
        (STARTED + ENDED[0] + notice(LOST_DAEMON) + "exit 1", 0),
        (STARTED + ENDED[2] + ROOT_LOST + notice(LOST_DAEMON) + "exit 1", 2),
    ],
)
def test_a_run_that_ended_by_itself_is_not_restarted(attempts, tmp_path, script, status):
    told = attempts(script)
    assert start(tmp_path, told.append, restarts=3) == status and not told


def test_a_run_that_never_started_is_not_restarted(attempts, tmp_path):
    told = attempts("exit 7")
    with pytest.raises(UserError, match="exited with status 7 and without an error message"):
        start(tmp_path, told.append, restarts=3)
    assert not told


@pytest.mark.parametrize(
    "end, status", [(ENDED[130] + "exit 130", 130), (ENDED[75] + "exit 75", 75)]
)
def test_a_stop_signal_ends_the_run_for_good(attempts, tmp_path, end, status):
    (tmp_path / "on-signal").write_text(end)
    wait = "trap '. ./on-signal' USR1\nsleep 1\nkill -TERM $PPID\nsleep 20 2>&- & wait\n"
    told = attempts(STARTED + wait)
    assert start(tmp_path, told.append, restarts=3) == status and not told


def test_a_stop_signal_between_two_attempts_ends_the_run(attempts, tmp_path, monkeypatch):
    told = attempts(ALL_DIED)
    stop = lambda *_: os.kill(os.getpid(), signal.SIGINT)  # noqa: E731
    monkeypatch.setattr(supervision, "take_over", stop)
    with pytest.raises(Interrupted, match=r"^stopped; start the run again$"):
        start(tmp_path, told.append, restarts=3)
    assert calls(tmp_path) == ["train"]


def test_a_stop_signal_while_mpirun_starts_ends_the_run(attempts, tmp_path, monkeypatch):
    class Signalled(supervision.Launcher):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            os.kill(os.getpid(), signal.SIGTERM)

    told = attempts("trap '' USR1\nsleep 20")
    monkeypatch.setattr(supervision, "Launcher", Signalled)
    began = time.monotonic()
    with pytest.raises(Interrupted, match=r"^stopped; start the run again$"):
        start(tmp_path, told.append, restarts=3)
    assert time.monotonic() - began < 15 and not told


@pytest.mark.parametrize("status", [0, 2, 75])
def test_an_mpirun_that_waits_for_a_lost_host_is_ended(attempts, tmp_path, status):
    """Its status would not tell how the run has ended."""
    told = attempts(STARTED + ENDED[status] + "trap '' TERM\nsleep 60 & wait; sleep 60")
    began = time.monotonic()
    assert start(tmp_path, told.append) == status
    assert time.monotonic() - began < 15


def test_silent_ranks_are_ended(attempts, tmp_path, monkeypatch):
    monkeypatch.setattr(launcher, "SILENCE", 0.5)
    told = attempts(STARTED + "sleep 60", SUCCESS)
    assert start(tmp_path, told.append, restarts=1, timeout=0.1) == 0
    assert told == ["rank 0 gave no sign of life; restarting the run (restart 1 of 1)"]


def test_a_lost_rank_0_that_is_silent_is_not_waited_for(attempts, tmp_path):
    told = attempts(STARTED + ROOT_LOST + "sleep 60", SUCCESS)
    assert start(tmp_path, told.append, restarts=1, timeout=0.5) == 0
    assert told == ["rank 0 was lost; restarting the run (restart 1 of 1)"]


def test_a_rank_that_was_cut_off_does_not_end_the_others(attempts, tmp_path):
    """It also believes that rank 0 was lost, but rank 0 still gives signs of life."""
    signs = f"for i in 1 2 3 4 5 6 7 8 9 10; do\n{ALIVE}sleep 0.2\ndone\n"
    told = attempts(STARTED + ROOT_LOST + signs + ENDED[0])
    assert start(tmp_path, told.append, restarts=1, timeout=1.2) == 0 and not told


# Hosts


@pytest.fixture
def three(tmp_path, monkeypatch):
    """Return three hosts. A file with its name makes a host fall silent."""
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\ntest -e {tmp_path}/$1 && exit 255\nexec sh -c "$2"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("REMUDA_SSH", str(ssh))
    monkeypatch.setattr(hosts, "is_here", lambda name: False)
    return hosts.parse("127.0.0.1:2,127.0.0.2:1,127.0.0.3:1")


def record(folder, tiny, **engine):
    """Write as much of a run as a restart reads."""
    tiny["engine"] = {**tiny["engine"], "name": "mpi", **engine}
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(config.to_toml(config.from_dict(tiny)))
    (folder / ".lock").touch()


def test_a_restart_uses_the_hosts_that_are_left(attempts, three, tmp_path, tiny):
    run = tmp_path / "run"
    record(run, tiny, hosts=hosts.describe(three))
    told = attempts(STARTED + ROOT_LOST + "touch 127.0.0.1", SUCCESS)
    assert start(tmp_path, told.append, restarts=3, hosts=three) == 0
    where = "127.0.0.2 and 127.0.0.3"
    assert told == [
        "rank 0 was lost; restarting the run from its newest checkpoint on "
        f"{where} (restart 1 of 3)"
    ]
    second = calls(tmp_path)[1]
    assert second == f"resume {run} --hosts 127.0.0.2:1,127.0.0.3:1 --ranks 2"
    assert " -n 2 " in (tmp_path / "calls").read_text().splitlines()[1]
    assert not (run / ".lock").exists(), "an old rank 0 finds out that it was replaced"


def test_a_restart_leaves_out_what_the_run_has_dropped(attempts, three, tmp_path, tiny):
    record(tmp_path / "run", tiny, hosts="127.0.0.1:1,127.0.0.3:1")
    told = attempts(ALL_DIED, SUCCESS)
    assert start(tmp_path, told.append, restarts=3, hosts=three) == 0
    assert calls(tmp_path)[1].endswith(" --hosts 127.0.0.1:1,127.0.0.3:1 --ranks 2")


def test_a_restart_needs_a_host(attempts, three, tmp_path):
    told = attempts(STARTED + "touch 127.0.0.1 127.0.0.2 127.0.0.3")
    with pytest.raises(StoppedByFailure, match=r"^all ranks died, and no host answers by ssh"):
        start(tmp_path, told.append, restarts=3, hosts=three)
    assert not told


def test_another_host_must_see_the_run(attempts, three, tmp_path):
    told = attempts(STARTED + ROOT_LOST + "touch 127.0.0.1")
    message = "rank 0 was lost, and 127.0.0.2 cannot see .*: use a folder that all hosts share"
    with pytest.raises(StoppedByFailure, match=message):
        start(tmp_path, told.append, restarts=3, hosts=three)
    assert not told


@pytest.mark.parametrize(
    "before, is_recorded, left, after",
    [
        ("train a.toml --ranks 3", True, [], "resume RUN"),
        ("train a.toml --ranks 3", False, [], "train a.toml --ranks 3 --ranks 2"),
        ("train a.toml", False, [], "train a.toml"),
        ("resume RUN --ranks=3", True, [], "resume RUN --ranks=3 --ranks 2"),
        ("resume RUN --rounds 9", True, [], "resume RUN --rounds 9"),
        ("train a.toml", False, [Host("a", 2)], "train a.toml --hosts a:2 --ranks 2"),
        ("resume RUN", True, [Host("a", 2)], "resume RUN --hosts a:2 --ranks 2"),
    ],
)
def test_the_arguments_of_a_restart(tmp_path, before, is_recorded, left, after):
    words = before.replace("RUN", str(tmp_path)).split()
    job = supervision.Job(arguments=words, num_ranks=2, folder=tmp_path)
    expected = after.replace("RUN", str(tmp_path)).split()
    assert supervision.restart_arguments(job, left, is_recorded) == expected


def test_a_restart_trusts_the_code_that_the_job_has_named(tmp_path):
    job = supervision.Job(arguments=["train", "a.toml"], num_ranks=2, folder=tmp_path, trust=True)
    words = supervision.restart_arguments(job, [], is_recorded=True)
    assert words == ["resume", str(tmp_path), "--trust"]
    assert resumed(job).arguments == words


def test_a_restart_without_hosts_uses_as_many_ranks_as_are_left(attempts, tmp_path, tiny):
    record(tmp_path / "run", tiny, ranks=1)
    told = attempts(ALL_DIED, SUCCESS)
    assert start(tmp_path, told.append, restarts=3) == 0
    assert told[0].endswith("restarting the run from its newest checkpoint (restart 1 of 3)")
    assert calls(tmp_path)[1] == f"resume {tmp_path / 'run'}"
    assert " -n 1 " in (tmp_path / "calls").read_text().splitlines()[1]
