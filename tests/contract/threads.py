"""Ranks that are threads of this process, for tests of messages without MPI."""

import queue
import threading
from collections import defaultdict

import torch

from remuda.engines import SingleProcess

PATIENCE = 60  # seconds until a rank that waits for another one fails


class Wires:
    """What the ranks of one job share."""

    def __init__(self, num_ranks):
        self.num_ranks = num_ranks
        self.barrier = threading.Barrier(num_ranks, timeout=PATIENCE)
        self.facts = [None] * num_ranks
        self.messages = defaultdict(queue.Queue)  # by sender, receiver and tag
        self.sent = []  # sender, receiver, number of bytes


class ThreadRank(SingleProcess):
    """One rank of a job whose ranks are threads."""

    def __init__(self, wires, rank):
        super().__init__()
        self.wires, self.rank, self.num_ranks = wires, rank, wires.num_ranks
        self.original_ranks = list(range(wires.num_ranks))

    def all_gather(self, facts):
        self.wires.facts[self.rank] = facts
        self.wires.barrier.wait()
        found = list(self.wires.facts)
        self.wires.barrier.wait()
        return found

    def max_over_ranks(self, number):
        return max(self.all_gather(number))

    def exchange(self, outgoing, incoming, tag):
        for target, buffer in outgoing.items():
            self.wires.messages[self.rank, target, tag].put(buffer.clone())
            self.wires.sent.append((self.rank, target, len(buffer)))
        for source, buffer in incoming.items():
            found = self.wires.messages[source, self.rank, tag].get(timeout=PATIENCE)
            assert found.shape == buffer.shape, "sender and receiver disagree"
            buffer.copy_(found)

    def add(self, parts):
        for numbers in parts:
            numbers.copy_(torch.stack(self.all_gather(numbers.clone())).sum(0))


def run_ranks(num_ranks, work):
    """Run ``work(communicator)`` on every rank; return the results by rank, and the messages."""
    wires, results, errors = Wires(num_ranks), [None] * num_ranks, []

    def run(rank):
        try:
            results[rank] = work(ThreadRank(wires, rank))
        except BaseException as error:
            errors.append(error)
            wires.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(num_ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results, wires.sent
