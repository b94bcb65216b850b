// The header: name, state, progress and facts.
"use strict";

(() => {
  const { el, number, time } = Remuda;
  const WORDS = {
    running: "training", finished: "finished", stopped: "stopped", killed: "killed",
    unknown: "state unknown",
  };

  function times(state) {
    const parts = [];
    if (state.since) parts.push(`since ${time(state.since)}`);
    if (state.until && state.state === "running") {
      parts.push(`expected to end at ${time(state.until)}`);
    } else if (state.until) {
      parts.push(`until ${time(state.until)}`);
    }
    return parts.join(", ");
  }

  // One sentence for screen readers when the state of the run changes.
  Remuda.stateWords = (state) => WORDS[state.state] || state.state;

  Remuda.head = (main, run) => {
    const title = el("h1", {}, run.name);
    const about = el("p", {});
    const badge = el("span", { class: "state" });
    const when = el("span", { class: "soft" });
    const count = el("span", { class: "soft" });
    const bar = el("progress", { "aria-label": "rounds" });
    const remarks = el("div", {});
    const facts = el("dl", { class: "facts" });
    const offline = el("p", { class: "offline", id: "offline", hidden: true });
    const header = el("header", {}, title, about,
      el("p", { class: "state-line" }, badge, when, count), bar, offline, remarks, facts);
    main.append(header);

    function update(next) {
      const { state } = next;
      const planned = Math.max(state.planned || 0, state.reached || 0, 1);
      const part = Math.floor((100 * (state.reached || 0)) / planned);
      title.textContent = next.name;
      about.textContent = next.about || "";
      badge.className = `state ${state.state}`;
      badge.textContent = Remuda.stateWords(state);
      when.textContent = times(state);
      count.textContent = `round ${number(state.reached)} of ${number(state.planned)} (${part} %)`;
      bar.max = planned;
      bar.value = state.reached || 0;
      bar.setAttribute("aria-valuetext", count.textContent);
      remarks.replaceChildren(
        ...(state.remarks || []).map((text) => el("p", { class: "remark" }, text)));
      facts.replaceChildren(...(next.facts || []).map(([name, text]) =>
        el("div", {}, el("dt", {}, name), el("dd", {}, text))));
      document.title = `${state.state === "running" ? `${part} % ` : ""}${next.name}`;
    }

    update(run);
    return { update, offline };
  };
})();
