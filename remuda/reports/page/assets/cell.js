// What is known about the chosen cell of the torus: samples, fields, and the mixture's weights.
"use strict";

(() => {
  const { el, number, isNumber, readable, mean } = Remuda;
  const LARGE = 480; // pixels; limit for the width of the samples
  const MARGIN = 3; // pixels around and between the images of a grid

  // The weights of a cell's mixture at a point, by the cells of its neighbourhood.
  Remuda.cellWeights = (run, cell, place) => {
    const { weights, neighbours, slots } = run.torus;
    const found = new Map();
    if (cell === null || !weights) return found;
    (neighbours[cell] || []).forEach((other, slot) => {
      const value = weights[cell * slots + slot]?.[place];
      // On a small torus, a neighbour may appear in several slots.
      if (isNumber(value)) found.set(other, (found.get(other) || 0) + value);
    });
    return found;
  };

  // The row of a cell in the picture that has one row of images per cell.
  function crop() {
    const image = el("img", { class: "pixels", alt: "" });
    const box = el("div", { class: "crop", role: "img" }, image);
    const caption = el("figcaption", {});
    const element = el("figure", {}, box, caption);
    const update = (run, cell, round) => {
      const pictures = (run.torus.pictures || []).filter((picture) => picture.src);
      const older = pictures.filter((picture) => picture.round <= round);
      const picture = older.length ? older[older.length - 1] : pictures[0];
      element.hidden = !picture;
      if (!picture) return;
      const rows = run.torus.height * run.torus.width;
      const room = Math.min(LARGE, element.parentElement.clientWidth || LARGE);
      const ratio = window.devicePixelRatio || 1;
      const factor = Math.max(1, Math.floor((room * ratio) / picture.width)) / ratio;
      const scale = Math.min(factor, room / picture.width);
      const height = ((picture.height - MARGIN) / rows) * scale;
      if (image.getAttribute("src") !== picture.src) image.src = picture.src;
      image.style.width = `${picture.width * scale}px`;
      image.style.height = `${picture.height * scale}px`;
      image.style.marginTop = `${-cell * height}px`;
      box.style.width = `${picture.width * scale}px`;
      box.style.height = `${height + MARGIN * scale}px`;
      const text = `Samples of this cell, round ${number(picture.round)}`;
      box.setAttribute("aria-label", text);
      caption.textContent = text;
    };
    return { element, update };
  }

  const nameOf = (run, cell) => run.members[cell]?.name ?? `cell ${cell}`;

  function fieldTable(run, { cell, place }) {
    const rows = Object.entries(run.torus.fields).map(([name, columns]) => [
      readable(name), columns[cell][place], mean(columns.map((column) => column[place])),
    ]);
    return { columns: ["field", "this cell", "mean of all"], rows, caption: "Values of the cell" };
  }

  function weightTable(run, { cell, place }) {
    const weights = [...Remuda.cellWeights(run, cell, place)];
    const rows = weights.map(([other, value]) => [
      other === cell ? `${nameOf(run, other)} (itself)` : nameOf(run, other),
      { text: `${number(100 * value, 3)} %`, value, bar: value },
    ]);
    return { columns: ["cell", "weight in the mixture"], rows, caption: "Mixture weights" };
  }

  function chartSpec(run, { cell, field }) {
    const columns = run.torus.fields[field];
    const all = run.torus.rounds.map((_, i) => mean(columns.map((column) => column[i])));
    return {
      title: `${readable(field)} over the rounds`, xLabel: "round", x: run.torus.rounds,
      series: [
        { name: "this cell", values: columns[cell], colour: "var(--c1)", width: 2 },
        { name: "mean of all cells", values: all, colour: "var(--ink)", dash: [6, 4], width: 1.5 },
      ],
    };
  }

  Remuda.cellDetail = () => {
    const heading = el("h3", {});
    const samples = crop();
    const fields = el("div", {});
    const mixture = el("div", {});
    const chartBox = el("div", {});
    const element = el("div", { class: "cell-detail", hidden: true, role: "region",
      "aria-label": "chosen cell" }, heading, samples.element, fields, mixture, chartBox);
    const views = {};

    function show(name, make, parent, spec) {
      if (views[name]) views[name].update(spec);
      else views[name] = make(parent, spec);
    }

    function update(run, state) {
      element.hidden = state.cell === null;
      if (element.hidden) return;
      const lost = run.members[state.cell]?.lost;
      heading.textContent = nameOf(run, state.cell)
        + (lost ? ` (lost after round ${number(lost.round)})` : "");
      samples.update(run, state.cell, run.torus.rounds[state.place]);
      show("fields", Remuda.table, fields, fieldTable(run, state));
      const weights = weightTable(run, state);
      mixture.hidden = !weights.rows.length;
      show("mixture", Remuda.table, mixture, weights);
      show("chart", Remuda.chart, chartBox, chartSpec(run, state));
    }

    return { element, update };
  };
})();
