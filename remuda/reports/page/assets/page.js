// Put the page of a run together: the header, the sections that have something to show, and live
// updates. A section is {id, title, has(run), build(element, run) -> update(run)}.
"use strict";

(() => {
  const { el } = Remuda;

  // A section appears when it has content for the first time.
  function place(section, before, main) {
    const heading = el("h2", { id: `${section.id}-title`, tabindex: "-1" }, section.title);
    const element = el("section", {
      id: section.id, "aria-labelledby": `${section.id}-title`, hidden: true,
    }, heading);
    main.insertBefore(element, before);
    return { ...section, element, heading, refresh: null };
  }

  function refresh(section, run) {
    const isShown = section.has(run);
    section.element.hidden = !isShown;
    if (!isShown) return;
    if (section.refresh) section.refresh(run);
    else section.refresh = section.build(section.element, run);
  }

  // The address after "#" keeps the reader's choices, so links only scroll.
  function contents(placed) {
    const list = el("ul", { class: "contents" });
    const update = () => {
      const shown = placed.filter((section) => !section.element.hidden);
      if (list.childElementCount === shown.length) return;
      list.replaceChildren(...shown.map((section) => {
        const go = (event) => {
          event.preventDefault();
          section.element.scrollIntoView();
          section.heading.focus({ preventScroll: true });
        };
        const link = el("a", { href: `#${section.id}`, onclick: go }, section.title);
        return el("li", {}, link);
      }));
    };
    return { element: el("nav", { "aria-label": "Contents" }, list), update };
  }

  Remuda.announce = (text) => {
    document.getElementById("announcements").textContent = text;
  };

  function announceChanges(before, run) {
    if (run.state.state !== before.state.state) {
      Remuda.announce(`The run is now: ${Remuda.stateWords(run.state)}.`);
    } else if (run.failures.length > before.failures.length) {
      const failure = run.failures[run.failures.length - 1];
      Remuda.announce(`Failure ${Remuda.axes.failureText(failure, run.noun)}.`);
    }
  }

  function start() {
    const main = document.getElementById("main");
    let run = Remuda.model(null, Remuda.read("payload"));
    main.replaceChildren();
    const head = Remuda.head(main, run);
    const placed = Remuda.sections.map((section) => place(section, null, main));
    const nav = contents(placed);
    main.insertBefore(nav.element, placed[0].element);

    function draw() {
      for (const section of placed) refresh(section, run);
      nav.update();
    }

    draw();
    if (Remuda.live) {
      Remuda.follow(Remuda.live, head, () => run, (payload) => {
        const before = run;
        run = Remuda.model(run, payload);
        head.update(run);
        draw();
        announceChanges(before, run);
      });
    }
    requestAnimationFrame(() => {
      document.documentElement.setAttribute("data-drawn", "yes");
      Remuda.drawnAfter = performance.now(); // milliseconds since the navigation, for tests
    });
  }

  start();
})();
