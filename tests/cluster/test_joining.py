"""Test how new ranks join a running run, with a stand-in for mpirun."""

import json
import os
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from remuda.cluster import joining, latecomers, mpirun, supervision
from remuda.cluster.hosts import Host, parse
from remuda.cluster.joining import Joining, Request
from remuda.config import from_dict, override
from remuda.errors import Interrupted, UserError
from remuda.record import DataFacts, Record
from tests.cli.test_cli import in_process

FACTS = DataFacts(name="toy", shape=(1, 8, 8), classes=["a", "b"], counts=[9, 9])

# The first start trains until it is signalled. What later starts do depends on the test.
MPIRUN = r"""#!/bin/sh
test "$1" = --version && echo "mpirun (Open MPI) 4.1.2" && exit
cd {folder}
while [ "$1" != remuda.cluster.rank ]; do shift; done
shift
echo "$@" >> ../calls
number=$(wc -l < ../calls)
printf '\002\n' >&2
if [ $number -gt 1 ]; then
{later}
fi
end() {{
    trap '' USR1
    {on_signal}
    echo "stopped after round 3; resume with: remuda resume" >&2
    printf '\022\n' >&2
    exit 130
}}
trap end USR1
cp ../status-$number.json status.json
while :; do sleep 0.05; done
"""
JOINED = r"sed -i 's/^members = 2/members = 4/' config.toml; printf '\016\n' >&2; exit"
FAILED = r"""if [ $number -eq 2 ]; then echo "no images" >&2; printf '\020\n' >&2; exit 2; fi
printf '\016\n' >&2; exit"""


def status(state="running", pid=1, doing="processing", num_ranks=2):
    ranks = [
        {"rank": rank, "host": "elsewhere", "pid": pid, "born": 5, "device": "cpu",
         "members": [rank], "state": doing, "round": 3, "silent": 0, "contact": "on time",
         "remark": "", "speed": None}
        for rank in range(num_ranks)
    ]  # fmt: skip
    now = datetime.now(UTC).isoformat()
    return json.dumps({"state": state, "why": "", "time": now, "rounds": 9, "ranks": ranks})


@pytest.fixture
def run(tmp_path, tiny):
    """Return a function that records a run of two members on two ranks, which trains now."""

    def make(*settings, engine="mpi"):
        place = {"name": engine, "ranks": 2} if engine == "mpi" else {"name": engine}
        values = {**tiny, "engine": place, "data": {"name": "digits"}}
        values["run"] = {**tiny["run"], "members": 2}
        values["strategy"] = {**tiny["strategy"], "name": "md-gan"}
        config = from_dict(override(values, [*settings]))
        record = Record.create(tmp_path / "run", config, FACTS)
        record.add_round(
            {"round": 3, "seconds": 1.0, "images": 4, "images_per_second": 4.0, "bytes": 0}
        )
        (record.folder / "status.json").write_text(status())
        for number in (1, 2, 3):
            (tmp_path / f"status-{number}.json").write_text(status(pid=100 + number))
        return record.folder

    return make


def start(folder, monkeypatch, later, on_signal=":", **settings):
    """Supervise a job and return its status, messages and the commands of the ranks."""
    words = ["resume", str(folder), "--rounds", "9"]
    path, told = folder.parent / "mpirun", []
    script = MPIRUN.format(folder=folder, later=later, on_signal=on_signal)
    path.write_text(script)
    path.chmod(0o755)
    monkeypatch.setattr(mpirun, "find", lambda: str(path))
    monkeypatch.setattr(joining, "INTERVAL", 0.05)
    job = supervision.Job(arguments=words, num_ranks=2, folder=folder, timeout=2.0, **settings)
    try:
        code = supervision.start(job, told.append)
    finally:
        calls = (folder.parent / "calls").read_text().splitlines()
    return code, told, calls


def request(folder, **changes):
    """Ask for two ranks as soon as the launcher watches the folder."""
    values = {"id": "7", "hosts": "", "ranks": 2, "members": 4, **changes}
    asked = Request(**values)

    def submit():
        while not (folder.parent / "calls").exists():
            time.sleep(0.02)
        joining.submit(folder, asked)

    threading.Thread(target=submit, daemon=True).start()
    return asked


def test_the_run_restarts_with_the_new_ranks(run, monkeypatch, capfd):
    """A planned restart works without --restarts, and the user does not read that the run stops."""
    folder = run()
    asked = request(folder)
    code, told, calls = start(folder, monkeypatch, JOINED, restarts=0)
    assert code == 0 and told == ["2 ranks join: restarting from round 3 with 4 members"]
    assert calls == [
        f"resume {folder} --rounds 9",
        f"resume {folder} --ranks 4 --members 4",
    ]
    assert "stopped" not in capfd.readouterr().err
    assert joining.refusal(folder, asked) is None and not list(folder.glob("join*"))


