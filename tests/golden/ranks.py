"""Train the given cases, one after the other, on the ranks of a job.

python -m mpi4py -m tests.golden.ranks FOLDER CASE...
"""

import sys
from pathlib import Path

from remuda.reports import page
from tests.golden.cases import run_on_ranks

if __name__ == "__main__":
    page.write = lambda folder: folder  # drawing a page takes longer than training
    for name in sys.argv[2:]:
        run_on_ranks(name, Path(sys.argv[1]) / name)
