// Sites whose data never leave them: a row per site, with the scores against its own images.
"use strict";

(() => {
  const { el, number, isNumber } = Remuda;

  function siteTable(run) {
    const names = [...new Set(run.sites.flatMap((site) => Object.keys(site.scores)))];
    const rows = run.sites.map((site) => [
      { text: String(site.rank), value: site.rank },
      site.host,
      site.images,
      ...names.map((name) => {
        const value = site.scores[name];
        if (!isNumber(value)) return null;
        if (!site.worst.includes(name)) return { text: number(value), value };
        return { text: `⚠ ${number(value)}, worst`, value, mark: "bad" };
      }),
    ]);
    return {
      columns: ["rank", "host", "images", ...names], rows, sortable: true,
      caption: "A row per site, with the scores against its own images",
    };
  }

  Remuda.sections.push({
    id: "sites",
    title: "Sites",
    has: (run) => (run.sites || []).length > 0,
    build(element, run) {
      const view = Remuda.table(element, siteTable(run));
      element.append(el("p", { class: "soft" },
        "Each value compares the samples with the images of one site only. "
          + "No image left its site."));
      return (next) => view.update(siteTable(next));
    },
  });
})();
