"""Start ranks, watch over them, and restart the run if it loses rank 0 or all ranks."""

import importlib.util
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from remuda.cluster import hosts
from remuda.cluster.hosts import Host
from remuda.cluster.job import Job, in_present_size
from remuda.cluster.joining import Joining
from remuda.cluster.launcher import Launcher
from remuda.engines.mpi.engine import missing
from remuda.errors import Interrupted, StoppedByFailure, UserError, resume_command
from remuda.system.signals import handle_stops
from remuda.system.text import listed

# Signals within this many seconds of the first one count as the same request.
SECOND_SIGNAL_AFTER = 10.0
ATTEMPTS = 3  # how often to try to start the ranks


def start(job: Job, tell: Callable[[str], None], show: Callable[[str], None] | None = None) -> int:
    """Run a job and return its exit status. ``show`` receives rank 0's lines about its progress.

    A stop signal is passed on to every rank, and the run is saved. A second signal, at least ten
    seconds later, ends the ranks immediately.
    """
    if importlib.util.find_spec("mpi4py") is None:
        raise UserError(missing("No module named 'mpi4py'"))
    hosts.check(job.hosts)
    supervisor = Supervisor(job, tell, show)
    previous = handle_stops(supervisor.stop)
    try:
        return supervisor.run()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class Supervisor:
    """Runs a job until it has ended for good."""

    def __init__(
        self, job: Job, tell: Callable[[str], None], show: Callable[[str], None] | None = None
    ):
        self.job, self.tell, self.show = job, tell, show
        self.launcher: Launcher | None = None
        self.stopped_at = 0.0  # when the user first asked to stop
        self.joining = Joining(job)

    def stop(self, *_: object) -> None:
        """Pass a stop signal on to the ranks."""
        self.stopped_at = self.stopped_at or time.monotonic()
        is_second = time.monotonic() - self.stopped_at > SECOND_SIGNAL_AFTER
        if self.launcher is not None:
            self.launcher.process.send_signal(signal.SIGTERM if is_second else signal.SIGUSR1)

    def run(self) -> int:
        """Start the ranks, restart them as often as the job allows, and return the exit status."""
        try:
            return self._run()
        finally:
            self.joining.close()

    def _run(self) -> int:
        num_restarts = 0
        while True:
            launcher, status = self._attempt()
            if launcher.output.ended == 0:
                return 0  # mpirun's status may be that of a lost rank
            if self.stopped_at:
                return self._stopped(launcher, status)
            if self._change_size(launcher):
                continue
            if not has_lost_ranks(launcher) or num_restarts == self.job.restarts:
                return explain(launcher, status, self.job)
            num_restarts += 1
            self._prepare_restart(launcher, num_restarts)

    def _change_size(self, launcher: Launcher) -> bool:
        """Return whether to restart the run with new ranks, or without those that failed."""
        self.job, message = self.joining.next_job(self.job, launcher)
        if message:
            self.tell(message)
        return bool(message)

    def _attempt(self) -> tuple[Launcher, int]:
        """Run the ranks once.

        If a rank dies before MPI has started, all ranks are started again, because nothing else has
        happened yet.
        """
        for attempt in range(ATTEMPTS):
            if attempt:
                self._leave_out_lost_hosts()
                self.tell("MPI did not start on all ranks; starting them again")
            self._check_stop()
            job = self.job
            self.joining.follow()
            launcher = Launcher(job.num_ranks, job.arguments, job.hosts, job.timeout, self.show)
            self.launcher = launcher
            if self.stopped_at:  # meanwhile, and mpirun may have missed the signal
                launcher.end()
            status = launcher.wait(self._poll)
            if not launcher.failed_to_start or self.stopped_at:
                break
        return launcher, status

    def _leave_out_lost_hosts(self) -> None:
        """Start on the hosts that answer by ssh; a host may be lost while MPI starts."""
        job, left = self.job, hosts.living(self.job.hosts)
        if not left or left == list(job.hosts):
            return
        gone = listed([host.name for host in job.hosts if host not in left])
        self.tell(f"continuing without {gone}, which cannot be reached by ssh")
        self.job = replace(
            job,
            arguments=on_hosts(job.arguments, left),
            hosts=left,
            num_ranks=sum(host.slots for host in left),
        )

    def _poll(self) -> None:
        if self.launcher is not None and not self.stopped_at:
            self.joining.poll(self.job, self.launcher)

    def _check_stop(self) -> None:
        """Raise if the user asked to stop while no rank was running."""
        if self.stopped_at:
            raise Interrupted(f"stopped; {next_step(self.job)}")

    def _stopped(self, launcher: Launcher, status: int) -> int:
        if launcher.output.ended is not None and not launcher.is_replaced:
            return launcher.output.ended
        if launcher.is_replaced or not (status and launcher.num_lines):
            # The signal came before the ranks could handle it, so they printed nothing. Or the run
            # was about to restart.
            self._check_stop()
        return status

    def _prepare_restart(self, launcher: Launcher, number: int) -> None:
        """Choose the hosts and arguments of the next attempt, and tell the user."""
        job, why = in_present_size(self.job), cause(launcher)
        left = hosts.living(job.hosts)
        self._check_stop()
        if job.hosts and not left:
            names = listed([host.name for host in job.hosts])
            raise StoppedByFailure(f"{why}, and no host answers by ssh ({names}): {next_step(job)}")
        is_recorded = take_over(job.folder, left)
        if not is_recorded and left and left[0] != job.hosts[0]:
            raise StoppedByFailure(
                f"{why}, and {left[0].name} cannot see {job.folder}: use a folder that all hosts "
                f"share, or resume on {job.hosts[0].name} when it is back"
            )
        self.job = replace(
            job,
            arguments=restart_arguments(job, left, is_recorded),
            hosts=left,
            num_ranks=sum(host.slots for host in left) or job.num_ranks,
        )
        where = f" on {listed([host.name for host in left])}" if left else ""
        start = " from its newest checkpoint" if is_recorded else ""
        self.tell(f"{why}; restarting the run{start}{where} (restart {number} of {job.restarts})")


