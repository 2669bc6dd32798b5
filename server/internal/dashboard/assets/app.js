"use strict";

// What pages do with scripts: they stay live, actions open in a dialog, charts move, keys work.
(() => {
  const $ = (selector, from = document) => from.querySelector(selector);

  // Live sections. A tab that nobody sees has no connection: browsers allow only six to a server over HTTP/1.1.
  const sources = new Set();
  const status = $("#connection");

  function connected(yes) {
    status.className = yes ? "live" : "lost";
    status.textContent = yes ? "live" : "not connected, trying again";
  }

  class LiveSource extends EventTarget {
    constructor(url) {
      super();
      this.url = url;
      this.names = new Set(["alive"]);
      this.readyState = EventSource.CONNECTING;
      this.wait = 250;
      this.forward = (e) => {
        this.hears();
        this.dispatchEvent(new MessageEvent(e.type, { data: e.data }));
      };
      sources.add(this);
      this.open();
    }

    open() {
      if (this.native || document.hidden || this.readyState === EventSource.CLOSED) return;
      const native = (this.native = new EventSource(this.url));
      for (const name of this.names) native.addEventListener(name, this.forward);
      this.hears();
      native.onopen = () => {
        this.wait = 250;
        this.readyState = EventSource.OPEN;
        clearTimeout(this.late);
        connected(true);
        if (this.onopen) this.onopen();
        if (missed) htmx.trigger(missed, "submit");
        missed = null;
      };
      native.onerror = () => {
        this.suspend();
        clearTimeout(this.late);
        this.late = setTimeout(() => connected(false), 1500); // a stream that has only come to its end is there again by then
        this.wait = Math.min(this.wait * 2, 4000);
        this.again = setTimeout(() => this.open(), this.wait);
        checkSession();
      };
    }

    // A connection can be gone without an end, and then nothing comes any more, not even that the server is alive.
    hears() {
      clearTimeout(this.silent);
      this.silent = setTimeout(() => this.native?.onerror(), 40000);
    }

    suspend() {
      clearTimeout(this.again);
      clearTimeout(this.silent);
      if (this.native) this.native.close();
      this.native = null;
    }

    close() {
      this.readyState = EventSource.CLOSED;
      clearTimeout(this.late);
      this.suspend();
      sources.delete(this);
    }

    addEventListener(name, listener) {
      super.addEventListener(name, listener);
      if (this.names.has(name)) return;
      this.names.add(name);
      if (this.native) this.native.addEventListener(name, this.forward);
    }
  }
  htmx.createEventSource = (url) => new LiveSource(url);

  // A search that did not get through is made when the server is there again.
  let missed = null;
  document.addEventListener("htmx:sendError", (e) => {
    if (e.target.matches("form")) missed = e.target;
    for (const s of [...sources]) {
      s.suspend();
      s.open();
    }
  });

  // What is typed before there are scripts is searched for, too.
  document.addEventListener("DOMContentLoaded", () => {
    const find = $(".find input");
    if (find && find.value !== find.defaultValue) htmx.trigger(find.form, "submit");
  });

  // An open payload stays open while it is the same.
  Idiomorph.defaults.callbacks.beforeNodeMorphed = (old, fresh) => {
    if (old.nodeName === "DETAILS" && $("summary", old).textContent === $("summary", fresh).textContent) fresh.open = old.open;
  };

  // A session that has ended leads to the page where one signs in.
  async function checkSession() {
    try {
      const answer = await fetch(location.href, { redirect: "manual", headers: { Accept: "text/html" } });
      if (answer.type === "opaqueredirect") location.reload();
    } catch {
      // the server is not there: the stream tries again
    }
  }

  let hiding;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hiding);
    if (document.hidden) {
      hiding = setTimeout(() => sources.forEach((s) => s.suspend()), 5000);
    } else {
      sources.forEach((s) => s.open());
    }
  });

  // A page that is left may be kept for the way back, its streams with it, and six of them let nothing else through.
  addEventListener("pagehide", () => sources.forEach((s) => s.suspend()));
  addEventListener("pageshow", (e) => {
    if (e.persisted) sources.forEach((s) => s.open());
  });

  // Actions open in a dialog, that says what they will do.
  const dialog = $("#dialog");
  document.addEventListener("htmx:afterSwap", (e) => {
    if (e.detail.target !== dialog) return;
    if (!dialog.open) dialog.showModal();
    const first = $("input:not([type=hidden]), textarea", dialog) || $("button", dialog);
    if (first) first.focus();
  });
  document.addEventListener("htmx:responseError", (e) => {
    location.href = e.detail.pathInfo.finalRequestPath; // the whole page says what is wrong
  });
  document.addEventListener("click", (e) => {
    if ((e.ctrlKey || e.metaKey || e.shiftKey) && e.target.closest("a")) e.stopPropagation(); // a tab or window of its own
  }, true);
  document.addEventListener("click", (e) => {
    if (e.target.closest("#dialog [data-close]")) {
      e.preventDefault();
      dialog.close();
    }
  });
  dialog.addEventListener("close", () => {
    const live = $("[sse-connect]", dialog);
    if (live) htmx.remove(live); // and its stream with it
    dialog.replaceChildren();
  });

  // Keys.
  const keys = $("#keys");
  const help = $(".help");
  help.hidden = false;
  help.addEventListener("click", () => keys.showModal());

  function move(by) {
    const rows = [...document.querySelectorAll("table.rows tbody tr")];
    if (rows.length === 0) return;
    const at = rows.findIndex((r) => r.contains(document.activeElement));
    const row = rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + by))];
    const link = $("a", row);
    if (link) link.focus();
    row.scrollIntoView({ block: "nearest" });
  }

  const places = { q: "./", p: "./periodic", w: "./workers", s: "./store" };
  let going = 0;
  document.addEventListener("keydown", (e) => {
    if (e.key === "Enter" && e.repeat && dialog.open) e.preventDefault(); // it has opened the dialog
    const typing = e.target.closest("input, textarea, select");
    if (typing && e.key === "Escape" && !e.target.closest("dialog")) typing.blur();
    if (typing || e.ctrlKey || e.metaKey || e.altKey || $("dialog[open]")) return;
    if (Date.now() - going < 1500 && places[e.key]) {
      location.href = places[e.key];
      return;
    }
    going = e.key === "g" ? Date.now() : 0;
    switch (e.key) {
      case "/": {
        const find = $("#find, [data-find]");
        e.preventDefault();
        if (find) find.select();
        else location.href = "./?#find";
        break;
      }
      case "j": move(1); break;
      case "k": move(-1); break;
      case "n": $("a[rel=next]")?.click(); break;
      case "?": keys.showModal(); break;
    }
  });
  if (location.hash === "#find") $("#find")?.focus();

  // Charts.
  const charts = $(".charts");
  if (!charts || !window.uPlot) return;
  const lines = {
    depth: { of: charts.dataset.work === "true" ? [["depth", "depth", "accent"], ["leased", "leased", "good"], ["dead", "dead", "bad"]] : [["depth", "items", "accent"]], show: count },
    rates: { of: [["in", "in", "accent"], ["out", "out", "good"]].concat(charts.dataset.work === "true" ? [["failed", "failed", "bad"]] : []), show: (v) => (v < 10 ? v.toFixed(1) : count(v)) },
    wait: { of: [["wait50", "median", "accent"], ["wait95", "95 %", "warn"], ["wait99", "99 %", "bad"]], show: duration },
    work: { of: [["work50", "median", "accent"], ["work95", "95 %", "warn"], ["work99", "99 %", "bad"]], show: duration },
    age: { of: [["age", "age", "accent"]], show: duration },
  };

  function count(v) {
    if (v >= 1e6) return +(v / 1e6).toPrecision(3) + " M";
    if (v >= 1e4) return +(v / 1e3).toPrecision(3) + " k";
    return (+v.toPrecision(4)).toLocaleString("en");
  }

  function duration(s) {
    if (s === 0) return "0";
    if (s < 0.001) return +(s * 1e6).toPrecision(2) + " µs";
    if (s < 1) return +(s * 1e3).toPrecision(3) + " ms";
    if (s < 120) return +s.toPrecision(3) + " s";
    if (s < 7200) return +(s / 60).toPrecision(3) + " min";
    return +(s / 3600).toPrecision(3) + " h";
  }

  // The values of the page's colours, which may say light-dark(), are known only as they are used.
  function used(name) {
    const probe = document.createElement("i");
    probe.className = "hidden";
    probe.style.color = `var(--${name})`;
    charts.append(probe);
    const value = getComputedStyle(probe).color;
    probe.remove();
    return value;
  }

  const lengths = { "10m": 600, "3h": 1080, "2d": 1440 };
  let span = "10m";
  let data = null;
  let reading = null; // the points that come while all are read
  let plots = [];
  let rem, height; // charts grow with the text

  function measure() {
    rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    height = Math.round(11.4 * rem);
  }

  function columns(of) {
    const times = data.values.depth.map((_, i) => data.start + i * data.step);
    return [times, ...of.map(([name]) => data.values[name])];
  }

  function clock(s) {
    const options = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
    if (span === "2d") options.weekday = "short";
    return new Date(s * 1000).toLocaleString([], options);
  }

  // Where there is no cursor, a legend has the last values that are known.
  function legend(u) {
    if (u.cursor.left >= 0) return;
    const idx = u.data[0].findLastIndex((_, i) => u.data.slice(1).some((values) => values[i] != null));
    u.setLegend({ idx: idx < 0 ? u.data[0].length - 1 : idx }, false);
  }

  function show() {
    for (const { plot, of, element } of plots) {
      plot.setData(columns(of));
      const nothing = $(".nothing", element.parentElement);
      if (nothing) nothing.hidden = of.some(([name]) => data.values[name].some((v) => v != null));
    }
  }

  function draw() {
    for (const p of plots) p.plot.destroy();
    plots = [];
    measure();
    const axis = { stroke: used("soft"), grid: { stroke: used("line"), width: 1 }, ticks: { show: false }, font: `${0.8 * rem}px system-ui, sans-serif` };
    for (const element of charts.querySelectorAll("[data-chart]")) {
      const { of, show: text } = lines[element.dataset.chart];
      element.replaceChildren();
      const options = {
        width: element.clientWidth,
        height,
        hooks: { ready: [legend], setCursor: [legend], setData: [legend] },
        cursor: { sync: { key: "charts" }, y: false, points: { size: 6 } },
        legend: { live: true },
        scales: { x: { time: true, range: (_, low, high) => [high - data.step * lengths[span], high] }, y: { range: (_, low, high) => [0, Math.max(high || 0, text === duration ? 0.001 : 1) * 1.05] } },
        axes: [{ ...axis, space: 5 * rem, size: 2 * rem, values: (_, all) => all.map(clock) }, { ...axis, size: 4 * rem, values: (_, all) => all.map(text) }],
        series: [{ label: "at", value: (_, v) => (v == null ? "–" : new Date(v * 1000).toLocaleTimeString([], { hourCycle: "h23" })) }].concat(
          of.map(([, label, name], i) => ({
            label,
            stroke: used(name),
            width: 1.5,
            fill: i === 0 && of.length < 3 ? used(name).replace("rgb(", "rgba(").replace(")", ", 0.08)") : undefined,
            points: { show: text === duration && data.step === 1, size: 4 },
            spanGaps: text === duration,
            value: (_, v) => (v == null ? "–" : text(v)),
          }))
        ),
      };
      plots.push({ plot: new uPlot(options, columns(of), element), of, element });
    }
  }

  async function load() {
    const mine = (reading = []);
    let read;
    try {
      const answer = await fetch(`${charts.dataset.from}&span=${span}`);
      if (answer.ok) read = await answer.json();
    } finally {
      if (mine === reading) reading = null;
    }
    if (reading || !read) return;
    const before = data;
    data = read;
    if (before?.step !== data.step) draw();
    show();
    mine.filter((p) => p.start > last()).forEach(point);
  }

  function last() {
    return data.start + (data.values.depth.length - 1) * data.step;
  }

  // A second of a live page. Where one was missed, all are read again.
  function point(next) {
    if (!next) return;
    if (reading) return reading.push(next);
    if (!data) return load(); // the queue was too new, or the server away
    if (span !== "10m") {
      if (next.start % (span === "3h" ? 10 : 120) === 0) load();
      return;
    }
    const n = data.values.depth.length;
    const gap = next.start - last();
    if (gap > 1 || gap < -1) return load();
    for (const name in data.values) {
      if (gap === 1) data.values[name].push(next.values[name][0]);
      else data.values[name][n - 1 + gap] = next.values[name][0];
      if (data.values[name].length > 600) data.values[name].shift();
    }
    if (gap === 1 && n === 600) data.start += 1;
    show();
    charts.dataset.last = next.start;
  }

  const sink = $("#points");
  sink.addEventListener("htmx:sseBeforeMessage", (e) => {
    e.preventDefault();
    point(JSON.parse(e.detail.data));
  });

  const group = $(".spans", charts);
  group.hidden = false;
  group.addEventListener("click", (e) => {
    const button = e.target.closest("button");
    if (!button) return;
    for (const b of group.children) b.setAttribute("aria-pressed", String(b === button));
    span = button.dataset.span;
    data = null;
    load();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => data && draw());
  new ResizeObserver(() => {
    const before = rem;
    measure();
    if (data && rem !== before) draw();
    for (const { plot, element } of plots) plot.setSize({ width: element.clientWidth, height });
  }).observe(charts);
  load();
})();
