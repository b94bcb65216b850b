// The newest round, member by member.
"use strict";

(() => {
  const { el, number, readable, isNumber } = Remuda;

  const cell = (value) => {
    if (value === undefined) return null;
    return isNumber(value) ? { text: number(value, 5), value } : { text: "–", value: null };
  };

  // A metric with fewer values, such as a server's, fits no row; only the mean shows it.
  function table(run) {
    const { metrics, means } = run.last;
    const names = Object.keys(metrics);
    const ids = run.curves.ids;
    const byId = new Map(run.members.map((member) => [member.id, member]));
    const rows = ids.map((id, j) => [
      { text: byId.get(id)?.name ?? `${run.noun} ${id}`, value: j,
        note: byId.get(id)?.lost ? "lost" : "" },
      ...names.map((name) => (metrics[name].length === ids.length ? cell(metrics[name][j]) : null)),
    ]);
    if (ids.length > 1) {
      rows.push([{ text: "mean", value: null }, ...names.map((name) => cell(means[name]))]);
    }
    return {
      columns: [run.noun, ...names.map(readable)], rows, sortable: true,
      caption: `Round ${number(run.last.round)}, member by member`,
    };
  }

  Remuda.sections.push({
    id: "last",
    title: "Newest round",
    has: (run) => Object.keys(run.last?.metrics || {}).length > 0,
    build(element, run) {
      const note = el("p", { class: "soft" });
      element.append(note);
      const view = Remuda.table(element, table(run));
      const update = (next) => {
        note.textContent = `Round ${number(next.last.round)}, ${next.noun} by ${next.noun}.`;
        view.update(table(next));
      };
      update(run);
      return update;
    },
  });
})();
