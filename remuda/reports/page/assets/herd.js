// Members of the strategies: a row per class of class-parallel, a row per worker of MD-GAN and
// FL-GAN, and the swaps of discriminators.
"use strict";

(() => {
  const { el, number, isNumber, mean } = Remuda;
  const MAX_SWAPS = 30;
  const IGNORED = 0.1; // part of a worker's messages; if the server used less, it ignored them

  const top = (values) => Math.max(0, ...values.filter(isNumber));

  function classTable(run) {
    const names = [...new Set(run.classes.flatMap((item) => Object.keys(item.scores || {})))];
    const limits = names.map((name) => top(run.classes.map((item) => item.scores?.[name])));
    const rows = run.classes.map((item) => [
      item.name,
      item.count ?? null,
      ...names.map((name, j) => {
        const value = item.scores?.[name];
        if (!isNumber(value)) return null;
        return { text: number(value), value, bar: limits[j] > 0 ? value / limits[j] : null };
      }),
      item.collapsed
        ? { text: `⚠ collapsed${item.why ? `: ${item.why}` : ""}`, mark: "bad" }
        : { text: item.why || "" },
    ]);
    return {
      columns: ["class", "images", ...names, "remark"], rows, sortable: true,
      caption: "A row per class, with its scores",
    };
  }

  Remuda.sections.push({
    id: "classes",
    title: "Classes",
    has: (run) => (run.classes || []).length > 0,
    build(element, run) {
      const note = el("p", { class: "soft" });
      const view = Remuda.table(element, classTable(run));
      element.append(note);
      const update = (next) => {
        view.update(classTable(next));
        const collapsed = next.classes.filter((item) => item.collapsed).length;
        note.textContent = collapsed
          ? `${collapsed} of ${next.classes.length} classes look collapsed, for the reasons in the `
            + "last column."
          : "No class looks collapsed.";
      };
      update(run);
      return update;
    },
  });

  // The part of a worker's messages that the server used, over all rounds: in a single round, it
  // may ignore honest workers, too.
  function kept(run, worker) {
    const column = run.curves.metrics.kept?.[run.curves.ids.indexOf(worker.id)];
    const part = column ? mean(column) : worker.kept;
    if (!isNumber(part)) return null;
    const text = `${number(100 * part, 3)} %`;
    const isIgnored = part < IGNORED;
    return {
      text: isIgnored ? `⚠ ${text}, ignored` : text, value: part, bar: part,
      mark: isIgnored ? "bad" : null,
    };
  }

  function workerTable(run) {
    const { workers } = run;
    const largest = top(workers.map((worker) => worker.share));
    const optional = [
      ["images", (worker) => isNumber(worker.share)
        && { text: number(worker.share), value: worker.share, bar: worker.share / largest }],
      ["host", (worker) => worker.host],
      ["messages used, all rounds", (worker) => kept(run, worker)],
      ["turns", (worker) => worker.turns],
      ["remark", (worker) => worker.lost && {
        text: `⚠ lost after round ${number(worker.lost.round)}`
          + (worker.lost.why ? `: ${worker.lost.why}` : ""),
        mark: "bad",
      }],
    ].filter(([, cell]) => workers.some((worker) => ![null, undefined, false, ""]
      .includes(cell(worker))));
    return {
      columns: [run.noun, ...optional.map(([name]) => name)],
      rows: workers.map((worker) => [
        { text: `${run.noun} ${worker.id}`, value: worker.id },
        ...optional.map(([, cell]) => cell(worker) || (cell(worker) === 0 ? 0 : null)),
      ]),
      caption: "Workers with their data, hosts, and the part of their messages that was used",
      sortable: true,
    };
  }

  // The payload may hold only the last swaps.
  const numSwaps = (run) => run.num_swaps ?? run.swaps.length;

  function swapTable(run) {
    const recent = run.swaps.slice(-MAX_SWAPS).reverse();
    const rows = recent.map((swap) => [swap.round, swap.from
      .map((source, i) => [source, swap.to?.[i] ?? i])
      .map(([source, worker]) => (source === worker ? "" : `${source} → ${worker}`))
      .filter(Boolean).join(", ")]);
    const caption = `The last ${rows.length} of ${number(numSwaps(run))} swaps`;
    return { columns: ["round", "discriminators moved (from → to)"], rows, caption };
  }

  Remuda.sections.push({
    id: "workers",
    title: "Workers",
    has: (run) => (run.workers || []).length > 0,
    build(element, run) {
      const view = Remuda.table(element, workerTable(run));
      const heading = el("summary", {});
      const swaps = el("details", {}, heading);
      element.append(swaps);
      let list = null;
      const update = (next) => {
        view.update(workerTable(next));
        swaps.hidden = !(next.swaps || []).length;
        if (swaps.hidden) return;
        const last = next.swaps[next.swaps.length - 1].round;
        heading.textContent =
          `Swaps of discriminators: ${number(numSwaps(next))}, the last in round ${number(last)}`;
        if (list) list.update(swapTable(next));
        else list = Remuda.table(swaps, swapTable(next));
      };
      update(run);
      return update;
    },
  });
})();
