# SPDX-License-Identifier: Apache-2.0
"""Plots of a run: SVG, all of the same width, in colours that the colour-blind can distinguish."""
import bisect
import itertools
import math
import statistics

import matplotlib

matplotlib.use("svg")
# pylint: disable=wrong-import-position
from matplotlib import pyplot, ticker

from experiments import CONNECTIONS, IN_FLIGHT, point
from figures import Figures
from goals import MAX_COST, WALL, cost_ratios
from servers import BARE, CHOICES, SUBJECT, SUBJECT_WIDE

WIDTH_INCHES = 9
BLUE, ORANGE, GREY, LIGHT = "#0072B2", "#D55E00", "#595959", "#B3B3B3"
LINES = {
    SUBJECT: {"color": BLUE, "marker": "o"},
    SUBJECT_WIDE: {"color": BLUE, "marker": "s", "linestyle": "--", "markerfacecolor": "white"},
    BARE: {"color": ORANGE, "marker": "^"},
}
STYLE = {
    "axes.axisbelow": True, "axes.edgecolor": LIGHT, "axes.grid": True,
    "axes.spines.right": False, "axes.spines.top": False, "axes.titlelocation": "left",
    "axes.titlesize": 10, "figure.titlesize": 12, "font.family": "DejaVu Sans", "font.size": 9,
    "grid.color": "#E6E6E6", "legend.frameon": False, "lines.markersize": 5,
    "svg.fonttype": "path", "svg.hashsalt": "snowflake", "xtick.color": GREY,
    "xtick.labelcolor": "black", "ytick.color": GREY, "ytick.labelcolor": "black",
}
PERCENTILES = [0.5, 0.9, 0.99, 0.999, 0.9999]
CURVE_POINTS = 120


def _short(value, _position=None):
    """1200 -> 1.2 k, 4096000 -> 4.1 M."""
    for limit, unit in ((1e6, " M"), (1e3, " k")):
        if value >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


def _log_labels(axis, subs=(1.0, 2.0, 5.0)):
    axis.set_major_locator(ticker.LogLocator(subs=subs))
    axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter(ticker.FuncFormatter(_short))


def _figure(title, height, rows=1, columns=1, **more):
    figure, axes = pyplot.subplots(rows, columns, figsize=(WIDTH_INCHES, height), squeeze=False,
                                   layout="constrained", **more)
    figure.suptitle(title, x=0.01, ha="left", weight="bold")
    return figure, axes


def _bars(axes, labels, values, colors, form):
    """Draws horizontal bars, the first at the top: medians with whiskers from the smallest to the
    largest value."""
    medians = [statistics.median(some) for some in values]
    reach = [[middle - min(some) for middle, some in zip(medians, values)],
             [max(some) - middle for middle, some in zip(medians, values)]]
    axes.barh(labels, medians, color=colors, height=0.65, xerr=reach,
              error_kw={"ecolor": GREY, "elinewidth": 1, "capsize": 2})
    for label, middle, some in zip(labels, medians, values):
        axes.annotate(form(middle), (max(some), label), xytext=(5, 0), va="center",
                      textcoords="offset points")
    axes.set_ylim(len(values) - 0.4, -0.6)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.set_xlim(0, 1.2 * max(max(some) for some in values))
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)


def _throughput(figures):
    names = [name for name in CHOICES
             if all(figures.values("throughput", name, at, "calls_per_s")
                    for at in ("16x1", "16x32"))]
    if not names:
        return None
    figure, axes = _figure("get_id over 16 connections, calls a second", 3.2, columns=2)
    for one, at, label in zip(axes[0], ("16x1", "16x32"), ("1 call", "32 calls")):
        values = [figures.values("throughput", name, at, "calls_per_s") for name in names]
        _bars(one, names, values, [BLUE if name == SUBJECT else LIGHT for name in names], _short)
        one.set_title(f"{label} in flight on each")
        one.set_xlabel("calls a second")
        one.xaxis.set_major_formatter(_short)
    if any(max(some) > WALL for some in values):
        axes[0][1].axvline(WALL, color=ORANGE, linewidth=1, linestyle="--")
        axes[0][1].annotate("what the layout allows", (WALL, len(names) - 0.6), xytext=(4, 0),
                            textcoords="offset points", color=ORANGE, va="center")
    axes[0][1].set_yticklabels([])
    return figure


def _quantiles(histogram, fractions):
    """Returns the upper end of the bucket that contains each quantile of the calls."""
    counts = list(itertools.accumulate(bucket["calls"] for bucket in histogram))
    return [histogram[bisect.bisect_left(counts, fraction * counts[-1])]["up_to_us"]
            for fraction in fractions]


