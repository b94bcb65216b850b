// Choose the members whose lines the charts show. The address keeps the choice.
"use strict";

(() => {
  const { el, choices, lineMark, colour, dash } = Remuda;
  const FEW = 12; // members; up to this many, all are shown at first
  const OWN = 24; // members; up to this many, each has its own colour and dashes

  function initial(members) {
    const text = choices.get("members");
    if (text === "all") return new Set(members.map((member) => member.id));
    if (text === "none") return new Set();
    if (text) return new Set(text.split(",").map(Number));
    return new Set(members.length <= FEW ? members.map((member) => member.id) : []);
  }

  // Give each chosen member a colour and dashes. With few members, each has its own. With many, a
  // new choice takes the first free ones.
  function slots() {
    const taken = new Map();
    const free = () => {
      const used = new Set(taken.values());
      let slot = 0;
      while (used.has(slot)) slot += 1;
      return slot;
    };
    return {
      of: (id) => taken.get(id) ?? 0,
      update(members, chosen) {
        for (const id of taken.keys()) if (!chosen.has(id)) taken.delete(id);
        members.forEach((member, i) => {
          if (!chosen.has(member.id) || taken.has(member.id)) return;
          taken.set(member.id, members.length <= OWN ? i : free());
        });
      },
    };
  }

  // Return {element, chosen: Set of ids, slot(id), update(members, noun)}; `changed` is called
  // after a choice. The slot of a member is the number of its colour and dashes.
  Remuda.chooser = (members, noun, changed) => {
    const chosen = initial(members);
    const styles = slots();
    const boxes = new Map();
    const search = el("input", { type: "search", placeholder: "name or number" });
    const list = el("ul", {});
    const summary = el("summary", {});
    const button = (text, action) =>
      el("button", { type: "button", class: "small", onclick: action }, text);
    const visible = () => [...boxes.values()].filter((entry) => !entry.item.hidden);
    const set = (value) => () => {
      for (const entry of visible()) mark(entry.member.id, value);
      done();
    };
    const controls = el("div", { class: "controls" },
      el("label", {}, "Search", search), button("All", set(true)), button("None", set(false)));
    const element = el("details", { class: "chooser" }, summary, controls, list);
    element.open = members.length <= FEW && matchMedia("(min-width: 42rem)").matches;

    function mark(id, value) {
      if (value) chosen.add(id);
      else chosen.delete(id);
      boxes.get(id).box.checked = value;
    }

    function describe() {
      styles.update([...boxes.values()].map((entry) => entry.member), chosen);
      for (const { member, line } of boxes.values()) {
        const slot = styles.of(member.id);
        line.replaceChildren(chosen.has(member.id)
          ? lineMark(colour(slot), dash(slot)) : lineMark("transparent"));
      }
      const plural = noun === "class" ? "classes" : `${noun}s`;
      summary.textContent = `${plural[0].toUpperCase()}${plural.slice(1)} in the charts: `
        + `${[...boxes.keys()].filter((id) => chosen.has(id)).length} of ${boxes.size}`;
    }

    function done() {
      const ids = [...chosen].sort((a, b) => a - b);
      const isAll = ids.length === boxes.size;
      choices.set("members", isAll ? "all" : ids.length ? ids.join(",") : "none");
      describe();
      changed();
    }

    function add(member) {
      const box = el("input", { type: "checkbox" });
      box.checked = chosen.has(member.id);
      box.addEventListener("change", () => {
        mark(member.id, box.checked);
        done();
      });
      const name = el("span", {});
      const line = el("span", { class: "line-box" });
      const item = el("li", {}, el("label", {}, box, line, name));
      boxes.set(member.id, { member, box, item, name, line });
      list.append(item);
    }

    function filter() {
      const text = search.value.trim().toLowerCase();
      for (const { member, item } of boxes.values()) {
        item.hidden = !`${member.name} ${member.id}`.toLowerCase().includes(text);
      }
    }

    // Another run may have taken the place of the first one, with other members.
    function update(next, kind = noun) {
      noun = kind;
      const ids = new Set(next.map((member) => member.id));
      for (const [id, { item }] of boxes) {
        if (ids.has(id)) continue;
        item.remove();
        boxes.delete(id);
        chosen.delete(id);
      }
      next.forEach((member) => {
        if (!boxes.has(member.id)) add(member);
        boxes.get(member.id).member = member;
        const { name } = boxes.get(member.id);
        const text = member.lost ? `${member.name} (lost)` : member.name;
        name.textContent = name.title = text;
        name.className = member.lost ? "bad" : "";
      });
      describe();
    }

    search.addEventListener("input", filter);
    update(members);
    return { element, chosen, slot: styles.of, update };
  };
})();
