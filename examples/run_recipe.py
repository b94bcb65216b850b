"""Train a recipe, load its model, draw samples and save a picture.

Usage: python examples/run_recipe.py [OUT]
"""

import sys
from pathlib import Path

import remuda
from remuda.record import next_folder

out = Path(sys.argv[1] if len(sys.argv) > 1 else "runs")
config = remuda.recipe(
    "class-parallel-digits", "run.rounds=5", "strategy.steps_per_round=20", "engine.device=cpu"
)
folder = remuda.run(config, next_folder("example", out))

model = remuda.load(folder)
images = model.sample(16, labels="3")  # (16, 1, 8, 8) uint8
print(f"round {model.round}: {tuple(images.shape)} {images.dtype}")

picture = folder / "threes.png"
remuda.save_grid(images, 8, picture)
print(f"picture: {picture}")
print(f"page:    {folder / 'index.html'}")
