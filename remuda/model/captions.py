"""Write the names of rows next to a grid of images."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

WIDEST = 120  # pixels; longer names are shortened
GAP = 3  # pixels to the left and to the right of a name
LONGEST = 200  # characters that are measured at all


def captioned(grid: Image.Image, names: Sequence[str], font_size: int) -> Image.Image:
    """Return a grid whose rows have equal heights, with the name of each row to its left."""
    font = _font(font_size)
    texts = [_shortened(name, font) for name in names]
    width = max(round(font.getlength(text)) for text in texts) + 2 * GAP
    white = 255 if grid.mode == "L" else (255,) * len(grid.getbands())
    black = 0 if grid.mode == "L" else (0, 0, 0, 255)[: len(grid.getbands())]
    whole = Image.new(grid.mode, (width + grid.width, grid.height), white)
    whole.paste(grid, (width, 0))
    pen = ImageDraw.Draw(whole)
    for i, text in enumerate(texts):
        middle = (i + 0.5) * grid.height / len(texts)
        pen.text((width - GAP, middle), text, fill=black, font=font, anchor="rm")
    return whole


@cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    from matplotlib import get_data_path  # it brings a font that knows many scripts

    path = Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    return ImageFont.truetype(str(path), size)


def _shortened(name: str, font: ImageFont.FreeTypeFont) -> str:
    """Return a name that fits; replace characters that cannot be drawn, such as line breaks."""
    text = "".join(char if char.isprintable() else " " for char in name[:LONGEST])
    if font.getlength(text) <= WIDEST and len(name) <= LONGEST:
        return text
    while text and font.getlength(f"{text}…") > WIDEST:
        text = text[:-1]
    return f"{text.rstrip()}…"
