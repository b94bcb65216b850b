"""Draw who sends what to whom in every strategy, as SVG files in ``docs/pictures``.

Usage: python docs/diagrams.py
"""

from collections.abc import Callable
from html import escape
from pathlib import Path

PICTURES = Path(__file__).parent / "pictures"
WIDTH = 720
STYLE = """
  .card { fill: #ffffff; stroke: #d0d7de; }
  .place { fill: #f3f5f8; stroke: #8b95a3; }
  .near { fill: #dbe7ff; stroke: #2f62c9; }
  .images { fill: #0f766e; }
  .generator { fill: #2456c4; }
  .discriminator { fill: #a8480b; }
  .mean { fill: #6b3fa0; }
  .line { fill: none; stroke: #38424f; stroke-width: 1.6; }
  .rare { stroke-dasharray: 6 4; }
  .head { fill: #38424f; }
  text { fill: #1b222c; font: 14px system-ui, "DejaVu Sans", sans-serif; }
  .note { fill: #4d5765; font-size: 13px; }
  .light { fill: #ffffff; font-weight: 600; }
  @media (prefers-color-scheme: dark) {
    .card { fill: #161b22; stroke: #3a424d; }
    .place { fill: #222a34; stroke: #7d8794; }
    .near { fill: #1d3157; stroke: #7aa2f0; }
    .line { stroke: #c3ccd7; }
    .head { fill: #c3ccd7; }
    text { fill: #e8edf3; }
    .note { fill: #b3bdc9; }
    .light { fill: #ffffff; }
  }
"""


class Drawing:
    """Collect the shapes of one SVG file. Positions are pixels from the upper left corner."""

    def __init__(self, title: str, about: str, height: int):
        self.title, self.about, self.height = title, about, height
        self.shapes: list[str] = []

    def rectangle(self, kind: str, x: int, y: int, width: int, height: int, round: int = 8) -> None:
        self.shapes.append(
            f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{round}"/>'
        )

    def text(self, x: int, y: int, words: str, kind: str = "", anchor: str = "middle") -> None:
        name = f' class="{kind}"' if kind else ""
        words = escape(words)
        self.shapes.append(f'<text{name} x="{x}" y="{y}" text-anchor="{anchor}">{words}</text>')

    def note(self, x: int, y: int, words: str, anchor: str = "middle") -> None:
        self.text(x, y, words, "note", anchor)

    def chip(self, kind: str, x: int, y: int, words: str, width: int = 52, index: str = "") -> None:
        """Draw a network or a set of images, as a coloured box with a name."""
        self.rectangle(kind, x, y, width, 30, 15 if kind == "images" else 5)
        lowered = f'<tspan dy="3" font-size="10">{index}</tspan>' if index else ""
        self.shapes.append(
            f'<text class="light" x="{x + width // 2}" y="{y + 20}" text-anchor="middle">'
            f"{escape(words)}{lowered}</text>"
        )

    def arrow(self, *points: tuple[int, int], rare: bool = False, both: bool = False) -> None:
        """Draw a message; a dashed arrow stands for messages that are sent rarely."""
        path = "M" + " L".join(f"{x} {y}" for x, y in points)
        start = ' marker-start="url(#head)"' if both else ""
        kind = "line rare" if rare else "line"
        self.shapes.append(f'<path class="{kind}" d="{path}"{start} marker-end="url(#head)"/>')

    def svg(self) -> str:
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" '
            f'width="{WIDTH}" height="{self.height}" role="img" aria-labelledby="title about">',
            f'<title id="title">{escape(self.title)}</title>',
            f'<desc id="about">{escape(self.about)}</desc>',
            f"<style>{STYLE}</style>",
            '<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
            'markerHeight="8" orient="auto-start-reverse">'
            '<path class="head" d="M0 1 L10 5 L0 9 z"/></marker>',
            f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{self.height - 1}" '
            'rx="10"/>',
            *self.shapes,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"


