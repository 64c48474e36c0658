// Shows the picture that the server tells. All texts are put in as texts, none as HTML. It shows so many rows at a time,
// however many pods there are, and changes rows rather than making them anew, so that nobody loses his place.
"use strict";
(() => {
  // As the server orders them.
  const STAGES = ["lost", "waiting", "asked", "reserved", "granted", "running", "ended"];
  // In the order in which a pod passes them.
  const TILES = ["waiting", "asked", "reserved", "granted", "running", "ended", "lost"];
  const STATES = {
    connected: "● connected", connecting: "○ connecting", unseen: "✕ unseen", lost: "✕ lost", gone: "✕ gone",
  };
  const PAGE = 50;
  const PAINT_EVERY = 300;
  const TELL_EVERY = 5000;
  const REPEAT_AFTER = 60000;
  const AGES_EVERY = 10000;
  const SILENCE = 30000;
  const TRY_AGAIN = 5000;
  const REFUSAL_LIMIT = 5000;

  const byId = (id) => document.getElementById(id);
  const count = new Intl.NumberFormat("en");
  const pods = new Map();
  const targets = new Map();
  let head = { leads: true, counts: STAGES.map(() => 0), hiddenPods: 0, hiddenTargets: 0 };
  let losses = [];
  let now = 0;
  let heardAt = 0;
  let heard = false;
  let first = 0;
  let paused = false;

  const make = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  // Who reads an element isn't disturbed by a text that is there already.
  const say = (element, text) => {
    if (element.textContent !== text) element.textContent = text;
  };
  const show = (element, text) => {
    say(element, text);
    element.hidden = text === "";
  };
  const plural = (n, one, many) => `${count.format(n)} ${n === 1 ? one : many}`;

  const time = () => now + (heard ? Math.floor((performance.now() - heardAt) / 1000) : 0);
  const age = (since) => {
    if (since === undefined) return "";
    const seconds = Math.max(0, time() - since);
    if (seconds < 120) return `${seconds} s`;
    if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
    if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
    return `${Math.floor(seconds / 86400)} d`;
  };
  const bytes = (n) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    for (; n >= 1024 && unit + 1 < units.length; unit++) n /= 1024;
    return `${n >= 100 ? Math.round(n) : Math.round(n * 10) / 10} ${units[unit]}`;
  };
  const cores = (n) => String(Math.round(n / 100) / 10);

  // ---- stages ---------------------------------------------------------------------------------------------------

  const tiles = new Map();
  for (const stage of TILES) {
    const number = make("strong", {}, "0");
    const button = make("button", { type: "button", "aria-pressed": "false", class: stage }, number, stage);
    button.addEventListener("click", () => {
      byId("stage").value = byId("stage").value === stage ? "" : stage;
      refilter();
    });
    byId("stages").append(make("li", {}, button));
    byId("stage").append(make("option", { value: stage }, stage));
    tiles.set(stage, { button, number });
  }
  const paintStages = () => {
    for (const [stage, tile] of tiles) {
      say(tile.number, count.format(head.counts[STAGES.indexOf(stage)]));
      tile.button.setAttribute("aria-pressed", String(byId("stage").value === stage));
    }
  };

  // ---- targets --------------------------------------------------------------------------------------------------

  const targetRows = new Map();
  const roomCell = (what) => {
    const meter = make("meter", { min: "0", "aria-hidden": "true" });
    const text = make("span");
    const cell = make("td", {}, meter, text);
    return (amount, written) => {
      const [free, all] = amount;
      meter.hidden = free === null || all === null || all === 0;
      if (!meter.hidden) {
        meter.max = all;
        meter.value = free;
      }
      say(text, free === null ? "?" : `${written(free)}${all === null ? "" : ` of ${written(all)}`}`);
      cell.title = `free ${what}`;
      return cell;
    };
  };
  const makeTarget = (node) => {
    const button = make("button", { type: "button", "aria-label": `Pods of ${node}` }, node);
    button.addEventListener("click", () => {
      byId("target").value = byId("target").value === node ? "" : node;
      refilter();
      byId("pods").focus();
    });
    const state = make("td", { class: "state" });
    const since = make("td");
    const rooms = [roomCell("CPU"), roomCell("memory"), roomCell("pods")];
    const numbers = ["reserved", "granted", "running", "lost"].map((stage) => [stage, make("td", { class: "number" })]);
    const none = [null, null];
    const row = make("tr", {}, make("th", { scope: "row", "aria-label": node }, button), state, since,
      ...rooms.map((room) => room(none, String)), ...numbers.map(([, cell]) => cell));
    const option = make("option", { value: node }, node);
    byId("target").append(option);
    return { row, option, paint: (target) => {
      const why = [target.drained ? "drained" : "", target.why || ""].filter((it) => it !== "").join("; ");
      say(state, STATES[target.state] + (why === "" ? "" : `: ${why}`));
      state.className = `state ${target.state === "unseen" ? "unseen-state" : target.state}`;
      say(since, age(target.since));
      rooms[0](target.cpu, cores);
      rooms[1](target.memory, bytes);
      rooms[2](target.pods, (n) => count.format(n));
      for (const [stage, cell] of numbers) say(cell, count.format(target.counts[STAGES.indexOf(stage)]));
      button.setAttribute("aria-pressed", String(byId("target").value === node));
      say(option, node);
    } };
  };
  const paintTargets = () => {
    const body = byId("targets").tBodies[0];
    for (const [node, known] of targetRows) {
      if (targets.has(node)) continue;
      known.row.remove();
      // Who looks at its pods goes on with that until he chooses another one.
      if (byId("target").value === node) {
        say(known.option, `${node} (gone)`);
        continue;
      }
      known.option.remove();
      targetRows.delete(node);
    }
    const names = [...targets.keys()].sort();
    names.forEach((node, place) => {
      if (!targetRows.has(node)) targetRows.set(node, makeTarget(node));
      const known = targetRows.get(node);
      known.paint(targets.get(node));
      if (body.rows[place] !== known.row) body.insertBefore(known.row, body.rows[place] || null);
    });
    show(byId("targets-more"), head.hiddenTargets === 0 ? ""
      : `${plural(head.hiddenTargets, "more target is", "more targets are")} not listed.`);
  };

  // ---- pods -----------------------------------------------------------------------------------------------------

  const order = new Map(STAGES.map((stage, place) => [stage, place]));
  // Of those who have arrived the latest come first, of the others those who have waited longest.
  const direction = (stage) => (stage === "running" || stage === "ended" ? -1 : 1);
  const matching = () => {
    const text = byId("text").value.trim().toLowerCase();
    const [stage, target] = [byId("stage").value, byId("target").value];
    const found = [];
    for (const pod of pods.values()) {
      if (stage !== "" && pod.stage !== stage) continue;
      if (target !== "" && pod.at !== target) continue;
      if (text !== "" && !`${pod.ns}/${pod.name}`.toLowerCase().includes(text)) continue;
      found.push(pod);
    }
    const compare = (a, b) => (a < b ? -1 : Number(a > b));
    return found.sort((a, b) => order.get(a.stage) - order.get(b.stage)
      || direction(a.stage) * (a.since - b.since) || compare(a.ns, b.ns) || compare(a.name, b.name));
  };
  const fill = (body, rows, cells) => {
    while (body.rows.length > rows.length) body.deleteRow(-1);
    rows.forEach((row, place) => {
      const texts = cells(row);
      const tr = body.rows[place] || body.insertRow();
      texts.forEach(([text, kind], column) => {
        const cell = tr.cells[column] || tr.insertCell();
        say(cell, text);
        if (cell.className !== (kind || "")) cell.className = kind || "";
      });
    });
  };
  const paintPods = () => {
    const found = matching();
    if (first >= found.length) first = Math.max(0, (Math.ceil(found.length / PAGE) - 1) * PAGE);
    const page = found.slice(first, first + PAGE);
    fill(byId("list").tBodies[0], page, (pod) => [
      [pod.ns], [pod.name], [pod.stage, pod.stage], [pod.at || ""], [age(pod.since)], [pod.why || ""],
    ]);
    say(byId("shown"), found.length === 0 ? "No pods"
      : `Pods ${count.format(first + 1)} to ${count.format(first + page.length)} of ${count.format(found.length)}`);
    // Who stands on a button that has nothing to do any more goes on from the other one.
    const [previous, next] = [byId("previous"), byId("next")];
    const ends = [[previous, first === 0, next], [next, first + PAGE >= found.length, previous]];
    for (const [button, end] of ends) if (!end) button.disabled = false;
    for (const [button, end, other] of ends) {
      if (!end) continue;
      if (document.activeElement === button && !other.disabled) other.focus();
      button.disabled = true;
    }
    show(byId("pods-more"), head.hiddenPods === 0 ? ""
      : `${plural(head.hiddenPods, "more pod is", "more pods are")} counted above and not listed.`);
  };
  const tellFound = () => say(byId("found"), byId("shown").textContent);
  const refilter = () => {
    first = 0;
    paint();
    tellFound();
  };
  byId("filter").addEventListener("input", refilter);
  byId("filter").addEventListener("submit", (event) => event.preventDefault());
  byId("filter").addEventListener("reset", () => setTimeout(refilter));
  byId("previous").addEventListener("click", () => {
    first = Math.max(0, first - PAGE);
    paintPods();
    tellFound();
  });
  byId("next").addEventListener("click", () => {
    first += PAGE;
    paintPods();
    tellFound();
  });

  // ---- everything -----------------------------------------------------------------------------------------------

  const paintLosses = () => fill(byId("losses").tBodies[0], losses,
    (loss) => [[`${age(loss.when)} ago`], [loss.pod], [loss.why]]);
  let timer = 0;
  const paint = () => {
    clearTimeout(timer);
    timer = 0;
    paintStages();
    paintTargets();
    paintPods();
    paintLosses();
    show(byId("notice"), head.leads ? ""
      : "This replica doesn't lead, so it knows of no pods. \"kubectl pilotage dashboard\" finds the one that does.");
  };
  // While it is paused, only what somebody does here changes what is shown.
  const soon = () => {
    if (timer === 0 && !paused) timer = setTimeout(paint, PAINT_EVERY);
  };
  setInterval(soon, AGES_EVERY);

  const paintLink = () => say(byId("link"), paused ? "Paused: what is shown may be old" : "Live");
  byId("pause").addEventListener("click", () => {
    paused = !paused;
    byId("pause").setAttribute("aria-pressed", String(paused));
    clearTimeout(timer);
    timer = 0;
    if (source.readyState === EventSource.OPEN) paintLink();
    if (!paused) paint();
  });

  // What a screen reader says: at once what somebody has to know, the rest once a minute.
  let told = "";
  let toldAt = 0;
  setInterval(() => {
    if (!heard || paused) return;
    const of = (stage) => head.counts[STAGES.indexOf(stage)];
    const all = head.counts.reduce((sum, n) => sum + n, 0);
    const connected = [...targets.values()].filter((target) => target.state === "connected").length;
    const urgent = [of("lost"), connected, targets.size].join();
    if (urgent === told && performance.now() - toldAt < REPEAT_AFTER) return;
    told = urgent;
    toldAt = performance.now();
    say(byId("summary"), `${plural(all, "pod", "pods")}: ${count.format(of("running"))} running, `
      + `${count.format(of("waiting"))} waiting, ${count.format(of("lost"))} lost. `
      + `${connected} of ${plural(targets.size, "target", "targets")} connected.`);
  }, TELL_EVERY);

  const take = (change) => {
    if (change.reset) {
      pods.clear();
      targets.clear();
    }
    now = change.now;
    heardAt = performance.now();
    heard = true;
    if (change.head) head = change.head;
    for (const node of change.targetsGone || []) targets.delete(node);
    for (const uid of change.podsGone || []) pods.delete(uid);
    for (const target of change.targets || []) targets.set(target.node, target);
    for (const pod of change.pods || []) pods.set(pod.uid, pod);
    if (change.losses) losses = change.losses;
    paintLink();
    soon();
  };

  const EVENTS = "/dashboard/events";
  // An event source doesn't tell what a server says that refuses it.
  const refusal = async () => {
    const stop = new AbortController();
    const late = setTimeout(() => stop.abort(), REFUSAL_LIMIT);
    try {
      const response = await fetch(EVENTS, { signal: stop.signal });
      return response.ok ? "" : (await response.text()).slice(0, 300).trim();
    } catch {
      return "";
    } finally {
      clearTimeout(late);
      stop.abort();
    }
  };
  let source = null;
  let quietSince = 0;
  const listen = () => {
    const own = new EventSource(EVENTS);
    source = own;
    quietSince = performance.now();
    own.onmessage = (event) => {
      quietSince = performance.now();
      take(JSON.parse(event.data));
    };
    own.onerror = async () => {
      say(byId("link"), "Not connected, trying again: what is shown may be old");
      if (own.readyState !== EventSource.CLOSED) return;
      const why = await refusal();
      if (why !== "") say(byId("link"), `Not connected: ${why}`);
      setTimeout(listen, TRY_AGAIN);
    };
  };
  listen();
  // The server says something every ten seconds: a connection that has gone may not say so.
  setInterval(() => {
    if (source.readyState === EventSource.CLOSED || performance.now() - quietSince < SILENCE) return;
    say(byId("link"), "Nothing heard for a while, trying again: what is shown may be old");
    source.close();
    listen();
  }, AGES_EVERY);
})();
