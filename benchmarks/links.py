"""Compare the predicted and the measured time of MD-GAN over links of a limited rate.

    python benchmarks/links.py [--rate 100mbit] [--batch 100] [--steps 2] [--rounds 40]
                               [--swap-every 0 1]

The script makes three hosts from network namespaces, so it needs root on Linux. It trains the
recipe md-gan-mnist-mlp on them, and needs the files of MNIST. Every three rounds, it limits the
links of all hosts to the rate, or removes the limits again. A busy machine changes its speed within
minutes, which affects both kinds of rounds.

The script prints median times per iteration: without limits, with limits, and the prediction for
the limited links. The prediction adds the time of the messages to the time without limits in the
same run; `remuda scaling --link RATE` starts from separate runs on one host instead.

The goal is a ratio (predicted divided by measured) between 0.8 and 1.2. With
swaps, workers swap discriminators at the end of every round of --steps iterations.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.hosts.links import compare
from tests.hosts.network import Network, why_impossible


def main() -> None:
    """Print a table with a row without swaps, and one with swaps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", default="100mbit")
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--swap-every", type=int, nargs="+", default=[0, 1])
    options = parser.parse_args()
    if reason := why_impossible():
        sys.exit(reason)
    names = "ms per iteration", "predicted", options.rate, "ratio"
    print(f"{'swap_every':10} {' '.join(f'{name:>16}' for name in names)}", flush=True)
    with tempfile.TemporaryDirectory() as place, Network(3, Path(place)) as network:
        for swap_every in options.swap_every:
            settings = (
                f"strategy.batch_size={options.batch}",
                f"strategy.steps_per_round={options.steps}",
                f"strategy.swap_every={swap_every}",
                f"run.rounds={options.rounds}",
            )
            folder = Path(place) / f"swap-{swap_every}"
            found = compare(network, folder, "md-gan-mnist-mlp", options.rate, *settings)
            network.reset()
            times = found.free, found.predicted, found.limited
            cells = [f"{1e3 * seconds / options.steps:16.0f}" for seconds in times]
            ratio = found.predicted / found.limited
            print(f"{swap_every:10} {' '.join(cells)} {ratio:16.2f}", flush=True)


if __name__ == "__main__":
    main()
