// Tables and texts that the record already has in words: the paper, the time, commands, settings.
"use strict";

(() => {
  const { el } = Remuda;

  function tableSection(id, key, title) {
    Remuda.sections.push({
      id,
      title,
      has: (run) => !!run[key] && run[key].rows.length > 0,
      build(element, run) {
        const note = el("p", { class: "soft" });
        const spec = (next) => ({
          columns: next[key].columns, rows: next[key].rows, caption: next[key].title,
        });
        const heading = element.querySelector("h2");
        const view = Remuda.table(element, spec(run));
        element.append(note);
        const update = (next) => {
          heading.textContent = next[key].title || title;
          note.textContent = next[key].note || "";
          view.update(spec(next));
        };
        update(run);
        return update;
      },
    });
  }

  tableSection("paper", "paper", "Results in the paper");
  tableSection("seconds", "seconds", "Where the time went");
  tableSection("routines", "routines", "Routines");

  // The clipboard of the browser needs a secure page; the older way works in files, too.
  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const field = el("textarea", { class: "hidden", "aria-hidden": "true" });
      field.value = text;
      document.body.append(field);
      field.select();
      const isDone = document.execCommand("copy");
      field.remove();
      return isDone;
    }
  }

  function command({ title, text }) {
    const button = el("button", { type: "button", class: "small", "aria-label": `Copy: ${title}` },
      "Copy");
    button.addEventListener("click", async () => {
      const isDone = await copy(text);
      button.textContent = isDone ? "Copied" : "Select it";
      Remuda.announce(isDone ? "Copied." : "The browser refuses to copy; select the text instead.");
      setTimeout(() => (button.textContent = "Copy"), 2000);
      button.focus();
    });
    return el("div", {}, el("h3", {}, title), el("div", { class: "command" },
      el("pre", { tabindex: "0" }, text), button));
  }

  // Build again only if the texts changed, so that a selection survives a live update.
  function textSection(id, title, key, make) {
    Remuda.sections.push({
      id,
      title,
      has: (run) => (run[key] || []).length > 0,
      build(element, run) {
        const box = el("div", {});
        let shown = "";
        element.append(box);
        const update = (next) => {
          const text = JSON.stringify(next[key]);
          if (text === shown) return;
          shown = text;
          box.replaceChildren(...next[key].map(make));
        };
        update(run);
        return update;
      },
    });
  }

  textSection("commands", "Next steps", "commands", command);
  textSection("details", "Settings and environment", "details", ({ title, text }) =>
    el("details", {}, el("summary", {}, title), el("pre", { tabindex: "0" }, text)));
})();
