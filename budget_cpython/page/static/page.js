"use strict";

// Times are shown in the reader's zone; what the server sent stays as the title.
const today = new Intl.DateTimeFormat(undefined, {hour: "2-digit", minute: "2-digit", hourCycle: "h23"});
const another = new Intl.DateTimeFormat(undefined, {month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23"});

function localize(root) {
  for (const one of root.querySelectorAll("time[data-at]")) {
    const at = new Date(1000 * Number(one.dataset.at));
    if (Number.isNaN(at.getTime())) continue;
    one.title = one.textContent;
    delete one.dataset.at;
    const near = at.toDateString() === new Date().toDateString();
    one.textContent = (near ? today : another).format(at);
  }
}

// Parts of the page are replaced by those that the server renders now, where they differ. A part in
// which the reader has the focus keeps it; one with a form that is being filled in stays.
const sent = new Map(); // what the server sent of each part, by its id

function take(fresh) {
  for (const old of document.querySelectorAll("[data-live]")) {
    const one = fresh.getElementById(old.id);
    if (!one) { old.remove(); continue; }
    if (sent.get(old.id) === one.innerHTML) continue;
    sent.set(one.id, one.innerHTML);
    const focus = old.contains(document.activeElement) ? place(old, document.activeElement) : null;
    const scrolled = Array.from(old.querySelectorAll(".scroll"), (box) => box.scrollLeft);
    localize(one);
    old.replaceWith(one);
    one.querySelectorAll(".scroll").forEach((box, number) => { box.scrollLeft = scrolled[number] || 0; });
    if (focus) find(one, focus)?.focus({preventScroll: true});
  }
  let before = null;
  for (const one of fresh.querySelectorAll("[data-live]")) { // those that were not there before
    if (!document.getElementById(one.id)) {
      sent.set(one.id, one.innerHTML);
      localize(one);
      if (before) before.after(one); else document.getElementById("main").append(one);
    }
    before = document.getElementById(one.id);
  }
}

function place(part, element) {
  const href = element.getAttribute("href");
  const label = element.getAttribute("aria-label");
  const same = Array.from(part.querySelectorAll(element.localName)).filter((one) =>
    one.getAttribute("href") === href && one.getAttribute("aria-label") === label);
  return {name: element.localName, href, label, number: same.indexOf(element)};
}

function find(part, {name, href, label, number}) {
  const same = Array.from(part.querySelectorAll(name)).filter((one) =>
    one.getAttribute("href") === href && one.getAttribute("aria-label") === label);
  return same[number] || same[0];
}

const live = document.getElementById("live");
let state = "";
let wanted = false;
let loading = false;

function say(word, text) {
  live.className = `live ${word}`;
  if (state !== word) live.textContent = text; // a screen reader hears changes only
  state = word;
}

async function refresh() {
  if (loading || document.hidden) { wanted = true; return; }
  loading = true;
  wanted = false;
  try {
    const answer = await fetch(location.href, {headers: {Accept: "text/html"}});
    if (answer.status === 401) return end();
    if (!answer.ok) throw new Error(String(answer.status));
    take(new DOMParser().parseFromString(await answer.text(), "text/html"));
    say("on", "Live");
  } catch {
    say("off", "No answer");
  } finally {
    loading = false;
  }
  if (wanted) setTimeout(refresh, 2000);
}

let source = null;

function end() {
  source?.close();
  say("off", "Signed out: load the page again");
}

function start() {
  const seen = document.querySelector("[data-seen]");
  if (!seen) return; // nothing on this page changes by itself
  for (const one of document.querySelectorAll("[data-live]")) sent.set(one.id, one.innerHTML);
  localize(document);
  source = new EventSource(`${document.body.dataset.updates}?seen=${encodeURIComponent(seen.dataset.seen)}`);
  source.addEventListener("open", () => say("on", "Live"));
  source.addEventListener("change", refresh);
  source.addEventListener("end", end);
  source.addEventListener("error", () => say("off", "No answer"));
  document.addEventListener("visibilitychange", () => { if (wanted && !document.hidden) refresh(); });
}

start();
localize(document);
