"""Score samples on three ranks, and print how many bytes each site sent."""

import json
import sys
from pathlib import Path

import torch

from remuda.cluster import launch
from remuda.config import EngineConfig
from remuda.data import DataConfig
from remuda.engines.mpi.communicator import MPICommunicator
from remuda.scores.config import ScoreConfig
from remuda.scores.evaluator import Evaluator
from remuda.scores.sites import Sites, Source

CPU = torch.device("cpu")


def main(folder: Path) -> None:
    sent, other = [], []
    exchange, all_gather = MPICommunicator.exchange, MPICommunicator.all_gather

    def counted(self, outgoing, incoming, tag):
        sent.extend(len(buffer) for buffer in outgoing.values())
        return exchange(self, outgoing, incoming, tag)

    def counted_gather(self, facts):
        other.append(len(json.dumps(facts)))
        return all_gather(self, facts)

    MPICommunicator.exchange, MPICommunicator.all_gather = counted, counted_gather
    with launch.join(EngineConfig(name="mpi", ranks=3)) as communicator:
        sent.clear()
        other.clear()
        config = ScoreConfig(kinds="fid,kid,manifold", samples=60)
        data = DataConfig(name=f"folder:{folder}/site-{communicator.rank}")
        sources = [Source(communicator.rank, "here", data)]
        sites = Sites(communicator, sources, config, CPU, lambda text: None)
        if not communicator.is_root:
            sites.serve()
            width = sites.references[0][0].gaussian.width
            facts = {"sent": sum(sent), "counted": sites.sent, "other": sum(other), "width": width}
            print(json.dumps(facts), flush=True)
            return
        evaluator = Evaluator(data, config, CPU, num_labels=0, sites=sites)
        images = torch.randint(256, (60, 1, 8, 8), dtype=torch.uint8)
        evaluator.score(images, None, 0)
        communicator.dismiss()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
