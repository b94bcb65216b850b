"""Compute the traffic of MD-GAN and FL-GAN: tables II to IV and figure 2 of the MD-GAN paper.

print_tables(setting_of(recipe("md-gan-digits")), Console())
"""

from remuda.experiments.traffic.configured import setting_for, setting_of
from remuda.experiments.traffic.figure import crossing_batch, draw
from remuda.experiments.traffic.setting import Messages, Setting, fl_gan, md_gan
from remuda.experiments.traffic.tables import (
    communications,
    complexities,
    describe,
    print_tables,
    totals,
)

__all__ = [
    "Messages",
    "Setting",
    "communications",
    "complexities",
    "crossing_batch",
    "describe",
    "draw",
    "fl_gan",
    "md_gan",
    "print_tables",
    "setting_for",
    "setting_of",
    "totals",
]
