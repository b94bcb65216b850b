"""Train GANs as a herd.

folder = remuda.run(remuda.recipe("class-parallel-digits"))
images = remuda.load(folder).sample(16, labels=3)
"""

__version__ = "0.1.0"

from remuda.config import RunConfig
from remuda.errors import UserError
from remuda.model import Model, load
from remuda.recipes import recipe
from remuda.run import resume, run
from remuda.scoring import score

__all__ = ["Model", "RunConfig", "UserError", "load", "recipe", "resume", "run", "score"]
