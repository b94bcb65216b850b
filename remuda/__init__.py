"""Train GANs as a herd.

folder = remuda.run(remuda.recipe("class-parallel-digits"))
images = remuda.load(folder).sample(16, labels=3)
"""

__version__ = "0.1.0"

from remuda.config import RunConfig
from remuda.errors import UserError
from remuda.model.model import Model, load
from remuda.model.scoring import score
from remuda.recipes import recipe
from remuda.training.run import resume, run

__all__ = ["Model", "RunConfig", "UserError", "load", "recipe", "resume", "run", "score"]