def member(drawing: Drawing, x: int, y: int, name: str, images: str, pair: bool, index: str):
    """Draw a member with its images and its networks; 170 pixels wide and 112 high."""
    drawing.rectangle("place", x, y, 170, 112)
    drawing.text(x + 85, y + 22, name)
    drawing.chip("images", x + 8, y + 34, images, 154)
    if pair:
        drawing.chip("generator", x + 28, y + 72, "G", index=index)
        drawing.chip("discriminator", x + 90, y + 72, "D", index=index)
    else:
        drawing.chip("discriminator", x + 59, y + 72, "D", index=index)


COLUMNS = {"1": 30, "2": 230, "N": 520}  # members by number, with their left sides


def members(drawing: Drawing, y: int, name: str, images: str, pair: bool = True) -> None:
    """Draw the first, the second and the last member."""
    for number, x in COLUMNS.items():
        member(drawing, x, y, f"{name} {number}", f"{images} {number}", pair, number)
    drawing.text(460, y + 62, "...")


def standalone() -> Drawing:
    about = (
        "One process holds all images, a generator and a discriminator. Generated and real images "
        "reach the discriminator, whose gradients train the generator. No messages are sent."
    )
    drawing = Drawing("standalone: one pair on all data", about, 190)
    drawing.rectangle("place", 100, 22, 520, 112)
    drawing.text(360, 44, "one process")
    drawing.chip("generator", 125, 72, "G")
    drawing.chip("discriminator", 334, 72, "D")
    drawing.chip("images", 480, 72, "all images", 115)
    drawing.arrow((181, 80), (330, 80))
    drawing.note(255, 73, "generated images")
    drawing.arrow((330, 96), (181, 96))
    drawing.note(255, 114, "gradients")
    drawing.arrow((476, 87), (390, 87))
    drawing.note(433, 79, "images")
    drawing.note(360, 164, "No messages. Samples come from G.")
    return drawing


def class_parallel() -> Drawing:
    about = (
        "Every member holds the images of one class, a generator and a discriminator. Members "
        "send no messages. To draw a sample, draw a class y and call its generator."
    )
    drawing = Drawing("class-parallel: one independent pair per class", about, 190)
    members(drawing, 22, "member", "images of class")
    drawing.note(
        360, 164, "No messages. To draw a sample, draw a class y, then call its generator."
    )
    return drawing


def class_parallel_shared() -> Drawing:
    about = (
        "As in class-parallel, every member trains a pair on the images of its class. In every "
        "update, members send the gradients of their shared layers, and all receive the mean."
    )
    drawing = Drawing("class-parallel with shared layers", about, 290)
    members(drawing, 22, "member", "images of class")
    drawing.rectangle("place", 255, 214, 260, 52)
    drawing.chip("mean", 272, 225, "mean of the gradients", 226)
    for x, middle in ((115, 275), (315, 330), (605, 495)):
        drawing.arrow((x - 12, 138), (middle - 12, 210))
        drawing.arrow((middle + 12, 210), (x + 12, 138))
    drawing.note(30, 234, "in every update: gradients", "start")
    drawing.note(30, 253, "of the shared layers", "start")
    drawing.note(690, 234, "all other layers", "end")
    drawing.note(690, 253, "stay with their member", "end")
    return drawing


def md_gan() -> Drawing:
    about = (
        "A server holds the generator. Every worker holds its own images and a discriminator. In "
        "every iteration, the server sends generated images to each worker, and each worker sends "
        "back the gradient of the loss for every image. Every E local epochs, the discriminators "
        "move to other workers. Real images never leave their worker."
    )
    drawing = Drawing("md-gan: one generator, many discriminators", about, 364)
    drawing.rectangle("place", 255, 20, 210, 74)
    drawing.text(360, 41, "server")
    drawing.chip("generator", 334, 52, "G")
    for x, top in ((115, 290), (315, 345), (605, 430)):
        drawing.arrow((top - 12, 98), (x - 12, 202))
        drawing.arrow((x + 12, 202), (top + 12, 98))
    drawing.note(30, 46, "down, in every iteration:", "start")
    drawing.note(30, 65, "two generated batches", "start")
    drawing.note(690, 46, "up, in every iteration:", "end")
    drawing.note(690, 65, "a gradient for every image", "end")
    members(drawing, 206, "worker", "images", pair=False)
    drawing.arrow((204, 293), (226, 293), rare=True, both=True)
    drawing.arrow((404, 293), (516, 293), rare=True, both=True)
    drawing.note(360, 346, "Dashed: discriminators move to other workers, every E local epochs.")
    return drawing


