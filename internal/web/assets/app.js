// What pages do beyond HTML. Each part is an extra: without it the page still does its work, but for live updates, which
// htmx makes. Nothing here builds HTML from data.
"use strict";
(() => {
  const $ = (selector, from = document) => from.querySelector(selector);
  const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];

  // Light or dark: as the system has it, unless the reader has said otherwise.
  const root = document.documentElement;
  const remembered = (() => { try { return localStorage.getItem("theme"); } catch { return null; } })();
  if (remembered) root.dataset.theme = remembered;
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

  // Times grow old while the page is open.
  const ago = (then, now) => {
    const s = Math.abs(now - then) / 1000;
    const [n, unit] = s < 1 ? [0, ""] : s < 60 ? [s, "s"] : s < 3600 ? [s / 60, "min"] : s < 172800 ? [s / 3600, "h"] : [s / 86400, "days"];
    if (!unit) return "now";
    return then > now ? `in ${Math.floor(n)} ${unit}` : `${Math.floor(n)} ${unit} ago`;
  };
  const offset = Date.parse(document.body.dataset.now) - Date.now() || 0; // the server's clock is the one that counts
  const retime = () => $$("time.when").forEach((t) => { $(".ago", t).textContent = ago(Date.parse(t.dateTime), Date.now() + offset); });
  setInterval(retime, 5000);

  // Charts. The figures come in data-chart; colours are those of the stylesheet.
  const colour = (name) => {
    const probe = document.createElement("i");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    const value = getComputedStyle(probe).color;
    probe.remove();
    return value;
  };
  // uPlot keeps all that it has drawn until it is told, also what is on the page no more.
  const drop = (box) => { if (box.plot) box.plot.destroy(); delete box.plot; };
  const draw = (box) => {
    if (typeof uPlot === "undefined") return;
    const spec = JSON.parse(box.dataset.chart);
    const [ink, line] = [colour("quiet"), colour("line")];
    const show = (v) => v == null ? "" : v >= 1e6 ? `${+(v / 1e6).toPrecision(3)}M` : v >= 1e4 ? `${+(v / 1e3).toPrecision(3)}k` : `${+v.toPrecision(3)}`;
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const stacked = spec.stacked ? spec.series.map((_, i) => spec.x.map((_, t) => spec.series.slice(0, i + 1).reduce((sum, s) => sum + (s.values[t] || 0), 0))) : spec.series.map((s) => s.values);
    const order = spec.series.map((_, i) => i).reverse(); // the highest of a stack lies behind
    const series = order.map((i) => ({
      label: spec.series[i].label, stroke: colour(spec.series[i].colour), width: 1.5, points: { show: false },
      fill: spec.stacked ? colour(spec.series[i].colour) : undefined,
      paths: spec.stacked ? uPlot.paths.bars({ size: [0.85] }) : undefined,
    }));
    const two = (n) => String(n).padStart(2, "0");
    const utc = (ts) => { const d = new Date(ts * 1e3); return [d, `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}`]; };
    const days = spec.x.length > 1 && spec.x[spec.x.length - 1] - spec.x[0] > 36 * 3600;
    const times = (_, ts) => ts.map((t) => { const [d, clock] = utc(t); return days ? `${d.getUTCMonth() + 1}-${two(d.getUTCDate())}${clock === "00:00" ? "" : ` ${clock}`}` : clock; });
    drop(box);
    const plot = new uPlot({
      width: box.clientWidth, height: 220, series: [{}, ...series], legend: { show: false },
      cursor: { show: true, y: false, points: { show: !spec.stacked } }, tzDate: (ts) => uPlot.tzDate(new Date(ts * 1e3), "Etc/UTC"),
      axes: [{ ...axis, values: times, space: days ? 80 : 50 }, { ...axis, size: 56, values: (_, vs) => vs.map((v) => v == null ? "" : show(v) + (spec.unit ? ` ${spec.unit}` : "")) }],
      scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.05 : 1] } },
    }, [spec.x, ...order.map((i) => stacked[i])], box);
    box.plot = plot;
  };
  const charts = () => $$("[data-chart]").forEach(draw);
  addEventListener("resize", () => $$("[data-chart]").forEach((b) => b.plot && b.plot.setSize({ width: b.clientWidth, height: 220 })));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", charts);

  // How many rows are chosen, and all of them at once.
  const boxes = () => $$('tbody input[type="checkbox"][name="id"]');
  const tally = () => {
    const all = boxes(), chosen = all.filter((b) => b.checked).length;
    $$("[data-chosen]").forEach((e) => { e.textContent = chosen; });
    $$("[data-needs-chosen]").forEach((b) => { b.disabled = chosen === 0; });
    const every = $("[data-choose-all]");
    if (every) { every.checked = chosen > 0 && chosen === all.length; every.indeterminate = chosen > 0 && chosen < all.length; }
  };

  document.addEventListener("change", (e) => {
    if (e.target.matches("[data-choose-all]")) boxes().forEach((b) => { b.checked = e.target.checked; });
    if (e.target.matches("[data-submit]")) e.target.form.requestSubmit();
    tally();
  });

  const flash = (button, word) => {
    const label = $("[data-word]", button) || button;
    const before = label.textContent;
    label.textContent = word;
    setTimeout(() => { label.textContent = before; }, 1500);
  };
  document.addEventListener("click", async (e) => {
    const button = e.target.closest("button, a");
    if (!button) return;
    if (button.matches("[data-theme-toggle]")) {
      root.dataset.theme = isDark() ? "light" : "dark";
      try { localStorage.setItem("theme", root.dataset.theme); } catch { /* for this page only, then */ }
      charts();
    }
    if (button.matches("[data-copy]")) {
      const from = document.getElementById(button.dataset.copy);
      try { await navigator.clipboard.writeText(from.value ?? from.textContent); flash(button, "Copied"); } catch { flash(button, "Press Ctrl+C"); getSelection().selectAllChildren(from); }
    }
    if (button.matches("[data-close]")) button.closest("dialog").close();
    if (button.matches("[data-help]")) help();
  });

  // What cannot be taken back asks first.
  document.addEventListener("submit", (e) => {
    const question = (e.submitter && e.submitter.dataset.confirm) || e.target.dataset.confirm;
    if (!question || e.target.dataset.sure) return;
    e.preventDefault();
    const dialog = $("#confirm");
    $("p", dialog).textContent = question;
    dialog.showModal();
    dialog.onclose = () => {
      if (dialog.returnValue !== "yes") return;
      e.target.dataset.sure = "1";
      e.target.requestSubmit(e.submitter);
      delete e.target.dataset.sure;
    };
    dialog.returnValue = "";
  });

  // Keys, as where people live in lists: / search, j and k move, o open, x choose, r retry, ? help.
  let at = -1;
  const rows = () => $$("tbody tr[data-row]");
  const move = (by) => {
    const all = rows();
    if (!all.length) return;
    at = Math.max(0, Math.min(all.length - 1, at + by));
    all.forEach((r, i) => r.classList.toggle("at", i === at));
    all[at].scrollIntoView({ block: "nearest" });
    ($("a", all[at]) || all[at]).focus({ preventScroll: true });
  };
  // Retries what was chosen, else the row, else what the page is about. A row that cannot be chosen is another's than the page.
  const retry = (row) => {
    const box = row && $('input[name="id"]', row);
    if (row && !box) return false;
    if (box && !boxes().some((b) => b.checked)) { box.checked = true; tally(); }
    const button = [$("[data-retry-chosen]"), $("[data-retry-page]")].find((b) => b && !b.disabled);
    if (button) button.click();
    return Boolean(button);
  };
  const help = () => { const d = $("#keys"); if (d && !d.open) d.showModal(); };
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.matches("input, textarea, select, [contenteditable]") || $("dialog[open]")) return;
    const row = rows()[at];
    switch (e.key) {
      case "/": { const s = $("main [data-search]") || $("[data-search]"); if (s) { e.preventDefault(); s.focus(); s.select(); } break; }
      case "j": move(1); break;
      case "k": move(-1); break;
      case "o": if (row) $("a", row).click(); break;
      case "x": if (row) { const b = $('input[name="id"]', row); if (b) { b.checked = !b.checked; tally(); } } break;
      case "r": if (retry(row)) e.preventDefault(); break;
      case "?": help(); break;
    }
  });

  const ready = () => {
    tally();
    charts();
    if (innerWidth <= 860) $$(".menu-fold").forEach((d) => d.removeAttribute("open"));
    $$("form[data-auto]").forEach((f) => f.requestSubmit());
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", ready); else ready();
  // A part of the page that is new every few seconds must not close what the reader has opened, nor lose the keyboard's place.
  let kept = null;
  const places = (part) => $$("a, button, summary, [tabindex]", part);
  document.addEventListener("htmx:beforeSwap", (e) => {
    const part = e.detail.target;
    if (!e.detail.shouldSwap || !part) return;
    kept = part.id ? { id: part.id, open: $$("details", part).map((d) => d.open), place: places(part).indexOf(document.activeElement) } : null;
    $$("[data-chart]", part).forEach(drop);
  });
  const restore = () => {
    const part = kept && document.getElementById(kept.id);
    if (!part) return;
    const folds = $$("details", part);
    if (folds.length === kept.open.length) folds.forEach((d, i) => { d.open = kept.open[i]; });
    if (kept.place >= 0) places(part)[kept.place]?.focus({ preventScroll: true });
    kept = null;
  };
  document.addEventListener("htmx:afterSettle", () => { retime(); tally(); restore(); charts(); rows()[at]?.classList.add("at"); });
})();