def _latency(figures):
    last = math.log10(1 / (1 - PERCENTILES[-1]))
    nines = [last * step / CURVE_POINTS for step in range(CURVE_POINTS + 1)]
    fractions = [1 - 10 ** -nine for nine in nines]
    figure, axes = _figure("Latency at 100,000 calls a second, open loop, 16 connections", 3.6)
    drawn = False
    for name in (BARE, SUBJECT):
        histograms = figures.values("latency", name, "open", "histogram")
        if not histograms:
            continue
        drawn = True
        rounds = list(zip(*(_quantiles(one, fractions) for one in histograms)))
        style = {key: value for key, value in LINES[name].items() if key != "marker"}
        axes[0][0].plot(nines, [statistics.median(some) for some in rounds], label=name, **style)
        axes[0][0].fill_between(nines, [min(some) for some in rounds],
                                [max(some) for some in rounds], color=style["color"], alpha=0.15,
                                linewidth=0)
    axes[0][0].set_yscale("log")
    _log_labels(axes[0][0].yaxis)
    axes[0][0].set_xticks([math.log10(1 / (1 - one)) for one in PERCENTILES],
                          [f"{100 * one:g}" for one in PERCENTILES])
    axes[0][0].set_xlabel("percentile; the line is the median of the rounds, the band all of them")
    axes[0][0].set_ylabel("microseconds")
    if not drawn:
        return None
    axes[0][0].legend(loc="upper left")
    return figure


def _line(axes, name, points, values_at):
    """Draws a line of medians. Points without figures are left out."""
    found = [(load, values_at(at)) for load, at in points]
    found = [(load, values) for load, values in found if values]
    if found:
        axes.plot([load for load, _ in found], [statistics.median(values) for _, values in found],
                  label=name, **LINES[name])


def _cost_panels():
    return [
        ("1 call in flight on each", "connections", [(n, point(n, 1)) for n in CONNECTIONS]),
        ("1 connection", "calls in flight", [(n, point(1, n)) for n in IN_FLIGHT]),
        ("16 connections", "calls in flight on each", [(n, point(16, n)) for n in IN_FLIGHT]),
    ]


def _cost(figures):
    figure, axes = _figure("The server's CPU time per call", 5.2, rows=2, columns=3, sharex="col",
                           sharey="row", gridspec_kw={"height_ratios": [3, 2]})
    for column, (title, unit, points) in enumerate(_cost_panels()):
        top, bottom = axes[0][column], axes[1][column]
        for name in (BARE, SUBJECT_WIDE, SUBJECT):
            _line(top, name, points, lambda at, name=name: figures.values(
                "cost", name, at, "cpu_us_per_call"))
        for name in (SUBJECT_WIDE, SUBJECT):
            _line(bottom, name, points, lambda at, name=name: cost_ratios(figures, at, name))
        bottom.axhline(MAX_COST, color=GREY, linewidth=1, linestyle=":")
        top.set_title(title)
        top.set_xscale("log")
        top.set_yscale("log")
        _log_labels(top.yaxis)
        _log_labels(bottom.xaxis, subs=(1.0,))
        bottom.set_xlabel(unit)
    axes[0][0].set_ylabel("microseconds")
    axes[1][0].set_ylabel(f"to {BARE}")
    axes[1][0].set_ylim(bottom=0, top=1.1 * axes[1][0].get_ylim()[1])
    axes[1][0].annotate(f"goal: {MAX_COST}", (1, MAX_COST), xytext=(0, 3), color=GREY,
                        textcoords="offset points")
    handles, labels = axes[0][2].get_legend_handles_labels()
    if not handles:
        return None
    axes[0][2].legend(handles[::-1], labels[::-1], loc="upper right")
    return figure


def _generator(figures):
    cases = figures.generator("cases")
    if not cases:
        return None
    figure, axes = _figure("What an ID costs in process, without the network",
                           0.9 + 0.28 * len(cases))
    values = [[case["ns_per_id"][key] for key in ("min", "median", "max")] for case in cases]
    colors = [BLUE if case["name"].startswith("generator") else LIGHT for case in cases]
    labels = [f"{case['name']}, {case['threads']} thread{'s' if case['threads'] > 1 else ''}, "
              f"{case['batch']} at a time" for case in cases]
    _bars(axes[0][0], labels, values, colors, "{:.3g}".format)
    axes[0][0].set_xlabel("nanoseconds an ID, of all threads together")
    return figure


PLOTS = {"throughput": _throughput, "latency": _latency, "cost": _cost, "generator": _generator}


def _save(figure, path):
    """Saves a figure as text for a repository: without a date, and without blanks at the ends of
    lines."""
    figure.savefig(path, metadata={"Date": None})
    lines = path.read_text().splitlines()
    path.write_text("".join(f"{line.rstrip()}\n" for line in lines))


def draw(run, directory):
    """Writes the plots for which there are figures. Returns their names."""
    figures = Figures(run["records"])
    drawn = []
    with pyplot.rc_context(STYLE):
        for name, plot in PLOTS.items():
            figure = plot(figures)
            if figure:
                _save(figure, directory / f"{name}.svg")
                drawn.append(name)
        pyplot.close("all")
    return drawn