def test_a_run_without_hosts_gets_some(run, monkeypatch):
    folder = run()
    monkeypatch.setattr("remuda.cluster.job.socket.gethostname", lambda: "here")
    monkeypatch.setattr("remuda.cluster.hosts.complaint", lambda name: "")
    request(folder, hosts="c:2")
    code, told, calls = start(folder, monkeypatch, JOINED)
    assert code == 0
    assert told == ["2 ranks on c join: restarting from round 3 with 4 members"]
    assert calls[1] == f"resume {folder} --ranks 4 --members 4 --hosts here:2,c:2"


def test_the_old_ranks_continue_if_the_new_ones_fail(run, monkeypatch, capfd):
    folder = run()
    asked = request(folder)
    code, told, calls = start(folder, monkeypatch, FAILED, restarts=0)
    assert code == 0 and told[1:] == ["the new ranks could not start; continuing without them"]
    assert calls[2] == f"resume {folder}" and "no images" in capfd.readouterr().err
    assert joining.refusal(folder, asked) == ("2 ranks could not start: see the output of the run")


def test_new_ranks_are_forgotten_if_the_run_is_stopped(run, monkeypatch):
    """Ctrl-C arrives after the launcher has asked the ranks to stop."""
    folder = run()
    asked = request(folder)
    with pytest.raises(Interrupted, match=r"^stopped; resume with: remuda resume"):
        start(folder, monkeypatch, JOINED, on_signal="kill -INT $PPID; sleep 0.2")
    assert len((folder.parent / "calls").read_text().splitlines()) == 1
    assert joining.refusal(folder, asked) == f"{folder} has ended"


def test_a_host_that_the_launcher_cannot_reach_is_refused(run, monkeypatch):
    """The run is not disturbed."""
    folder = run()
    monkeypatch.setattr("remuda.cluster.hosts.complaint", lambda name: "no route")
    asked = request(folder, hosts="c:2")
    threading.Timer(1.0, os.kill, (os.getpid(), 2)).start()
    code, told, calls = start(folder, monkeypatch, JOINED)
    assert code == 130 and not told and len(calls) == 1
    assert "c does not answer by ssh (no route)" in (joining.refusal(folder, asked) or "")


def test_signals_wait_until_the_ranks_train(run, monkeypatch):
    """Ranks that start would be killed; the status may be that of an earlier start."""
    folder = run()
    job = supervision.Job(arguments=["resume"], num_ranks=2, folder=folder)
    monkeypatch.setattr(joining, "INTERVAL", 0.0)
    monkeypatch.setattr(mpirun, "command", lambda *_: [])

    class Fake:
        is_replaced = False

        def stop_for_restart(self):
            self.is_replaced = True

    watcher, launcher = Joining(job), Fake()
    watcher.follow()
    joining.submit(folder, Request(id="1", hosts="", ranks=2, members=4))
    watcher.poll(job, launcher)  # type: ignore[arg-type]
    assert watcher.waiting is not None and not launcher.is_replaced
    (folder / "status.json").write_text(status(pid=2, doing="inactive"))
    watcher.poll(job, launcher)  # type: ignore[arg-type]
    assert not launcher.is_replaced
    second = Request(id="2", hosts="", ranks=1, members=5)
    joining.submit(folder, second)
    watcher.poll(job, launcher)  # type: ignore[arg-type]
    assert "other ranks are joining" in (joining.refusal(folder, second) or "")
    (folder / "status.json").write_text(status(pid=2))
    watcher.poll(job, launcher)  # type: ignore[arg-type]
    assert launcher.is_replaced


def test_requests_do_not_replace_each_other(run):
    folder = run()
    first = Request(id="1", hosts="", ranks=1, members=3)
    joining.submit(folder, first)
    with pytest.raises(UserError, match="another `remuda join` waits"):
        joining.submit(folder, Request(id="2", hosts="", ranks=1, members=3))
    assert joining.take(folder) == first and joining.take(folder) is None
    joining.submit(folder, first)
    os.utime(folder / joining.REQUEST, (1, 1))  # left behind long ago
    joining.submit(folder, Request(id="3", hosts="", ranks=1, members=3))
    (folder / joining.ANSWER).touch()
    Joining(supervision.Job(arguments=[], num_ranks=2, folder=folder))
    assert not list(folder.glob("join*")) and not list(folder.glob(".join*"))
    (folder / joining.REQUEST).write_text('{"unknown": 1}')
    assert joining.take(folder) is None and not (folder / joining.REQUEST).exists()


# The command


def refused(*words):
    status, said = in_process("join", *words)
    assert status == 2 and len(said.strip().splitlines()) == 1, said
    return said


def test_a_run_without_a_launcher_is_explained(run, monkeypatch):
    folder = run()
    monkeypatch.setattr(latecomers, "TAKE_TIMEOUT", 0.3)
    said = refused(folder, "--ranks", 1)
    assert "no launcher answers" in said and "`kill -USR1 1` on elsewhere" in said
    assert f"remuda resume {folder} --ranks 3 --members 3" in said
    assert not list(folder.glob("join*"))