def fl_gan() -> Drawing:
    about = (
        "Every member holds its own images, a generator and a discriminator. Every E local epochs, "
        "all members send the weights of both networks to the server, which sends back the means. "
        "Images never leave their member."
    )
    drawing = Drawing("fl-gan: pairs that are averaged", about, 334)
    drawing.rectangle("place", 255, 20, 210, 74)
    drawing.text(360, 41, "server")
    drawing.chip("mean", 275, 52, "mean of the weights", 170)
    for x, top in ((115, 290), (315, 345), (605, 430)):
        drawing.arrow((x - 12, 202), (top - 12, 98), rare=True)
        drawing.arrow((top + 12, 98), (x + 12, 202), rare=True)
    drawing.note(30, 46, "up, every E local epochs:", "start")
    drawing.note(30, 65, "the weights of G and D", "start")
    drawing.note(690, 46, "down, every E local epochs:", "end")
    drawing.note(690, 65, "the means for all members", "end")
    members(drawing, 206, "member", "images")
    return drawing


def cellular() -> Drawing:
    about = (
        "Cells form a torus of rows and columns. Each cell holds a generator, a discriminator and "
        "its data. At the start of an iteration, a cell receives the networks of its four "
        "neighbours; at the end, it receives the features of their new samples."
    )
    drawing = Drawing("cellular: pairs that compete with their neighbours", about, 330)
    for row in range(3):
        for column in range(3):
            x, y = 42 + column * 132, 34 + row * 96
            kind = "near" if row == 1 or column == 1 else "place"
            drawing.rectangle(kind, x, y, 104, 62)
            number = str(row * 3 + column)
            drawing.chip("generator", x + 8, y + 16, "G", 42, number)
            drawing.chip("discriminator", x + 54, y + 16, "D", 42, number)
    drawing.arrow((146, 161), (172, 161))
    drawing.arrow((306, 161), (280, 161))
    drawing.arrow((226, 96), (226, 128))
    drawing.arrow((226, 226), (226, 194))
    for y in (65, 161, 257):  # rows and columns close into rings
        drawing.shapes.append(f'<path class="line rare" d="M42 {y} H16 M410 {y} H436"/>')
    for x in (94, 226, 358):
        drawing.shapes.append(f'<path class="line rare" d="M{x} 34 V12 M{x} 288 V312"/>')
    lines = ["One cell and its neighbours", "", "At the start of an iteration, it receives"]
    lines += ["the networks of each neighbour, with", "optimizers and learning rates.", ""]
    lines += ["At the end, it receives the features", "of their new samples.", ""]
    lines += ["Rows and columns close into rings."]
    for row, words in enumerate(lines):
        if words:
            kind = "" if row == 0 else "note"
            drawing.text(456, 70 + row * 21, words, kind, "start")
    return drawing


DIAGRAMS: dict[str, Callable[[], Drawing]] = {
    "standalone": standalone,
    "class-parallel": class_parallel,
    "class-parallel-shared": class_parallel_shared,
    "cellular": cellular,
    "md-gan": md_gan,
    "fl-gan": fl_gan,
}


def main() -> None:
    """Write all files."""
    for name, draw in DIAGRAMS.items():
        (PICTURES / f"diagram-{name}.svg").write_text(draw().svg())


if __name__ == "__main__":
    main()
