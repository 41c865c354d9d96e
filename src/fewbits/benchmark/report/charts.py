"""Charts as SVG inside the page: text stays text, and what is black takes the page's own colour, light or dark."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fewbits.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#010203"  # stands for the page's colour of text until the SVG is written
STRONG = ("#e4572e", "#2e86de")
OTHERS = ("#17a398", "#b07aa1", "#c9a227", "#8c6d5a", "#6a9f3c", "#d1699d", "#7f8fa6", "#5e60ce", "#00a6d6", "#a1887f")
MARKERS = "osD^vP*Xdph<>"
MOST_LEVEL_TICKS = 8
SIZE = (5.2, 3.9)
LEGEND = 60  # letters that stand beside each other below a chart
KEY = 5  # letters that a line's sample takes


@dataclass(frozen=True)
class Curve:
    """A line through points; those that matter most are strong."""

    title: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] = ()
    strong: bool = False
    dashed: bool = False
    shade: int = 0  # which colour, of the strong ones or of the others


@dataclass(frozen=True)
class Axis:
    """What an axis shows."""

    title: str
    ticks: Sequence[float] = ()
    labels: Sequence[str] = ()
    scale: str = "linear"


@dataclass(frozen=True)
class Chart:
    """A chart, ready to be put into a page."""

    name: str
    title: str
    svg: str
    command: str
    note: str = ""
    legend: list[tuple[str, str]] = field(default_factory=list)  # colour and name


def curves(name: str, found: Sequence[Curve], x: Axis, y: str, floor: float | None = None) -> str:
    """Lines with their spread; a dotted level is the floor. Without a line there is no chart."""
    if not found:
        return ""
    is_crowded = len(x.ticks) > MOST_LEVEL_TICKS
    with _drawing(name) as (axes, written):
        for number, curve in enumerate(found):
            palette = STRONG if curve.strong else OTHERS
            colour = palette[curve.shade % len(palette)]
            axes.plot(
                curve.x,
                curve.y,
                label=curve.title,
                color=colour,
                marker="" if curve.dashed else MARKERS[number % len(MARKERS)],
                markersize=5 if curve.strong else 3.5,
                linewidth=2.4 if curve.strong else 1.3,
                linestyle="--" if curve.dashed else "-",
                zorder=3 if curve.strong else 2,
            )
            if len(curve.spread):
                low = [value - spread for value, spread in zip(curve.y, curve.spread, strict=True)]
                high = [value + spread for value, spread in zip(curve.y, curve.spread, strict=True)]
                axes.fill_between(curve.x, low, high, color=colour, alpha=0.2, linewidth=0)
        if floor is not None:
            axes.axhline(floor, color=INK, linestyle=":", linewidth=1, label="random")
        axes.set_xscale(x.scale)
        if x.ticks:
            axes.set_xticks(x.ticks, x.labels, rotation=45 if is_crowded else 0)
            axes.minorticks_off()
        axes.set_xlabel(x.title)
        axes.set_ylabel(y)
        axes.grid(alpha=0.15, color=INK)
        _legend(axes, below=0.27 if is_crowded else 0.18)
    return written[0]


def bars(name: str, titles: Sequence[str], groups: Mapping[str, Sequence[float]], x: str) -> str:
    """Bars on a logarithmic scale, a group of them for each title."""
    with _drawing(name) as (axes, written):
        height = 0.8 / len(groups)
        for number, (group, values) in enumerate(groups.items()):
            places = [place + number * height for place in range(len(titles))]
            axes.barh(places, values, height=height, label=group, color=STRONG[number % len(STRONG)])
            for place, value in zip(places, values, strict=True):
                axes.text(value, place, f" {value:.2g}", va="center")
        axes.set_yticks([place + 0.4 - height / 2 for place in range(len(titles))], titles)
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.margins(x=0.15)
        axes.set_xlabel(x)
        _legend(axes)
    return written[0]


def points(name: str, places: Sequence[Sequence[float]], classes: Sequence[int], palette: Sequence[str]) -> str:
    """Points coloured by class, as a picture inside the SVG: thousands of shapes would make the page slow."""
    with _drawing(name, size=(4.2, 4.2)) as (axes, written):
        x, y = zip(*places, strict=True)
        colours = [palette[one % len(palette)] for one in classes]
        axes.scatter(x, y, c=colours, s=4, linewidths=0, alpha=0.8, rasterized=True)
        axes.set_axis_off()
    return written[0]


def class_colours(count: int) -> list[str]:
    """Colours that can be told apart on light and on dark."""
    from matplotlib import colormaps, colors

    return [colors.to_hex(colormaps["tab20"](number % 20)) for number in range(count)]


def _legend(axes: Axes, below: float = 0.18) -> None:
    labels = axes.get_legend_handles_labels()[1]
    if labels:
        place = (0.5, -below)
        axes.legend(loc="upper center", bbox_to_anchor=place, ncols=_columns(labels), frameon=False, columnspacing=1.2)


def _columns(labels: Sequence[str]) -> int:
    """As many as stand below the axes: a wider legend would make all else smaller."""
    for count in (3, 2):
        length = -(-len(labels) // count)
        columns = [labels[start : start + length] for start in range(0, len(labels), length)]
        if sum(max(map(len, column)) + KEY for column in columns) <= LEGEND:
            return count
    return 1


@contextmanager
def _drawing(name: str, size: tuple[float, float] = SIZE) -> Iterator[tuple[Axes, list[str]]]:
    """Axes to draw on; when the block ends, the SVG is the only item of the list."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("drawing charts", extra="report") from error
    style: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": name,  # ids that are the same in every rendering, and others in every chart
        "font.size": 10,
        "savefig.dpi": 130,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.labelcolor": INK,
        **{f"{part}.color": INK for part in ("text", "xtick", "ytick")},
        **{f"axes.{part}color": INK for part in ("edge", "label")},
    }
    written: list[str] = []
    with mpl.rc_context(style):
        figure = Figure(figsize=size)
        yield figure.add_subplot(), written
        stream = io.StringIO()
        figure.savefig(stream, format="svg", transparent=True, bbox_inches="tight", metadata={"Date": None})
    written.append(_inline(stream.getvalue(), name))


def _inline(svg: str, name: str) -> str:
    """An SVG for the middle of a page: as wide as there is room, ids of its own, the page's colour and font."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'\bid="(figure|axes|patch|line2d|matplotlib\.axis|xtick|ytick|text|legend)_', rf'id="{name}-\1_', svg)
    svg = re.sub(r"'DejaVu Sans'[^;\"]*", "inherit", svg) if "font-family" in svg else svg
    svg = re.sub(r"font: ([0-9.]+px) [^;\"]*", r"font-size: \1", svg)
    return svg.replace(INK, "currentColor")