def test_a_launcher_that_does_not_train_leaves_requests_alone(run):
    folder = run()
    joining.submit(folder, Request(id="7", hosts="", ranks=2, members=4))
    job = supervision.Job(arguments=[], num_ranks=2, folder=folder, trains=False)
    watcher = Joining(job)
    watcher.poll(job, None)
    watcher.close()
    assert (folder / "join.json").exists()
    Joining(replace(job, trains=True))
    assert not (folder / "join.json").exists()


def test_the_command_reports_a_refusal(run, monkeypatch):
    folder = run()
    watcher = Joining(supervision.Job(arguments=[], num_ranks=2, folder=folder))

    def refuse():
        while (asked := joining.take(folder)) is None:
            time.sleep(0.02)
        watcher.refuse(asked, "the moon is full")

    threading.Thread(target=refuse, daemon=True).start()
    assert "the moon is full" in refused(folder, "--ranks", 1)
    assert not list(folder.glob("join*"))
    monkeypatch.setattr(latecomers, "JOIN_TIMEOUT", 0.3)
    threading.Timer(0.5, joining.take, (folder,)).start()
    assert "has not continued within 0.3 s" in refused(folder, "--ranks", 1)


@pytest.mark.parametrize(
    "settings, words, sentence",
    [
        ([], [], "name the hosts of the new ranks with --hosts or"),
        ([], ["--ranks", 1, "--hosts", "c"], "name the hosts of the new ranks with --hosts or"),
        ([], ["--ranks", -1], "name the hosts of the new ranks with --hosts or"),
        ([], ["--ranks", 2, "--members", 3], "has 2 members and would have 4 ranks: use at least"),
        ([], ["--ranks", 1, "--members", 2], "use at least 3"),
        (["engine.hosts=a:1,b:1"], ["--ranks", 1], "runs on a:1,b:1: name the hosts"),
        (["strategy.name=class-parallel"], ["--ranks", 1], "class-parallel with these settings"),
        (["strategy.lose_every=2"], ["--ranks", 1], "md-gan with these settings"),
        ([], ["--hosts", "no-such-host.invalid"], "does not answer by ssh"),
    ],
    ids=str,
)
def test_impossible_requests_are_refused(run, settings, words, sentence):
    folder = run(*settings)
    assert sentence in refused(folder, *words)
    assert not list(folder.glob("join*"))


def test_a_cellular_run_keeps_its_members(run):
    cells = ["strategy.name=cellular", "strategy.height=1", "strategy.width=2"]
    folder = run(*cells, "run.members=0")
    for state in ("running", "stopped"):
        (folder / "status.json").write_text(status(state=state))
        said = refused(folder, "--ranks", 1)
        assert "no members can join" in said and "cellular with these settings" in said


def test_members_may_join_for_classes_that_have_none(run):
    folder = run("strategy.name=class-parallel")
    Record(folder).replace_facts(replace(FACTS, classes=["a", "b", "c"], counts=[9, 9, 9]))
    plan = latecomers.make_plan(folder, [], 1, None)
    latecomers.check_strategy(plan)
    assert plan.members == 3


def test_only_running_runs_can_be_joined(run):
    folder = run()
    (folder / "status.json").write_text(status(state="stopped"))
    said = refused(folder, "--hosts", "c:2")
    assert "is not running (stopped)" in said
    assert f"remuda resume {folder} --hosts elsewhere:2,c:2 --members 4" in said


def test_a_run_in_one_process_has_no_ranks(run):
    folder = run(engine="stacked")
    (folder / "status.json").write_text(status(num_ranks=1))
    said = refused(folder, "--ranks", 1)
    assert "has no ranks: stop the run with `kill -USR1 1` on elsewhere" in said
    assert f"remuda resume {folder} --engine mpi --ranks 2 --members 3" in said


def test_members_stay_with_the_data_of_their_rank(run):
    """Ranks 0 and 1 host members 0-2 and 3-4; only some sizes leave them there."""
    own = ["data.name=folder:/data/{rank}", "engine.hosts=a:1,b:1", "run.members=5"]
    folder = run(*own)

    def check(hosts, members):
        plan = latecomers.make_plan(folder, parse(hosts), 0, members)
        latecomers.check_data(plan)

    check("c:1", 7)  # 3, 2, 2
    check("c:2", 9)
    with pytest.raises(UserError, match=r"with 6 members some would move .*: use --members 7$"):
        check("c:1", None)
    with pytest.raises(UserError, match="would change the numbers of the others: use other hosts"):
        check("a:1", 7)
    check("b:1", 7)  # the last host
    assert latecomers.make_plan(folder, [Host("c", 1)], 0, 7).by_hand.endswith(
        "--hosts a:1,b:1,c:1 --members 7"
    )
    record = Record(folder)
    lost = override(record.settings, ["run.lost=[1]", "run.members=4"])
    record.replace_config(from_dict(lost))
    with pytest.raises(UserError, match="some ranks were lost"):
        check("c:1", 6)
