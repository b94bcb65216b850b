// Remuda.poll(live, receive): ask the server for the whole payload again and again, and say so when
// it cannot be reached. It returns the element with that message.
"use strict";

(() => {
  const HIDDEN = 5; // times the interval, in a tab that nobody sees

  Remuda.poll = (live, receive) => {
    const message = Remuda.el("p", { class: "offline", role: "status", hidden: true });
    const interval = live.interval || 2000; // milliseconds
    let tag = null;

    function unreachable(why) {
      if (!message.hidden) return;
      const since = new Date().toLocaleTimeString("en-GB");
      message.textContent =
        `Not reachable since ${since} (${why}). The page shows what it has, and keeps trying.`;
      message.hidden = false;
    }

    async function ask() {
      const headers = tag ? { "If-None-Match": tag } : {};
      const answer = await fetch(new URL(live.url, location.href), { headers, cache: "no-store" });
      if (answer.status === 304) return;
      if (!answer.ok) throw new Error(await Remuda.refusal(answer));
      const payload = await answer.json();
      tag = answer.headers.get("ETag");
      receive(payload);
    }

    async function loop() {
      try {
        await ask();
        message.hidden = true;
      } catch (error) {
        unreachable(error instanceof TypeError ? "no connection" : error.message);
      }
      setTimeout(loop, interval * (document.hidden ? HIDDEN : 1));
    }

    setTimeout(loop, interval);
    return message;
  };
})();
