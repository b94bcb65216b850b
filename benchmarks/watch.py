"""Measure what `remuda watch` costs a run that trains, and how large the page of a long run is.

    python benchmarks/watch.py [--clients 50] [--pairs 20] [--seconds 4] [--threads 2]
                               [--keep FOLDER]
    python benchmarks/watch.py --pairs 0        # only the page

The script trains class-parallel-digits on the CPU, in short rounds. `remuda watch` serves the run,
and --clients clients ask it for new data every 2 s, each with its own connection. Every --seconds
the script stops the server and the clients (SIGSTOP), or lets them continue, in the order off, on,
on, off. It compares the mean duration of the rounds in neighbouring windows, so that slow changes
of the computer's speed cancel out. It prints

    slowdown    median over all pairs of windows, with its quartiles: seconds per round with the
                server, divided by seconds per round without, minus 1
    processor   the same for the run's processor time per round, which other work on the computer
                hardly changes
    server      share of one core that the server used while it served
    answers     number of answers, and their mean size

Then it writes a record of 10,000 rounds and 100 members, and prints the time to read it, the size
of the page, and the time and size of an update.

The clients also run on this computer, which costs a little; both they and the server have the
lowest priority. Run it on a computer that does nothing else: other work makes the quartiles wide.
"""

import argparse
import asyncio
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
INTERVAL = 2.0  # seconds between two requests of a client
REMUDA = [sys.executable, "-m", "remuda"]


