// The grid of a cellular run as a heat map over its iterations.
"use strict";

(() => {
  const { el, number, isNumber, readable, choices } = Remuda;
  const { shade, range, part, legend } = Remuda.heat;

  // Arrow keys move around the torus: the cell right of the last column is in the first column.
  function neighbour(cell, key, { height, width }) {
    const [row, column] = [Math.floor(cell / width), cell % width];
    const moves = {
      ArrowUp: [row + height - 1, column], ArrowDown: [row + 1, column],
      ArrowLeft: [row, column + width - 1], ArrowRight: [row, column + 1],
      Home: [row, 0], End: [row, width - 1],
    };
    if (!(key in moves)) return null;
    const [r, c] = moves[key];
    return (r % height) * width + (c % width);
  }

  // The cells as buttons in a grid; `choose(cell)` is called for a click, Enter or space.
  function grid(run, choose) {
    const { height, width } = run.torus;
    const cells = [];
    const element = el("div", { class: "torus", role: "grid", "aria-label": "cells of the torus" });
    element.style.setProperty("--columns", width);
    for (let row = 0; row < height; row++) {
      const line = el("div", { role: "row", class: "torus-row" });
      for (let column = 0; column < width; column++) {
        const cell = row * width + column;
        const value = el("span", { class: "torus-value" });
        const weight = el("span", { class: "torus-weight", hidden: true });
        const box = el("div", {
          role: "gridcell", class: "torus-cell", tabindex: cell ? "-1" : "0", "data-cell": cell,
          onclick: () => choose(cell),
        }, value, weight);
        cells.push({ box, value, weight });
        line.append(box);
      }
      element.append(line);
    }
    const focus = (cell) => {
      for (const { box } of cells) box.tabIndex = -1;
      cells[cell].box.tabIndex = 0;
      cells[cell].box.focus();
    };
    element.addEventListener("keydown", (event) => {
      const cell = Number(event.target.dataset.cell);
      const next = neighbour(cell, event.key, run.torus);
      if (next !== null) focus(next);
      else if (event.key === "Enter" || event.key === " ") choose(cell);
      else return;
      event.preventDefault();
    });
    return { element, cells };
  }

  const lostCells = (run) =>
    new Map(run.members.filter((member) => member.lost).map((member) => [member.id, member.lost]));

  function paint(view, run, state) {
    const { torus } = run;
    const columns = torus.fields[state.field];
    const now = columns.map((column) => column[state.place]);
    const limits = state.own ? range(now) : range(columns.flat(), true);
    const lost = lostCells(run);
    const weights = Remuda.cellWeights(run, state.cell, state.place);
    view.cells.forEach(({ box, value, weight }, cell) => {
      const found = isNumber(now[cell]) && limits && !lost.has(cell);
      const colours = found ? shade(part(now[cell], limits)) : null;
      box.style.background = colours ? colours.paper : "";
      box.style.color = colours ? colours.ink : "";
      const text = lost.has(cell) ? "lost" : number(now[cell], 3);
      value.textContent = text;
      box.classList.toggle("empty", !found);
      box.classList.toggle("near", weights.has(cell));
      weight.hidden = !weights.has(cell);
      const share = weights.has(cell) ? `${Math.round(100 * weights.get(cell))} %` : "";
      weight.textContent = share;
      box.setAttribute("aria-selected", cell === state.cell);
      const name = run.members[cell]?.name ?? `cell ${cell}`;
      const label = `${name}: ${readable(state.field)} ${text}`
        + (share ? `, weight ${share} in the chosen cell's mixture` : "");
      box.setAttribute("aria-label", label);
      box.title = label;
    });
    return limits;
  }

  // A slider over the iterations that stays at the newest one until the reader moves it.
  function roundSlider(run, state, draw) {
    const input = el("input", { type: "range", min: 0, "aria-label": "iteration of the heat map" });
    const output = el("output", {});
    input.addEventListener("input", () => {
      state.place = Number(input.value);
      state.isNewest = state.place === Number(input.max);
      draw();
    });
    const update = (next) => {
      const { rounds } = next.torus;
      if (state.isNewest) state.place = rounds.length - 1;
      state.place = Math.min(state.place, rounds.length - 1);
      input.max = rounds.length - 1;
      input.value = state.place;
      output.textContent = `round ${number(rounds[state.place])}`;
      input.setAttribute("aria-valuetext", output.textContent);
    };
    return { element: el("div", { class: "player" }, input, output), update };
  }

  function fieldList(run, state, draw) {
    const isFitness = (name) => name.includes("fitness");
    const names = Object.keys(run.torus.fields)
      .sort((a, b) => Number(isFitness(b)) - Number(isFitness(a)));
    const wanted = choices.get("field");
    state.field = names.includes(wanted) ? wanted : names[0];
    const options = names.map((name) => el("option", { value: name }, readable(name)));
    const list = el("select", {}, options);
    list.value = state.field;
    list.addEventListener("change", () => {
      state.field = list.value;
      choices.set("field", list.value);
      draw();
    });
    return el("label", {}, "colour by", list);
  }

  Remuda.sections.push({
    id: "torus",
    title: "Torus",
    has: (run) => !!run.torus && run.torus.rounds.length > 0
      && Object.keys(run.torus.fields).length > 0,
    build(element, run) {
      const count = run.torus.height * run.torus.width;
      const wanted = choices.get("cell");
      const cell = wanted !== null && Number(wanted) < count ? Number(wanted) : null;
      const state = { field: null, place: 0, isNewest: true, own: false, cell };
      const own = el("input", { type: "checkbox" });
      const view = grid(run, (chosen) => {
        state.cell = state.cell === chosen ? null : chosen;
        choices.set("cell", state.cell);
        draw();
      });
      const scale = legend();
      const detail = Remuda.cellDetail();
      const slider = roundSlider(run, state, () => draw());
      const fields = fieldList(run, state, () => draw());
      const draw = () => {
        slider.update(run);
        scale.update(paint(view, run, state));
        detail.update(run, state);
      };
      own.addEventListener("change", () => {
        state.own = own.checked;
        draw();
      });
      element.append(
        el("div", { class: "controls" }, fields,
          el("label", {}, own, "own colour scale in each round")),
        el("div", { class: "torus-and-cell" },
          el("div", { class: "torus-side" }, view.element, scale.element, slider.element,
            el("p", { class: "soft" }, "Choose a cell with a click, or with arrow keys and Enter, "
              + "to see its samples and its mixture. Numbers in a corner: weights of the chosen "
              + "cell's mixture.")),
          detail.element));
      draw();
      return (next) => {
        run = next;
        draw();
      };
    },
  });
})();
