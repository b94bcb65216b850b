// Follow a run: ask the server for what is new, and say so when it cannot be reached.
"use strict";

(() => {
  const INTERVAL = 2000; // milliseconds
  const HIDDEN = 5; // times the interval, in a tab that nobody sees

  function address(live, curves) {
    const url = new URL(live.url, location.href);
    // The last point may have been incomplete, so it is read again.
    url.searchParams.set("generation", curves.generation);
    url.searchParams.set("from", Math.max(0, curves.rounds.length - 1));
    return url;
  }

  // `run()` returns the present model; `receive(payload)` takes a new payload.
  Remuda.follow = (live, head, run, receive) => {
    let tag = null;
    let asked = "";
    let lostSince = null;

    function reached() {
      if (!lostSince) return;
      lostSince = null;
      head.offline.hidden = true;
      Remuda.announce("The server answers again.");
    }

    function unreachable(why) {
      if (lostSince) return;
      lostSince = new Date();
      const since = lostSince.toLocaleTimeString("en-GB");
      head.offline.textContent =
        `Not reachable since ${since} (${why}). The page shows what it has, and keeps trying.`;
      head.offline.hidden = false;
      Remuda.announce(head.offline.textContent);
    }

    async function ask() {
      const url = address(live, run().curves);
      const isSame = url.href === asked && tag;
      const headers = isSame ? { "If-None-Match": tag } : {};
      const answer = await fetch(url, { headers, cache: "no-store" });
      if (answer.status === 304) return;
      if (!answer.ok) throw new Error(await Remuda.refusal(answer));
      const payload = await answer.json();
      tag = answer.headers.get("ETag");
      asked = url.href;
      receive(payload);
    }

    async function loop() {
      try {
        await ask();
        reached();
      } catch (error) {
        unreachable(error instanceof TypeError ? "no connection" : error.message);
      }
      const pause = (live.interval || INTERVAL) * (document.hidden ? HIDDEN : 1);
      setTimeout(loop, pause);
    }

    setTimeout(loop, live.interval || INTERVAL);
  };
})();
