// Remuda.table(element, {columns, rows, caption, sortable, compact}): numbers stand at the right.
// A cell is a text, a number, null, an element, or {text, note, value, bar, mark}: `note` is small
// print, `value` the number or text to sort by, `bar` a part of 1 that colours the cell.
"use strict";

(() => {
  const { el, number, isNumber } = Remuda;
  const isObject = (cell) =>
    cell !== null && typeof cell === "object" && !(cell instanceof Node);

  function valueOf(cell) {
    if (isObject(cell)) return cell.value === undefined ? cell.text : cell.value;
    return cell instanceof Node ? cell.textContent : cell;
  }

  function render(cell, tag, isRight) {
    const kind = isRight ? "number" : null;
    const scope = tag === "th" ? "row" : null;
    if (cell === null || cell === undefined) return el(tag, { class: kind || "", scope });
    if (!isObject(cell)) {
      return el(tag, { class: kind || "", scope }, isNumber(cell) ? number(cell) : cell);
    }
    const text = isNumber(cell.text) ? number(cell.text) : cell.text;
    const element = el(tag, { class: kind || "", scope }, text);
    if (cell.note) element.append(el("br"), el("span", { class: "soft" }, cell.note));
    if (isNumber(cell.bar)) {
      element.classList.add("bar");
      element.style.setProperty("--part", `${100 * Math.min(1, Math.max(0, cell.bar))}%`);
    }
    if (cell.mark) element.classList.add(cell.mark);
    return element;
  }

  // A column is numeric if all its values are numbers or missing. The first column has names.
  function numericColumns(columns, rows) {
    return columns.map((_, j) => {
      if (j === 0) return false; // names
      const values = rows.map((row) => valueOf(row[j])).filter((value) => value !== null);
      const present = values.filter((value) => value !== undefined && value !== "");
      return present.length > 0 && present.every((value) => typeof value === "number");
    });
  }

  function compare(a, b) {
    if (a === null || a === undefined || a === "") return b === null || b === undefined ? 0 : 1;
    if (b === null || b === undefined || b === "") return -1;
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  }

  function sorted(rows, order) {
    if (order.column === null) return rows;
    const sign = order.down ? -1 : 1;
    const isMissing = (value) => value === null || value === undefined || value === "";
    return [...rows].sort((a, b) => {
      const [x, y] = [valueOf(a[order.column]), valueOf(b[order.column])];
      // Missing values stay at the end in both directions.
      return isMissing(x) || isMissing(y) ? compare(x, y) : sign * compare(x, y);
    });
  }

  function header(spec, numeric, order, draw) {
    return spec.columns.map((name, j) => {
      const kind = numeric[j] ? "number" : "";
      if (!spec.sortable) return el("th", { class: kind, scope: "col" }, name);
      const state = order.column !== j ? "none" : order.down ? "descending" : "ascending";
      const arrow = { none: "↕", descending: "↓", ascending: "↑" }[state];
      const sort = () => {
        order.down = order.column === j ? !order.down : false;
        order.column = j;
        draw();
      };
      const button = el("button", { type: "button", class: "sort", onclick: sort }, name, "\u00a0",
        el("span", { "aria-hidden": "true", class: "arrow" }, arrow));
      return el("th", { class: kind, scope: "col", "aria-sort": state }, button);
    });
  }

  // Draw the table into the element; return an object whose update(spec) replaces its content.
  Remuda.table = (element, spec) => {
    const order = { column: null, down: false };
    const table = el("table");
    const box = el("div", { class: "wide", tabindex: "0", role: "region" }, table);

    // With `compact`, columns without any value are left out.
    function compacted() {
      if (!spec.compact) return spec;
      const kept = spec.columns.map((_, j) => j === 0 || spec.rows.some((row) => {
        const value = row[j] instanceof Node ? "x" : valueOf(row[j]);
        return value !== null && value !== undefined && value !== "";
      }));
      const only = (list) => list.filter((_, j) => kept[j]);
      return { ...spec, columns: only(spec.columns), rows: spec.rows.map(only) };
    }

    function draw() {
      const shown = compacted();
      const numeric = numericColumns(shown.columns, shown.rows);
      const active = document.activeElement;
      const focused = table.contains(active)
        ? [...table.querySelectorAll("button.sort")].indexOf(active)
        : -1;
      const rows = sorted(shown.rows, order).map((row) => el("tr", {},
        row.map((cell, j) => render(cell, j === 0 ? "th" : "td", numeric[j]))));
      box.setAttribute("aria-label", shown.caption || "table");
      box.classList.toggle("tall", shown.rows.length > 16);
      table.replaceChildren(
        el("caption", { class: shown.showCaption ? "" : "hidden" }, shown.caption || ""),
        el("thead", {}, el("tr", {}, header(shown, numeric, order, draw))),
        el("tbody", {}, rows)
      );
      if (focused >= 0) table.querySelectorAll("button.sort")[focused]?.focus();
    }

    draw();
    element.append(box);
    return {
      element: box,
      update(next) {
        spec = next;
        draw();
      },
    };
  };
})();
