// The numbers of a chart as a table, made when the reader opens it.
"use strict";

(() => {
  const { el, mean, isNumber } = Remuda;
  const MAX_ROWS = 60;
  const MAX_COLUMNS = 12;

  // The numbers of at most `count` evenly chosen points, including the first and the last.
  function places(length, count) {
    if (length <= count) return Array.from({ length }, (_, i) => i);
    return Array.from({ length: count }, (_, i) => Math.floor((i * (length - 1)) / (count - 1)));
  }

  function content(spec) {
    const chosen = places(spec.x.length, MAX_ROWS);
    const isWide = spec.series.length > MAX_COLUMNS;
    const names = isWide
      ? ["mean of the lines", "lowest", "highest"]
      : spec.series.map((line) => line.name);
    const rows = chosen.map((i) => {
      const values = spec.series.map((line) => line.values[i]);
      const found = values.filter(isNumber);
      const cells = isWide
        ? [mean(found), found.length ? Math.min(...found) : null,
          found.length ? Math.max(...found) : null]
        : values.map((value) => (isNumber(value) ? value : null));
      return [spec.x[i], ...cells];
    });
    const part = spec.x.length > MAX_ROWS ? `, ${MAX_ROWS} of ${spec.x.length} points` : "";
    return {
      columns: [spec.xLabel, ...names], rows, caption: `${spec.title}${part}`, showCaption: !!part,
    };
  }

  // `get` returns the chart's present spec.
  Remuda.chartTable = (get) => {
    let table = null;
    const body = el("div");
    const element = el("details", { class: "numbers" }, el("summary", {}, "Numbers"), body);

    function update() {
      if (!element.open) return;
      if (table) table.update(content(get()));
      else table = Remuda.table(body, content(get()));
    }

    element.addEventListener("toggle", update);
    return { element, update };
  };
})();
