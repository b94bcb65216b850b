// The parts of a chart: its data and options for uPlot, its marks, and its summary as text.
"use strict";

(() => {
  const { isNumber, number, FORMATS, resolve } = Remuda;
  const FEW = 30; // points; curves with fewer points get markers
  const MAX_NAMED = 6; // lines in the summary
  const MAX_DOTS = 20; // lines; with more, no dots follow the pointer
  // Distances between the ticks of an axis that counts: 1, 2, 5, 10, ...
  const WHOLE = Array.from({ length: 16 }, (_, i) => 10 ** i).flatMap((n) => [n, 2 * n, 5 * n]);
  const FONT = "12px system-ui, sans-serif";

  // uPlot draws a gap at null; a logarithmic axis has no place for numbers up to 0.
  function tidy(values, logY) {
    const found = new Array(values.length);
    for (let i = 0; i < found.length; i++) {
      const value = values[i];
      found[i] = isNumber(value) && !(logY && value <= 0) ? value : null;
    }
    return found;
  }

  // A signature of what uPlot cannot change in a plot that exists.
  const shape = (spec) =>
    JSON.stringify([
      spec.series.map((line) => [line.name, line.colour, line.dash, line.width, line.span]),
      (spec.bands || []).map((band) => band.colour || null),
      !!spec.logY, spec.xLabel, spec.xFormat, spec.yFormat, spec.x.length < FEW,
    ]);

  // uPlot draws later lines over earlier ones; the first line of a chart should be on top.
  function data(spec) {
    const edges = (spec.bands || []).flatMap((band) => [band.high, band.low]);
    const lines = spec.series.map((line) => line.values).reverse();
    return [Array.from(spec.x), ...[...edges, ...lines].map((values) => tidy(values, spec.logY))];
  }

  function lineOptions(line, i, isShort) {
    const colour = line.colour || Remuda.colour(i);
    return {
      label: line.name,
      stroke: () => resolve(colour),
      width: line.width || 1.5,
      dash: line.dash || [],
      spanGaps: !!line.span,
      points: { show: isShort || !!line.points, size: 5, fill: () => resolve(colour) },
    };
  }

  function bandOptions(spec) {
    return (spec.bands || []).map((band, i) => ({
      series: [2 * i + 1, 2 * i + 2],
      fill: () => resolve(band.colour || "var(--band)"),
    }));
  }

  // Texts of an axis with as many digits as ticks need to be exact, such as 0.1375, or at least to
  // differ: 200 seconds are 3.333... minutes.
  function ticks(splits, format) {
    const shown = splits.filter((value) => value !== null);
    const texts = (digits) => shown.map((value) => format(value, digits));
    const isExact = (digits) => texts(digits).join() === texts(digits + 2).join();
    const isClear = (digits) => new Set(texts(digits)).size === shown.length;
    const choices = [3, 4, 5, 6, 7, 8].filter(isClear);
    const digits = choices.find(isExact) ?? choices[0] ?? 8;
    return splits.map((value) => (value === null ? "" : format(value, digits)));
  }

  function axis(format, more) {
    return {
      stroke: () => resolve("var(--soft)"),
      grid: { stroke: () => resolve("var(--edge)"), width: 1 },
      ticks: { stroke: () => resolve("var(--edge)"), width: 1, size: 4 },
      font: FONT,
      labelFont: FONT,
      values: (_, splits) => ticks(splits, format),
      ...more,
    };
  }

  function axes(spec) {
    const room = (_, texts) => 16 + 7 * Math.max(3, ...(texts || []).map((text) => text.length));
    const format = spec.xFormat || "count";
    const incrs = format === "count" ? { incrs: WHOLE } : {};
    return [
      axis(FORMATS[format], { label: spec.xLabel, labelSize: 18, size: 32, space: 70, ...incrs }),
      axis(FORMATS[spec.yFormat || "number"], { size: room }),
    ];
  }

  function drawMarks(plot, marks) {
    const { left, top, width, height } = plot.bbox;
    const context = plot.ctx;
    const pixel = devicePixelRatio;
    context.save();
    context.strokeStyle = context.fillStyle = resolve("var(--bad)");
    context.lineWidth = pixel;
    context.setLineDash([4 * pixel, 3 * pixel]);
    for (const mark of marks) {
      const x = plot.valToPos(mark.x, "x", true);
      if (!(x >= left && x <= left + width)) continue;
      context.beginPath();
      context.moveTo(x, top);
      context.lineTo(x, top + height);
      context.stroke();
      context.beginPath(); // a triangle at the top, so that a mark differs from the grid
      context.moveTo(x - 5 * pixel, top);
      context.lineTo(x + 5 * pixel, top);
      context.lineTo(x, top + 8 * pixel);
      context.fill();
    }
    context.restore();
  }

  function select(plot, zoom) {
    const { left, width } = plot.select;
    if (width > 4) zoom(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }

  // The options of uPlot. hooks = {setCursor(plot), select(min, max), reset(), marks()}.
  function options(spec, size, hooks) {
    const isShort = spec.x.length < FEW;
    const hidden = { stroke: "transparent", width: 0, points: { show: false } };
    const edges = (spec.bands || []).flatMap(() => [hidden, hidden]);
    const lines = spec.series.map((line, i) => lineOptions(line, i, isShort)).reverse();
    // Charts of a group share the cursor; the zoom is shared by Chart.
    const sync = { key: spec.group, filters: { pub: (type) => /move|leave/.test(type) } };
    return {
      ...size,
      legend: { show: false },
      scales: { x: { time: false }, y: spec.logY ? { distr: 3 } : {} },
      series: [{}, ...edges, ...lines],
      bands: bandOptions(spec),
      axes: axes(spec),
      cursor: {
        y: false,
        drag: { x: true, y: false, setScale: false },
        points: { size: 6, show: spec.series.length <= MAX_DOTS },
        bind: { dblclick: () => () => hooks.reset() },
        ...(spec.group ? { sync } : {}),
      },
      hooks: {
        draw: [(plot) => drawMarks(plot, hooks.marks())],
        setCursor: [hooks.setCursor],
        setSelect: [(plot) => select(plot, hooks.select)],
      },
    };
  }

  function lineSummary(line, format) {
    const values = Array.from(line.values).filter(isNumber);
    if (!values.length) return `${line.name}: no values`;
    const low = values.reduce((a, b) => Math.min(a, b));
    const high = values.reduce((a, b) => Math.max(a, b));
    return `${line.name}: first ${format(values[0])}, last ${format(values[values.length - 1])}, `
      + `lowest ${format(low)}, highest ${format(high)}`;
  }

  // The chart in words, for readers who do not see it.
  function summary(spec) {
    const format = FORMATS[spec.yFormat || "number"];
    const [first, last] = [spec.x[0], spec.x[spec.x.length - 1]];
    const parts = spec.x.length ? [`${spec.xLabel} ${number(first)} to ${number(last)}`] : [];
    parts.push(...spec.series.slice(0, MAX_NAMED).map((line) => lineSummary(line, format)));
    const more = spec.series.length - MAX_NAMED;
    if (more > 0) parts.push(`${more} more lines`);
    const marks = (spec.marks || []).map((mark) => mark.label);
    if (marks.length) parts.push(`marks: ${marks.slice(0, MAX_NAMED).join(", ")}`);
    return parts.join(". ");
  }

  Remuda.chartParts = { shape, data, options, summary, ticks };
})();
