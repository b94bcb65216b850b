// The ranks with their hosts, members, states and heartbeats, and the failures of the run.
"use strict";

(() => {
  const { el, number, isNumber, bytes, duration, time } = Remuda;

  const isBad = (rank) => ["gone", "lost", "delayed"].includes(rank.contact);

  // Members as ranges: 0-3, 7.
  function ranges(ids) {
    const parts = [];
    for (const id of [...(ids || [])].sort((a, b) => a - b)) {
      const last = parts[parts.length - 1];
      if (last && last[1] === id - 1) last[1] = id;
      else parts.push([id, id]);
    }
    return parts.map(([low, high]) => (low === high ? `${low}` : `${low}–${high}`)).join(", ");
  }

  function contact(rank, isRunning) {
    const text = rank.contact || "";
    if (isBad(rank)) return { text: `⚠ ${text}`, mark: "bad" };
    return isRunning ? text : ""; // no rank of a run that has ended is on time
  }

  function table(run) {
    const isRunning = run.state.state === "running";
    const columns = [
      ["rank", (rank) => rank.rank],
      ["host", (rank) => ({ text: rank.host || "", note: rank.pid ? `process ${rank.pid}` : "" })],
      ["members", (rank) => ranges(rank.members)],
      ["state", (rank) => ({ text: rank.state || "", note: rank.remark || "" })],
      ["round", (rank) => rank.round],
      ["heartbeat", (rank) => contact(rank, isRunning)],
      ["silent", (rank) => isRunning && isNumber(rank.silent)
        && { text: duration(rank.silent), value: rank.silent }],
      ["members per second", (rank) => (isNumber(rank.speed) ? rank.speed : null)],
      ["memory used", (rank) => isNumber(rank.used)
        && { text: bytes(rank.used), value: rank.used }],
      ["device", (rank) => ({ text: rank.device || "",
        note: rank.cores ? `${rank.cores} cores, ${bytes(rank.memory)}` : "" })],
    ];
    const rows = run.ranks.map((rank) => columns.map(([, cell]) => cell(rank) || cell(rank) === 0
      ? cell(rank) : null));
    return {
      columns: columns.map(([name]) => name), rows, sortable: true, compact: true,
      caption: "Ranks with hosts, members, states and heartbeats",
    };
  }

  Remuda.sections.push({
    id: "ranks",
    title: "Ranks",
    has: (run) => (run.ranks || []).length > 0,
    build(element, run) {
      const view = Remuda.table(element, table(run));
      return (next) => view.update(table(next));
    },
  });

  const ACTIONS = {
    drop: "training continued without their members", move: "their members moved to other ranks",
    rehome: "their members moved to other ranks", stop: "the run stopped",
  };

  function sentence(failure, run) {
    const text = Remuda.axes.failureText(failure, run.noun);
    const action = ACTIONS[failure.action] || failure.action || "";
    return `${text[0].toUpperCase()}${text.slice(1)}${action ? `; ${action}` : ""}`;
  }

  function draw(box, run) {
    const lost = run.members.filter((member) => member.lost);
    box.replaceChildren(
      el("ul", {}, (run.failures || []).map((failure) => el("li", {}, sentence(failure, run),
        failure.time ? el("span", { class: "soft" }, ` (${time(failure.time)})`) : null))),
      lost.length
        ? el("p", {}, el("span", { class: "bad" }, "⚠ Lost: "), lost.map((member) =>
          `${member.name} (after round ${number(member.lost.round)})`).join(", "))
        : ""
    );
  }

  Remuda.sections.push({
    id: "failures",
    title: "Failures",
    has: (run) => (run.failures || []).length > 0 || run.members.some((member) => member.lost),
    build(element, run) {
      const box = el("div", {});
      element.append(box);
      draw(box, run);
      return (next) => draw(box, next);
    },
  });
})();
