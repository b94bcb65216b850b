"""Write the training loop yourself, from data, strategy and engine, without a configuration.

Usage: python examples/by_hand.py [OUT]
"""

import sys
from pathlib import Path

import torch

from remuda import Stacked, save_grid
from remuda.data import Batches, DataConfig, load, partition, to_bytes
from remuda.networks import MLP
from remuda.strategies import ClassParallel
from remuda.tensors import random

SEED, ROUNDS = 0, 5
STEPS, BATCH = 20, 32  # steps per round, images per batch

out = Path(sys.argv[1] if len(sys.argv) > 1 else "runs")
config = DataConfig(name="digits", partition="class")
data = load(config)
num_classes = len(data.classes)

networks = MLP(latent=32, hidden=128)
strategy = ClassParallel(
    batch_size=BATCH, steps_per_round=STEPS, generator_lr=1e-3, discriminator_lr=1e-3
)
context = strategy.prepare(networks, data.shape, num_classes, SEED)
engine = Stacked(strategy.num_members(0, num_classes))
shares = partition(data.labels, engine.size, config, num_classes, SEED)
batches = Batches(data, shares, members=engine.members, batch_size=BATCH, seed=SEED)

state = strategy.init(context, engine)
for t in range(1, ROUNDS + 1):
    real = batches.draw((t - 1) * STEPS, STEPS)  # images (members, batches, b, C, H, W)
    state, metrics = strategy.round(context, engine, state, real, t)
    print(f"round {t}", {name: round(float(values.mean()), 3) for name, values in metrics.items()})

labels = torch.arange(num_classes).repeat_interleave(8)
noise = random.normal(torch.tensor(random.key(SEED, "sample")), (len(labels), networks.latent))
images = to_bytes(strategy.generate(context, engine, state, noise, labels))
out.mkdir(parents=True, exist_ok=True)
save_grid(images, 8, out / "by_hand.png")
print(f"picture: {out / 'by_hand.png'}")
