// Keeps the part of the page that changes, #live, as the server would now send it. Without this script pages are whole, but still.
"use strict";

const button = document.getElementById("live-button");
const text = document.getElementById("live-text");
const said = document.getElementById("said");
let paused = false;
let timer = 0;
let freshAt = Date.now();

const live = () => document.getElementById("live");
const every = () => Number(live()?.dataset.every ?? 0);

function show(state, words) {
  button.dataset.state = state;
  button.setAttribute("aria-pressed", String(paused));
  text.textContent = words;
}

// Greys what is shown, which is as old as the last answer.
function lost(state, words) {
  const seconds = Math.round((Date.now() - freshAt) / 1000);
  const age = seconds < 120 ? `${seconds}s` : seconds < 7200 ? `${Math.floor(seconds / 60)}m` : `${Math.floor(seconds / 3600)}h`;
  live()?.classList.add("stale");
  show(state, `${words}, ${age} old`);
}

// Makes `old` equal to `now`, and leaves alone what is equal, so that focus, selection and open details stay.
function morph(old, now) {
  if (old.isEqualNode(now) || (old.dataset && "keep" in old.dataset)) return;
  if (old.nodeType !== now.nodeType || old.nodeName !== now.nodeName) return old.replaceWith(now.cloneNode(true));
  if (old.nodeType !== Node.ELEMENT_NODE) return void (old.nodeValue = now.nodeValue);
  for (const { name, value } of now.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const { name } of [...old.attributes]) if (!now.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  const keyed = new Map([...old.children].filter((each) => each.dataset?.key).map((each) => [each.dataset.key, each]));
  [...now.childNodes].forEach((child, at) => {
    const known = child.dataset?.key && keyed.get(child.dataset.key);
    const place = old.childNodes[at];
    if (known && known !== place) old.insertBefore(known, place ?? null);
    const mine = known || old.childNodes[at];
    if (!mine) old.append(child.cloneNode(true));
    else if (!known && mine.dataset?.key) old.insertBefore(child.cloneNode(true), mine);
    else morph(mine, child);
  });
  while (old.childNodes.length > now.childNodes.length) old.lastChild.remove();
}

async function refresh() {
  try {
    const reply = await fetch(location.href, { headers: { "X-Sublet-Live": "1" }, redirect: "error", cache: "no-store" });
    if (reply.status === 401) return lost("gone", "Signed out");
    if (!reply.ok) throw new Error(String(reply.status));
    const fresh = new DOMParser().parseFromString(await reply.text(), "text/html").getElementById("live");
    if (!fresh || !live()) throw new Error("no live part");
    const before = live().dataset.said;
    morph(live(), fresh);
    if (before !== live().dataset.said) said.textContent = live().dataset.said;
    freshAt = Date.now();
    show("live", "Live");
  } catch {
    lost("lost", "No connection");
  }
  plan();
}

function plan() {
  clearTimeout(timer);
  if (!live() || paused || document.hidden) return;
  if (every() > 0) timer = setTimeout(refresh, 1000 * every());
  else button.hidden = true;
}

if (button && live() && every() > 0) {
  button.hidden = false;
  show("live", "Live");
  button.addEventListener("click", () => {
    paused = !paused;
    show(paused ? "paused" : "live", paused ? "Paused" : "Live");
    if (paused) plan();
    else refresh();
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? plan() : refresh()));
  plan();
}

// A choice in a filter shows at once; its button is for browsers without this script.
for (const form of document.querySelectorAll(".filter form"))
  for (const select of form.querySelectorAll("select")) select.addEventListener("change", () => form.requestSubmit());

// Typing in a field beside a radio button chooses it.
for (const field of document.querySelectorAll(".choice input:not([type=radio]), .choice select"))
  field.addEventListener("focus", () => (field.parentElement.querySelector("[type=radio]").checked = true));

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const search = document.querySelector("input[type=search]");
  if (search) {
    event.preventDefault();
    search.focus();
  }
});

// On a narrow screen the open page's tab may be out of sight.
document.querySelector(".tabs [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
