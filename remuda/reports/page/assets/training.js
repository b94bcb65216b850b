// The charts of all metrics: the mean over the members, and bands or a line for each member.
"use strict";

(() => {
  const { el, readable, mean, quantile, isNumber, choices } = Remuda;
  const GROUP = "training";
  const MANY = 12; // members; with more, bands show how they spread

  // The mean and the quantiles over the members at each point.
  function spread(columns) {
    const points = columns[0].length;
    const lines = { mean: [], low: [], high: [], q1: [], q3: [] };
    const row = new Float64Array(columns.length);
    for (let i = 0; i < points; i++) {
      let count = 0;
      for (const column of columns) if (column[i] !== null) row[count++] = column[i];
      const values = row.subarray(0, count).sort();
      lines.mean.push(mean(values));
      lines.low.push(quantile(values, 0.05));
      lines.high.push(quantile(values, 0.95));
      lines.q1.push(quantile(values, 0.25));
      lines.q3.push(quantile(values, 0.75));
    }
    return lines;
  }

  function memberLines(run, columns, chooser) {
    const names = new Map(run.members.map((member) => [member.id, member.name]));
    return run.curves.ids
      .map((id, j) => ({ id, values: columns[j], slot: chooser.slot(id) }))
      .filter(({ id }) => chooser.chosen.has(id))
      .map(({ id, values, slot }) => ({
        name: names.get(id) ?? `${run.noun} ${id}`,
        values,
        colour: Remuda.colour(slot),
        dash: Remuda.dash(slot),
        width: 1.2,
      }));
  }

  function lines(run, columns, chooser) {
    if (columns.length === 1) {
      return { series: [{ name: "value", values: columns[0], colour: "var(--c0)", width: 2 }] };
    }
    const over = spread(columns);
    const series = [{ name: "mean", values: over.mean, colour: "var(--ink)", width: 2.5 }];
    // A metric that has no value per member, such as one of the server, shows only its mean.
    if (columns.length === run.curves.ids.length) {
      series.push(...memberLines(run, columns, chooser));
    }
    const bands = columns.length > MANY
      ? [{ low: over.low, high: over.high, colour: "var(--band)" },
        { low: over.q1, high: over.q3, colour: "var(--band-inner)" }]
      : [];
    return { series, bands };
  }

  function specs(run, chooser, logY) {
    const axis = Remuda.axes.axis(run);
    const marks = Remuda.axes.marks(run, axis.x);
    return Object.entries(run.curves.metrics).map(([name, columns]) => ({
      title: readable(name), ...axis, ...lines(run, columns, chooser), marks, logY, group: GROUP,
    }));
  }

  function legend(run) {
    const parts = [];
    const count = run.curves.ids.length;
    if (count > MANY) {
      parts.push("Thick: mean over the members. Dark band: the middle 50 %; light band: 90 %.");
    } else if (count > 1) {
      parts.push("Thick: mean over the members. Thin: each chosen member.");
    }
    if (run.curves.stride > 1) {
      parts.push(`Each point is the mean of ${run.curves.stride.toLocaleString("en-US")} rounds.`);
    }
    if ((run.failures || []).length) parts.push("Dashed vertical lines: ranks were lost.");
    parts.push("Drag sideways to zoom; on the keyboard, use arrow keys, + and −.");
    return parts.join(" ");
  }

  // Keep one chart per title.
  Remuda.chartPanel = () => {
    const charts = new Map();
    const element = el("div", { class: "panels" });
    const update = (all) => {
      for (const [title, chart] of charts) {
        chart.element.hidden = !all.some((spec) => spec.title === title);
      }
      for (const spec of all) {
        if (charts.has(spec.title)) charts.get(spec.title).update(spec);
        else charts.set(spec.title, Remuda.chart(element, spec));
      }
    };
    return { element, update, reset: () => charts.values().next().value?.reset() };
  };

  Remuda.sections.push({
    id: "training",
    title: "Training",
    has: (run) => run.curves.rounds.length > 0,
    build(element, run) {
      const log = el("input", { type: "checkbox" });
      log.checked = choices.get("log") === "1";
      const draw = () => {
        axes.update(run);
        panel.update(specs(run, chooser, log.checked));
        Remuda.resources.draw();
        note.textContent = legend(run);
      };
      const axes = Remuda.axes.select(run, () => draw());
      const chooser = Remuda.chooser(run.members, run.noun, () => draw());
      const panel = Remuda.chartPanel();
      const note = el("p", { class: "soft" });
      log.addEventListener("change", () => {
        choices.set("log", log.checked ? "1" : null);
        draw();
      });
      const reset = el("button", { type: "button", onclick: () => panel.reset() }, "Reset zoom");
      chooser.element.hidden = run.members.length < 2;
      element.append(
        el("div", { class: "controls" }, axes.element,
          el("label", {}, log, "logarithmic y axis"), reset),
        chooser.element, panel.element, note);
      draw();
      return (next) => {
        run = next;
        chooser.element.hidden = run.members.length < 2;
        chooser.update(run.members, run.noun);
        draw();
      };
    },
  });

  // Speed and memory follow the same x axis and the same zoom.
  Remuda.resources = { draw: () => {} };

  function resourceSpecs(run) {
    const axis = Remuda.axes.axis(run);
    const marks = Remuda.axes.marks(run, axis.x);
    const { speed, memory } = run.curves;
    const common = { ...axis, marks, group: GROUP };
    const all = [{
      title: "images per second", ...common, yFormat: "count",
      series: [{ name: "images per second", values: speed, colour: "var(--c0)", width: 2 }],
    }];
    if ((memory || []).some(isNumber)) {
      all.push({
        title: "largest memory so far", ...common, yFormat: "bytes",
        series: [{ name: "memory", values: memory, colour: "var(--c1)", width: 2 }],
      });
    }
    if (run.traffic) {
      const directions = Object.entries(run.traffic.directions);
      all.push({
        title: "bytes per round", ...common, yFormat: "bytes",
        series: directions.map(([name, values], i) => ({
          name, values, colour: Remuda.colour(i), dash: i ? [6, 3] : [], width: 1.8,
        })),
      });
    }
    return all;
  }

  Remuda.sections.push({
    id: "resources",
    title: "Speed, memory and traffic",
    has: (run) => run.curves.rounds.length > 0,
    build(element, run) {
      const panel = Remuda.chartPanel();
      element.append(panel.element);
      Remuda.resources.draw = () => panel.update(resourceSpecs(run));
      Remuda.resources.draw();
      return (next) => {
        run = next;
        Remuda.resources.draw();
      };
    },
  });
})();
