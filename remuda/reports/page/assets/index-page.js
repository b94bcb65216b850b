// Put the page of a folder of runs together, and follow the folder.
"use strict";

(() => {
  const { el, choices, number } = Remuda;
  const { COLUMNS, OWN, sorted, matches, makeRow } = Remuda.indexParts;

  function header(order, draw) {
    const cells = COLUMNS.map((column) => {
      const arrow = el("span", { class: "arrow", "aria-hidden": "true" });
      const sort = () => {
        order.set(column.key, order.key === column.key ? !order.down : false);
        draw();
      };
      const button = el("button", { type: "button", class: "sort", onclick: sort },
        column.title, " ", arrow);
      const cell = el("th", { scope: "col", class: column.isNumber ? "number" : "" }, button);
      return { column, cell, arrow };
    });
    const update = () => {
      for (const { column, cell, arrow } of cells) {
        const state = column.key !== order.key ? "none" : order.down ? "descending" : "ascending";
        cell.setAttribute("aria-sort", state);
        arrow.textContent = { none: "↕", descending: "↓", ascending: "↑" }[state];
      }
    };
    const hidden = (text) => el("th", { scope: "col" }, el("span", { class: "hidden" }, text));
    const element = el("thead", {}, el("tr", {}, hidden("compare"), hidden("samples"),
      cells.map(({ cell }) => cell)));
    return { element, update };
  }

  // The order of the rows, which the address keeps.
  function makeOrder() {
    const [key, way] = (choices.get("sort") || "run").split(" ");
    const isKnown = COLUMNS.some((column) => column.key === key);
    const order = { key: isKnown ? key : "run", down: way === "down" };
    order.set = (next, down) => {
      [order.key, order.down] = [next, down];
      choices.set("sort", next === "run" && !down ? null : `${next}${down ? " down" : ""}`);
    };
    return order;
  }

  // The scores that the runs have, the most frequent ones first.
  function scoreNames(runs) {
    const counts = new Map();
    for (const name of runs.flatMap((run) => Object.keys(run.scores))) {
      counts.set(name, (counts.get(name) || 0) + 1);
    }
    return [...counts].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  }

  function counted(runs, visible) {
    const states = new Map();
    for (const run of runs) states.set(run.state, (states.get(run.state) || 0) + 1);
    const parts = [...states].map(([state, count]) => `${number(count)} ${state}`);
    const noun = runs.length === 1 ? "run" : "runs";
    const found = visible === runs.length ? "" : `; ${number(visible)} found`;
    return `${number(runs.length)} ${noun}${parts.length ? ": " : ""}${parts.join(", ")}${found}`;
  }

  function makeChoice(payload, chosen, clear) {
    const count = el("span", { role: "status" });
    const open = el("a", { class: "button" }, "Compare side by side");
    const hint = el("code", {});
    const button = el("button", { type: "button", class: "small", onclick: clear }, "Clear");
    const element = el("div", { class: "choice", hidden: true }, count, open, button, hint);
    const update = () => {
      const ids = [...chosen];
      const parts = ids.map((id) => `run=${encodeURIComponent(id)}`);
      element.hidden = !ids.length;
      count.textContent = ids.length === 1
        ? "1 run chosen; choose another one to compare" : `${number(ids.length)} runs chosen`;
      open.hidden = ids.length < 2 || !Remuda.live;
      open.href = `compare?${parts.join("&")}`;
      hint.hidden = ids.length < 2;
      const quoted = ids.map((id) => `'${`${payload.folder}/${id}`.replaceAll("'", "'\\''")}'`);
      hint.textContent = `remuda compare ${quoted.join(" ")} --out page.html`;
    };
    return { element, update };
  }

  // Arrow keys move between rows, "/" goes to the search, and Escape empties it.
  function keys(search, body, draw) {
    document.addEventListener("keydown", (event) => {
      const active = document.activeElement;
      const row = active && active.closest("tbody tr");
      if (event.key === "/" && active.tagName !== "INPUT" && active.tagName !== "SELECT") {
        search.focus();
      } else if (event.key === "Escape" && active === search && search.value) {
        search.value = "";
        draw();
      } else if (event.key === "ArrowDown" && active === search) {
        body.querySelector("tr a")?.focus();
      } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && row) {
        const next = event.key === "ArrowDown" ? row.nextSibling : row.previousSibling;
        const kind = active.tagName === "INPUT" ? "input" : "a";
        (next ? next.querySelector(kind) : search).focus();
      } else return;
      event.preventDefault();
    });
  }

  function start() {
    const main = document.getElementById("main");
    let payload = Remuda.read("payload");
    const rows = new Map();
    const chosen = new Set();
    const order = makeOrder();
    const search = el("input", { type: "search", placeholder: "name, strategy, data, state" });
    const score = el("select", { id: "score" });
    const sort = el("select", { id: "sort" }, COLUMNS.flatMap(({ key, title }) => [
      el("option", { value: key }, title), el("option", { value: `${key} down` }, `${title} ↓`),
    ]));
    const summary = el("p", { class: "soft summary", role: "status" });
    const body = el("tbody", {});
    const head = header(order, draw);
    const choice = makeChoice(payload, chosen, () => {
      chosen.clear();
      draw();
    });
    const table = el("table", {}, el("caption", { class: "hidden" }, "Runs"), head.element, body);
    const empty = el("p", { class: "soft" });
    search.value = choices.get("q") || "";
    main.append(summary, el("div", { class: "controls" }, el("label", {}, "Search", search),
      el("label", {}, "Score", score), el("label", {}, "Sort", sort)),
    el("div", { class: "wide index" }, table), empty, choice.element,
    el("p", { class: "soft" }, "Keys: / for the search, ↑ and ↓ between runs."));

    function fillScores() {
      const names = scoreNames(payload.runs);
      if (score.options.length === names.length + 1) return;
      const wanted = score.options.length ? score.value : choices.get("score") || OWN;
      score.replaceChildren(el("option", { value: OWN }, "each run's own"),
        ...names.map((name) => el("option", { value: name }, name)));
      score.value = names.includes(wanted) ? wanted : OWN;
    }

    function draw() {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const found = payload.runs.filter((run) => matches(run, words));
      const elements = sorted(found, order, score.value).map((run) => {
        if (!rows.has(run.id)) rows.set(run.id, makeRow(run, chosen, draw));
        rows.get(run.id).update(run, score.value);
        return rows.get(run.id).element;
      });
      const isSame = body.childElementCount === elements.length
        && elements.every((element, i) => body.children[i] === element);
      const active = document.activeElement;
      if (!isSame) body.replaceChildren(...elements);
      if (body.contains(active)) active.focus();
      sort.value = `${order.key}${order.down ? " down" : ""}`;
      summary.textContent = counted(payload.runs, found.length);
      empty.textContent = payload.runs.length ? "No run matches the search."
        : "This folder has no runs yet. `remuda train` writes them into ./runs.";
      empty.hidden = found.length > 0;
      head.update();
      choice.update();
    }

    search.addEventListener("input", () => {
      choices.set("q", search.value);
      draw();
    });
    score.addEventListener("change", () => {
      choices.set("score", score.value);
      draw();
    });
    sort.addEventListener("change", () => {
      const [key, way] = sort.value.split(" ");
      order.set(key, way === "down");
      draw();
    });
    keys(search, body, draw);
    fillScores();
    draw();
    if (Remuda.live) {
      main.insertBefore(Remuda.poll(Remuda.live, (next) => {
        payload = next;
        const ids = new Set(next.runs.map((run) => run.id));
        for (const id of chosen) if (!ids.has(id)) chosen.delete(id);
        fillScores();
        draw();
      }), summary);
    }
    requestAnimationFrame(() => document.documentElement.setAttribute("data-drawn", "yes"));
  }

  start();
})();
