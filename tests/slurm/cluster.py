"""Run a private Slurm on this machine, with several nodes and its own configuration and ports."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

NODES = ("n1", "n2", "n3")
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "scancel", "srun")
PATIENCE = 150  # seconds; most jobs take a few, and Slurm checks time limits twice a minute
INTERVAL = 0.1  # seconds between two looks at a job

# Every node has more cores than this machine may have. Slurm counts cores, but binds nothing. A
# requeued job waits until its old credential has expired.
CONFIGURATION = """
ClusterName=remuda
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
TmpFS={folder}/tmp-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=5
KillWait=10
SchedulerParameters=sched_interval=2,bf_interval=2
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
PartitionName=all Nodes={names} Default=YES MaxTime=INFINITE State=UP
"""
NODE = "NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=4\n"


def missing():
    """Return why this machine cannot run a private Slurm, or an empty text."""
    if os.geteuid() != 0:
        return "a private Slurm needs root"
    absent = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    return f"Slurm's {absent[0]} is not installed" if absent else ""


class Cluster:
    """A Slurm controller and its nodes, as processes of this machine."""

    def __init__(self):
        # Paths of sockets must be short, so do not use pytest's folders.
        self.folder = Path(tempfile.mkdtemp(prefix="remuda-slurm-"))
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SLURM")},
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "PATH": PATH,
        }
        self.daemons = {}

    def start(self):
        """Start all daemons and wait until the nodes are ready."""
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        (self.folder / "state").mkdir()
        for name in NODES:
            (self.folder / f"tmp-{name}").mkdir()
        ports = free_ports(1 + len(NODES))
        text = CONFIGURATION.format(folder=self.folder, ports=ports, names=",".join(NODES))
        nodes = [
            NODE.format(name=name, port=port) for name, port in zip(NODES, ports[1:], strict=True)
        ]
        # Slurm wants to know the nodes before their partition.
        (self.folder / "slurm.conf").write_text("".join(nodes) + text)
        files = {"socket": "munge.socket", "key-file": "munge.key", "pid-file": "munged.pid"}
        files |= {"seed-file": "munge.seed", "log-file": "munged.log"}
        options = [f"--{option}={self.folder / name}" for option, name in files.items()]
        self._start("munged", "munged", "--foreground", "--force", *options)
        self._wait(lambda: (self.folder / "munge.socket").exists(), "munged does not start")
        self._start("slurmctld", "slurmctld", "-D")
        self.power_on(*NODES)

    def power_on(self, *nodes):
        """Start the daemons of nodes and wait until all nodes are ready."""
        for node in nodes:
            self._start(node, "slurmd", "-D", "-N", node)
        states = ("sinfo", "--noheader", "--Node", "--format=%T")
        self._wait(lambda: set(self.run(*states).split()) == {"idle"}, "Slurm does not start")

    def power_off(self, node):
        """Kill all processes of a node at once, as when it loses its power."""
        daemon, tasks = self.daemons.pop(node), self.processes(f"SLURMD_NODENAME={node}")
        for pid in [daemon.pid, *step_managers(tasks), *tasks]:
            kill(pid)
        daemon.wait()

    def _start(self, name, *command):
        self.daemons[name] = subprocess.Popen(
            command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def _wait(self, is_time, problem):
        end = time.monotonic() + PATIENCE
        while not is_time():
            assert time.monotonic() < end, f"{problem}: {self.logs()}"
            time.sleep(INTERVAL)

    def logs(self):
        """Return the last lines of all daemons' logs."""
        paths = sorted(self.folder.glob("*.log"))
        return "\n".join(f"{path.name}:\n{path.read_text()[-2000:]}" for path in paths)

    def run(self, *command):
        """Run a command of Slurm and return its output."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        return done.stdout

    def has_pmix(self):
        """Return whether srun can start ranks."""
        command = ("srun", "--mpi=pmix", "true")
        return subprocess.run(command, env=self.environment, capture_output=True).returncode == 0

    def processes(self, setting):
        """Return the processes of jobs whose environment has a variable that starts like this."""
        mark = f"SLURM_CONF={self.environment['SLURM_CONF']}".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                settings = (path / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if mark in settings and any(word.startswith(setting.encode()) for word in settings):
                found.append(int(path.name))
        return found

    def stop(self):
        """End all jobs and daemons, and remove all files."""
        tasks = self.processes("SLURMD_NODENAME=")
        for pid in [*step_managers(tasks), *tasks]:
            kill(pid)
        for daemon in self.daemons.values():
            daemon.terminate()
        for daemon in self.daemons.values():
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Job:
    """A batch job of a private Slurm, with a run in its working folder."""

    def __init__(self, cluster, script, folder, environment=None):
        self.cluster, self.folder = cluster, folder
        done = subprocess.run(
            ["sbatch", "--parsable"], input=script, text=True, capture_output=True, cwd=folder,
            env={**cluster.environment, **(environment or {})},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        self.id = done.stdout.strip()

    def facts(self):
        """Return what Slurm knows about the job, such as JobState and Restarts."""
        text = self.cluster.run("scontrol", "show", "job", "--oneliner", self.id)
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    @property
    def num_restarts(self):
        return int(self.facts()["Restarts"])

    def wait(self, is_time):
        """Wait until a condition holds."""
        end = time.monotonic() + PATIENCE
        while not is_time():
            assert time.monotonic() < end, f"{self.facts()}\n{self.log}\n{self.cluster.logs()}"
            time.sleep(INTERVAL)

    def end(self):
        """Wait for the end of the job and return its state and exit status."""
        self.wait(lambda: self.facts()["JobState"] not in ("PENDING", "RUNNING", "COMPLETING"))
        facts = self.facts()
        return facts["JobState"], int(facts["ExitCode"].split(":")[0])

    @property
    def log(self):
        return "".join(path.read_text() for path in self.folder.glob("*.log"))

    def ranks(self):
        """Return the process number of each rank."""
        found = {}
        for pid in self.cluster.processes(f"SLURM_JOB_ID={self.id}"):
            try:
                settings = Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
            except OSError:
                continue
            pairs = dict(word.split("=", 1) for word in settings if "=" in word)
            name = "OMPI_COMM_WORLD_RANK" if "OMPI_COMM_WORLD_RANK" in pairs else "PMIX_RANK"
            if name in pairs:
                found[int(pairs[name])] = pid
        return found


def free_ports(number):
    """Return ports that no process uses at the moment."""
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def step_managers(pids):
    """Return the slurmstepd processes that started these processes."""
    found = set()
    for pid in pids:
        with suppress(OSError):
            # The fields after the name in parentheses are the state and the parent's number.
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            if Path(f"/proc/{parent}/comm").read_text().strip() == "slurmstepd":
                found.add(parent)
    return found


def kill(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
