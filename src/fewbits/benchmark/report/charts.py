"""Charts as inline SVG, with text as text, in the text colour of the page, so that they work in light and dark mode."""

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

INK = "#010203"  # placeholder for the text colour of the page
EMPHASIS_COLOURS = ("#e4572e", "#2e86de")
COLOURS = ("#17a398", "#b07aa1", "#c9a227", "#8c6d5a", "#6a9f3c", "#d1699d", "#7f8fa6", "#5e60ce", "#00a6d6", "#a1887f")
MARKERS = "osD^vP*Xdph<>"
MAX_HORIZONTAL_TICKS = 8
SIZE = (5.2, 3.9)
LEGEND_WIDTH = 60  # in characters
LEGEND_KEY_WIDTH = 5  # in characters


@dataclass(frozen=True)
class Curve:
    """A line through points, emphasized if it is strong."""

    title: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] = ()
    strong: bool = False
    dashed: bool = False
    shade: int = 0  # index of the colour


@dataclass(frozen=True)
class Axis:
    """Title, ticks and scale of an axis."""

    title: str
    ticks: Sequence[float] = ()
    labels: Sequence[str] = ()
    scale: str = "linear"


@dataclass(frozen=True)
class Chart:
    """A drawn chart with its title, caption and legend."""

    name: str
    title: str
    svg: str
    command: str
    note: str = ""
    legend: list[tuple[str, str]] = field(default_factory=list)  # colours and names


def curves(name: str, lines: Sequence[Curve], x: Axis, y: str, chance: float | None = None) -> str:
    """Draw lines with their spread and, dotted, the chance level; return an empty string if there are no lines."""
    if not lines:
        return ""
    is_crowded = len(x.ticks) > MAX_HORIZONTAL_TICKS
    with _drawing(name) as (axes, output):
        for number, curve in enumerate(lines):
            palette = EMPHASIS_COLOURS if curve.strong else COLOURS
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
        if chance is not None:
            axes.axhline(chance, color=INK, linestyle=":", linewidth=1, label="random")
        axes.set_xscale(x.scale)
        if x.ticks:
            axes.set_xticks(x.ticks, x.labels, rotation=45 if is_crowded else 0)
            axes.minorticks_off()
        axes.set_xlabel(x.title)
        axes.set_ylabel(y)
        axes.grid(alpha=0.15, color=INK)
        _add_legend(axes, offset=0.27 if is_crowded else 0.18)
    return output[0]


def bars(name: str, titles: Sequence[str], groups: Mapping[str, Sequence[float]], x: str) -> str:
    """Draw bars on a logarithmic scale, one per title and group."""
    with _drawing(name) as (axes, output):
        height = 0.8 / len(groups)
        for number, (group, values) in enumerate(groups.items()):
            positions = [position + number * height for position in range(len(titles))]
            axes.barh(
                positions, values, height=height, label=group, color=EMPHASIS_COLOURS[number % len(EMPHASIS_COLOURS)]
            )
            for position, value in zip(positions, values, strict=True):
                axes.text(value, position, f" {value:.2g}", va="center")
        axes.set_yticks([position + 0.4 - height / 2 for position in range(len(titles))], titles)
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.margins(x=0.15)
        axes.set_xlabel(x)
        _add_legend(axes)
    return output[0]


def points(name: str, positions: Sequence[Sequence[float]], classes: Sequence[int], palette: Sequence[str]) -> str:
    """Draw points coloured by class, as a bitmap inside the SVG because thousands of shapes slow the page down."""
    with _drawing(name, size=(4.2, 4.2)) as (axes, output):
        x, y = zip(*positions, strict=True)
        colours = [palette[one % len(palette)] for one in classes]
        axes.scatter(x, y, c=colours, s=4, linewidths=0, alpha=0.8, rasterized=True)
        axes.set_axis_off()
    return output[0]


def class_colours(count: int) -> list[str]:
    """Return colours that can be distinguished on light and dark backgrounds."""
    from matplotlib import colormaps, colors

    return [colors.to_hex(colormaps["tab20"](number % 20)) for number in range(count)]


def _add_legend(axes: Axes, offset: float = 0.18) -> None:
    labels = axes.get_legend_handles_labels()[1]
    if labels:
        anchor = (0.5, -offset)
        axes.legend(
            loc="upper center", bbox_to_anchor=anchor, ncols=_legend_columns(labels), frameon=False, columnspacing=1.2
        )


def _legend_columns(labels: Sequence[str]) -> int:
    """Return the most columns that fit below the axes: a wider legend would shrink the chart."""
    for count in (3, 2):
        length = -(-len(labels) // count)
        columns = [labels[start : start + length] for start in range(0, len(labels), length)]
        if sum(max(map(len, column)) + LEGEND_KEY_WIDTH for column in columns) <= LEGEND_WIDTH:
            return count
    return 1


@contextmanager
def _drawing(name: str, size: tuple[float, float] = SIZE) -> Iterator[tuple[Axes, list[str]]]:
    """Yield axes to draw on, and a list that contains the SVG when the block has ended."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("drawing charts", extra="report") from error
    style: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": name,  # stable ids that differ between charts
        "font.size": 10,
        "savefig.dpi": 130,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.labelcolor": INK,
        **{f"{part}.color": INK for part in ("text", "xtick", "ytick")},
        **{f"axes.{part}color": INK for part in ("edge", "label")},
    }
    output: list[str] = []
    with mpl.rc_context(style):
        figure = Figure(figsize=size)
        yield figure.add_subplot(), output
        stream = io.StringIO()
        figure.savefig(stream, format="svg", transparent=True, bbox_inches="tight", metadata={"Date": None})
    output.append(_inline(stream.getvalue(), name))


def _inline(svg: str, name: str) -> str:
    """Adapt an SVG to the page: full width, unique ids, and the colour and font of the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'\bid="(figure|axes|patch|line2d|matplotlib\.axis|xtick|ytick|text|legend)_', rf'id="{name}-\1_', svg)
    svg = re.sub(r"'DejaVu Sans'[^;\"]*", "inherit", svg) if "font-family" in svg else svg
    svg = re.sub(r"font: ([0-9.]+px) [^;\"]*", r"font-size: \1", svg)
    return svg.replace(INK, "currentColor")