def take_over(folder: Path, left: Sequence[Host]) -> bool:
    """Return whether the run is recorded. If so, take it over from a rank 0 that may still run.

    That process ends when it finds that its lock was removed.
    """
    path = shlex.quote(str(folder.absolute()))
    command = f"test -e {path}/config.toml && rm -f {path}/.lock"
    words = hosts.on_host(left[0].name, command) if left else ["sh", "-c", command]
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=hosts.ANSWER_TIMEOUT,
            start_new_session=True,  # ssh must not receive Ctrl-C
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def has_lost_ranks(launcher: Launcher) -> bool:
    """Return whether a job ended because it lost rank 0, a host or all ranks."""
    output = launcher.output
    if launcher.failed_to_start:
        return False
    if output.lost_daemons:  # mpirun has ended the ranks, which may call that an interruption
        return output.ended not in (0, UserError.status)
    if not (output.mpi_started or output.deaths):
        return False
    return output.ended in (None, StoppedByFailure.status)


def restart_arguments(job: Job, left: Sequence[Host], is_recorded: bool) -> list[str]:
    """Return the arguments that continue the job of a train or resume command.

    If both an old and a new value of an option are given, the new one counts.
    """
    arguments = job.arguments
    if arguments[0] == "train" and is_recorded:
        arguments = job.resume_arguments
    arguments = on_hosts(arguments, left)
    if not left and any(word.partition("=")[0] == "--ranks" for word in arguments):
        return [*arguments, "--ranks", str(job.num_ranks)]  # the run may have lost some
    return arguments


def on_hosts(arguments: list[str], left: Sequence[Host]) -> list[str]:
    """Return the arguments of a command that runs on these hosts."""
    if not left:
        return arguments
    number = sum(host.slots for host in left)
    return [*arguments, "--hosts", hosts.describe(left), "--ranks", str(number)]


def cause(launcher: Launcher) -> str:
    """Return a clause that says why a job has ended."""
    output = launcher.output
    if output.lost_daemons:
        return f"mpirun lost contact with {listed(output.lost_daemons)}"
    if output.deaths:
        rank, host, number = output.deaths[0]
        name = signal.strsignal(int(number))
        return f"rank {rank} on {host} was ended by signal {number} ({name})"
    if output.root_lost:
        return "rank 0 was lost"
    if launcher.is_silent:
        return "rank 0 gave no sign of life"
    if output.ended is not None:
        return "ranks were lost"
    return "all ranks died"


def explain(launcher: Launcher, status: int, job: Job) -> int:
    """Return the exit status of a failed job. Raise if the ranks have not explained the failure."""
    if launcher.failed_to_start:
        raise UserError(
            f"MPI did not start on all ranks, {ATTEMPTS} times: run `remuda doctor` to find out why"
        )
    output, is_lost = launcher.output, has_lost_ranks(launcher)
    if output.ended is not None and not (is_lost and output.lost_daemons):
        return output.ended
    if output.deaths and not output.lost_daemons:
        raise StoppedByFailure(f"{cause(launcher)}, and mpirun ended all others: {next_step(job)}")
    # One of the ranks that notice the loss of rank 0 tells the user, unless it is lost as well.
    if output.root_lost and launcher.num_lines:
        return StoppedByFailure.status
    if is_lost:
        raise StoppedByFailure(f"{cause(launcher)}: {next_step(job)}")
    if not launcher.num_lines:
        raise UserError(
            f"the ranks exited with status {status} and without an error message: {next_step(job)}"
        )
    return status


def next_step(job: Job) -> str:
    """Tell the user what to do after the ranks have ended unexpectedly."""
    if not job.trains:
        return "start the command again"
    if (job.folder / "config.toml").exists():
        return f"resume with: {resume_command(job.folder)}"
    return "start the run again"
