// Scores: the newest of each name with its protocol, and their curves over the rounds.
"use strict";

(() => {
  const { el, number, isNumber, duration, breakable } = Remuda;
  const DIRECTIONS = { lower: "lower is better", higher: "higher is better" };

  function byName(scores) {
    const names = new Map();
    for (const score of scores) {
      names.set(score.name, [...(names.get(score.name) || []), score]);
    }
    return names;
  }

  function best(scores) {
    const { better } = scores[scores.length - 1];
    const found = scores.filter((score) => isNumber(score.value));
    const kept = found.find((score) => score.best);
    if (kept) return { ...kept, isKept: true };
    if (!better || found.length < 2) return null;
    const sign = better === "lower" ? 1 : -1;
    return found.reduce((a, b) => (sign * (b.value - a.value) < 0 ? b : a));
  }

  const lines = (...parts) => parts.filter(Boolean).join(", ");

  function bestCell(top) {
    if (!top) return null;
    const note = `round ${number(top.round)}${top.isKept ? ", kept as a checkpoint" : ""}`;
    return { text: number(top.value, 5), note, value: top.value };
  }

  function row(scores) {
    const last = scores[scores.length - 1];
    const value = isNumber(last.value) ? number(last.value, 5) : "not finite";
    const spread = isNumber(last.spread) ? ` ± ${number(last.spread, 2)}` : "";
    const count = last.num_reference ? number(last.num_reference) : "";
    return [
      { text: breakable(last.name), value: last.name, note: DIRECTIONS[last.better] || "" },
      { text: value + spread, value: last.value, note: `round ${number(last.round)}` },
      isNumber(last.floor) ? {
        text: number(last.floor, 5), value: last.floor,
        note: last.floor_samples ? `${number(last.floor_samples)} real` : "",
      } : null,
      bestCell(best(scores)),
      { text: number(last.num_samples), value: last.num_samples,
        note: isNumber(last.seed) ? `seed ${last.seed}` : "" },
      { text: lines(last.reference || "none", count), note: last.reference_digest || "" },
      { text: lines(last.network || "none", last.precision), note: last.network_digest || "" },
      isNumber(last.seconds) ? { text: duration(last.seconds), value: last.seconds } : null,
    ];
  }

  function table(run) {
    const rows = [...byName(run.scores).values()].map(row);
    const columns = ["score", "value", "real images' floor", "best so far", "samples",
      "reference", "network", "took"];
    return { columns, rows, caption: "The newest scores with their protocols", sortable: true,
      compact: true };
  }

  function spec(name, scores, run) {
    const last = scores[scores.length - 1];
    const series = [{
      name: "score", values: scores.map((score) => score.value), colour: "var(--c0)", width: 2,
      points: scores.length < 60,
    }];
    const floors = scores.map((score) => score.floor ?? null);
    if (floors.some(isNumber)) {
      series.push({ name: "floor: real images", values: floors, colour: "var(--c1)",
        dash: [6, 4], width: 1.5, span: true });
    }
    const edge = (sign) => scores.map((score) =>
      (isNumber(score.spread) && isNumber(score.value) ? score.value + sign * score.spread : null));
    const hasSpread = scores.some((score) => isNumber(score.spread));
    const x = scores.map((score) => score.round);
    const marks = (run.failures || []).map((failure) => ({
      x: failure.round, label: Remuda.axes.failureText(failure, run.noun),
    }));
    return {
      title: name, xLabel: "round", x, series, marks, note: DIRECTIONS[last.better] || "",
      bands: hasSpread ? [{ low: edge(-1), high: edge(1) }] : [],
    };
  }

  Remuda.sections.push({
    id: "scores",
    title: "Scores",
    has: (run) => run.scores.length > 0,
    build(element, run) {
      const box = el("div", {});
      const note = el("p", { class: "soft" },
        "±: standard deviation over the score's splits or subsets. Floor: the same score of real "
        + "images that are not in the reference. Thick: the score; band: its spread; dashed: the "
        + "floor.");
      const panel = Remuda.chartPanel();
      const view = Remuda.table(box, table(run));
      element.append(box, note, panel.element);
      const update = (next) => {
        view.update(table(next));
        panel.update([...byName(next.scores)].filter(([, scores]) => scores.length > 1)
          .map(([name, scores]) => spec(name, scores, next)));
      };
      update(run);
      return update;
    },
  });
})();