def main() -> None:
    """Run both measurements."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of the run")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--poll", type=int, help=argparse.SUPPRESS)  # the process of the clients
    given = parser.parse_args()
    if given.poll:
        asyncio.run(poll(given.poll, given.clients))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        if given.pairs:
            os.environ["OMP_NUM_THREADS"] = str(given.threads)
            measure_run(folder / "runs" / "run", given.clients, given.pairs, given.seconds)
        measure_page(folder / "long")


# A run with and without a server


def measure_run(run: Path, clients: int, pairs: int, seconds: float) -> None:
    """Train, and compare windows with and without the server."""
    settings = ["--set", "strategy.steps_per_round=4", "--set", "engine.device=cpu"]
    settings += ["--set", "run.sample_every=100", "--rounds", "10000000"]
    run.parent.mkdir(parents=True)
    train = start([*REMUDA, "train", "class-parallel-digits", *settings, "--out", str(run)])
    others: list[subprocess.Popen] = []
    try:
        wait_for(lambda: len(lines_of(run)) > 20, "the run does not train")
        server = start([*REMUDA, "watch", str(run.parent), "--port", "0"], subprocess.PIPE)
        others.append(server)
        assert server.stdout is not None
        port = server.stdout.readline().rsplit(":", 1)[1].strip().strip("/")
        poll_command = [sys.executable, __file__, "--poll", port, "--clients", str(clients)]
        polls = start(poll_command, subprocess.PIPE)
        others.append(polls)
        time.sleep(2 * INTERVAL)  # every client has asked once
        walls, cpus, share = windows(run, train, others, pairs, seconds)
        for process in others:
            process.send_signal(signal.SIGCONT)
        polls.send_signal(signal.SIGTERM)
        answers = polls.communicate(timeout=60)[0].strip()
    finally:
        for process in [train, *others]:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.wait(60)
    load = f"{os.cpu_count()} cores, load {os.getloadavg()[1]:.1f}"
    print(f"{clients} clients, {len(walls)} pairs of {seconds:g} s, {load}")
    for name, ratios in (("slowdown", walls), ("processor", cpus)):
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(f"{name:9} {middle - 1:+.2%}, quartiles {low - 1:+.2%} and {high - 1:+.2%}")
    print(f"server    {share:.1%} of a core")
    print(f"answers   {answers}")


def windows(
    run: Path,
    train: subprocess.Popen,
    others: list[subprocess.Popen],
    pairs: int,
    seconds: float,
) -> tuple[list[float], list[float], float]:
    """Compare windows with and without the server.

    Return on / off for every pair: the seconds and the processor time of a round. Also return the
    share of a core that the server used.
    """
    walls, cpus, used, served = [], [], 0.0, 0.0
    for i in range(pairs):
        wall, cpu = {}, {}
        for is_on in (i % 2 == 1, i % 2 == 0):
            for process in others:
                process.send_signal(signal.SIGCONT if is_on else signal.SIGSTOP)
            time.sleep(0.5)  # the round in which the window starts does not count
            begun, before = time.monotonic(), count_lines(run)
            own, server = cpu_seconds(train.pid), cpu_seconds(others[0].pid)
            time.sleep(seconds)
            found, own = lines_of(run, before + 1), cpu_seconds(train.pid) - own
            if not found:
                sys.exit("no round ended in a window: choose more --seconds")
            wall[is_on] = statistics.fmean(line["seconds"] for line in found)
            cpu[is_on] = own / (len(found) + 1)
            if is_on:
                used += cpu_seconds(others[0].pid) - server
                served += time.monotonic() - begun
        walls.append(wall[True] / wall[False])
        cpus.append(cpu[True] / cpu[False])
    return walls, cpus, used / served


def start(command: list[str], stdout: int = subprocess.DEVNULL) -> subprocess.Popen:
    """Start a process in the repository."""
    return subprocess.Popen(command, cwd=ROOT, stdout=stdout, text=True)


def wait_for(is_true, problem: str, seconds: float = 300.0) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            sys.exit(problem)
        time.sleep(0.2)


def count_lines(run: Path) -> int:
    """Return the number of complete rounds."""
    path = run / "rounds.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def lines_of(run: Path, first: int = 0) -> list[dict]:
    """Return the complete lines from number ``first`` on."""
    path = run / "rounds.jsonl"
    if not path.exists():
        return []
    texts = path.read_bytes().split(b"\n")[:-1]
    return [json.loads(text) for text in texts[first:]]


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process so far."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


# Clients


async def poll(port: int, clients: int) -> None:
    """Be many clients until the process is terminated, then print what they received."""
    os.nice(19)
    sizes: list[int] = []
    refused: list[bytes] = []
    loop = asyncio.get_running_loop()
    tasks = [asyncio.create_task(ask(port, i / clients, sizes, refused)) for i in range(clients)]
    loop.add_signal_handler(signal.SIGTERM, lambda: [task.cancel() for task in tasks])
    done = await asyncio.gather(*tasks, return_exceptions=True)
    failed = [error for error in done if not isinstance(error, asyncio.CancelledError)]
    mean = statistics.fmean(sizes) if sizes else 0
    problems = f"{len(refused)} refused {refused[:1]}, {len(failed)} clients failed {failed[:1]}"
    print(f"{len(sizes):,}, {mean:,.0f} bytes each; {problems}")


async def ask(port: int, phase: float, sizes: list[int], refused: list[bytes]) -> None:
    """Be one client: ask every 2 s for what is new, as a page does.

    Search the text instead of parsing it, because clients usually run on other computers.
    """
    await asyncio.sleep(INTERVAL * phase)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    generation, points = "", 0
    while True:
        path = f"/run/run/data?generation={generation}&from={max(0, points - 1)}"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):  # stopped for too long
            refused.append(b"closed")
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            continue
        found = re.search(rb"content-length: (\d+)", head)
        assert found is not None
        body = await reader.readexactly(int(found[1]))
        if not head.startswith(b"HTTP/1.1 200"):
            refused.append(head[:40])
        curves = re.search(rb'"generation":"([^"]*)","from":(\d+),.*?"rounds":\[(.*?)\]', body)
        if curves is not None:
            sizes.append(len(head) + len(body))
            generation = curves[1].decode()
            points = int(curves[2]) + len(curves[3].split(b","))
        await asyncio.sleep(INTERVAL)


# The page of a long run


def measure_page(folder: Path, rounds: int = 10_000, members: int = 100) -> None:
    """Print times and sizes for a record of many rounds and members."""
    sys.path.insert(0, str(ROOT))
    from remuda.reports import page
    from remuda.reports.page.payload import payload
    from remuda.reports.page.run import read
    from tests.reports.page.records import add_rounds, make_record, round_line

    draw = random.Random(0)

    def line(t: int) -> dict:
        names = ("discriminator_loss", "generator_loss")
        return round_line(t, members, **{n: [draw.random() for _ in range(members)] for n in names})

    make_record(folder, members=members, rounds=0, planned=rounds)
    add_rounds(folder, map(line, range(1, rounds)))
    record = (folder / "rounds.jsonl").stat().st_size
    print(f"record of {rounds:,} rounds and {members} members: {record / 1e6:.1f} MB")
    began, cpu = time.perf_counter(), time.process_time()
    run = read(folder)
    whole = json.dumps(payload(run, lambda path: None))
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(f"read in {took:.2f} s ({cpu:.2f} s of a core); data {len(whole) / 1e6:.2f} MB")
    size = page.write(folder).stat().st_size
    print(f"index.html {size / 1e6:.2f} MB")
    add_rounds(folder, [line(rounds)])
    began = time.perf_counter()
    run.refresh()
    update = json.dumps(payload(run, lambda path: None, run.rounds.curves.length - 1))
    print(f"update in {1000 * (time.perf_counter() - began):.1f} ms; {len(update) / 1e3:.1f} kB")


if __name__ == "__main__":
    main()
