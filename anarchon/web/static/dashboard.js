// Keeps the page up to date: asks for its changing part again, and changes only what is new, so
// that focus, selections and what is unfolded stay as they are. Everything works without it.
"use strict";

(() => {
  const fresh = document.getElementById("fresh");
  const stale = document.querySelector("[data-stale]");
  const toggle = document.querySelector("[data-toggle]");
  const every = Number(fresh?.dataset.refresh ?? 0);
  let timer = 0;
  let since = new Date();

  const local = (root) => {
    for (const time of root.querySelectorAll("time")) {
      time.title = new Date(time.dateTime).toLocaleString();
    }
  };

  const key = (node) => node.dataset?.key;

  const isSame = (one, other) =>
    one.nodeType === other.nodeType && one.nodeName === other.nodeName && key(one) === key(other);

  const change = (node, next) => {
    if (node.nodeType !== Node.ELEMENT_NODE) {
      if (node.nodeValue !== next.nodeValue) node.nodeValue = next.nodeValue;
      return;
    }
    for (const { name } of [...node.attributes]) {
      // What a person unfolded stays so; titles of times are set here.
      if (!next.hasAttribute(name) && name !== "open" && name !== "title") node.removeAttribute(name);
    }
    for (const { name, value } of next.attributes) {
      if (node.getAttribute(name) !== value) node.setAttribute(name, value);
    }
    changeChildren(node, next);
  };

  const isBlank = (node) => node.nodeType === Node.TEXT_NODE && !node.nodeValue.trim();

  const changeChildren = (node, next) => {
    const byKey = new Map([...node.children].filter(key).map((child) => [key(child), child]));
    let place = node.firstChild;
    for (const wanted of [...next.childNodes].filter((child) => !isBlank(child))) {
      while (place && isBlank(place)) place = place.nextSibling;
      const known = key(wanted) === undefined ? place : byKey.get(key(wanted));
      if (known && isSame(known, wanted)) {
        if (known === place) place = place.nextSibling;
        else node.insertBefore(known, place);
        change(known, wanted);
      } else {
        node.insertBefore(wanted, place);
      }
    }
    while (place) {
      const after = place.nextSibling;
      place.remove();
      place = after;
    }
  };

  const tell = (why) => {
    const time = since.toLocaleTimeString();
    const text = why ? `Not up to date since ${time}: ${why}. Trying again.` : "";
    // Said once, not with each try.
    if (stale.textContent !== text) stale.textContent = text;
    stale.hidden = !why;
  };

  const ask = async () => {
    const address = new URL(location.href);
    address.searchParams.set("fragment", "1");
    try {
      const answer = await fetch(address, { cache: "no-store", redirect: "error" });
      const text = await answer.text();
      const part = new DOMParser().parseFromString(text, "text/html").body;
      const trouble = document.querySelector(".trouble");
      if (answer.ok && trouble) location.reload();
      else if (answer.ok) {
        changeChildren(fresh, part);
        local(fresh);
        since = new Date();
        tell("");
      } else if (!trouble) {
        tell(part.querySelector("h1")?.textContent ?? `the server says ${answer.status}`);
      }
    } catch {
      tell("the server can't be reached");
    }
  };

  const isLive = () => toggle.getAttribute("aria-pressed") === "true";

  const plan = () => {
    clearTimeout(timer);
    if (isLive() && !document.hidden) timer = setTimeout(turn, every);
  };

  const turn = async () => {
    await ask();
    plan();
  };

  local(document);
  const shown = new URL(location.href);
  if (shown.searchParams.has("done")) {
    // A reload is not to say again what was done once.
    shown.searchParams.delete("done");
    shown.searchParams.delete("on");
    history.replaceState(null, "", shown);
  }
  if (!every) return;
  document.querySelector("[data-controls]").hidden = false;
  if (sessionStorage.getItem("anarchon-live") === "off") toggle.setAttribute("aria-pressed", "false");
  toggle.addEventListener("click", () => {
    const live = !isLive();
    toggle.setAttribute("aria-pressed", String(live));
    sessionStorage.setItem("anarchon-live", live ? "on" : "off");
    if (live) turn();
    else plan();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && isLive()) turn();
    else plan();
  });
  plan();
})();
