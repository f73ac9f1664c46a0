"use strict";
// The page is complete without this script. The script keeps the page up to date and makes the buttons work.
const byId = id => document.getElementById(id);
document.documentElement.classList.add("js");

// morph changes the node now into a copy of next. It keeps existing nodes, so the focus and the scroll position stay.
function morph(now, next) {
  if (now.nodeName !== next.nodeName) return now.replaceWith(next.cloneNode(true));
  if (now.nodeType !== Node.ELEMENT_NODE) {
    if (now.data !== next.data) now.data = next.data;
    return;
  }
  for (const { name } of [...now.attributes]) if (!next.hasAttribute(name)) now.removeAttribute(name);
  for (const { name, value } of next.attributes) if (now.getAttribute(name) !== value) now.setAttribute(name, value);
  let at = now.firstChild;
  for (const child of [...next.childNodes]) {
    if (child.id && at && at.id !== child.id) {
      const known = [...now.children].find(c => c.id === child.id);
      at = now.insertBefore(known || child.cloneNode(true), at);
    }
    if (!at) {
      now.append(child.cloneNode(true));
      continue;
    }
    const following = at.nextSibling;
    morph(at, child);
    at = following;
  }
  while (at) {
    const following = at.nextSibling;
    at.remove();
    at = following;
  }
}

function say(text) {
  byId("said").textContent = text;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { byId("said").textContent = ""; }, 8000);
}

// ask shows a question. It resolves to a falsy value if the reader cancels. Otherwise it resolves to true, or to the
// token if it asked for one.
function ask(text, { yes, token = false }) {
  const dialog = byId("ask");
  byId("question").textContent = text;
  byId("secret").hidden = !token;
  byId("token").value = "";
  byId("yes").textContent = yes;
  dialog.showModal();
  if (token) byId("token").focus();
  return new Promise(done => {
    const given = yes => {
      done(yes && (!token || byId("token").value));
      byId("token").value = "";
    };
    // The dialog's close event can't be used here, because it may arrive after the next question is shown.
    dialog.oncancel = () => given(false);
    dialog.firstElementChild.onsubmit = event => given(event.submitter.value === "yes");
  });
}
// Without this handler, Enter would press the form's first button, which is Cancel.
byId("token").addEventListener("keydown", e => {
  if (e.key === "Enter") {
    e.preventDefault();
    byId("yes").click();
  }
});

// call sends a request, with the token if one is known. If the program requires a token, call asks the reader for it.
async function call(method, path, body) {
  for (let wrong = false; ; wrong = true) {
    const token = sessionStorage.getItem("token");
    const headers = { "Content-Type": "application/json" };
    if (token) headers.Authorization = "Bearer " + token;
    const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
    const got = await answer.json();
    if (answer.ok) return got;
    if (answer.status !== 401) throw new Error(got.error || answer.statusText);
    sessionStorage.removeItem("token");
    const given = await ask(wrong && token ? "That token is wrong." : "This needs the program's token (http.token).", { yes: "Send", token: true });
    if (!given) throw new Error("Nothing was done, because the token is missing.");
    sessionStorage.setItem("token", given);
  }
}

const view = (name, what) => call("POST", "/api/v1/views/" + encodeURIComponent(name) + "/" + what);
const acts = {
  async pause({ view: name }) { await view(name, "pause"); return name + " is paused."; },
  async resume({ view: name }) { await view(name, "resume"); return name + " goes on."; },
  async rebuild({ view: name }) {
    const sure = await ask("Rebuild " + name + " from the first row of its tables? If the sink supports it, readers see the old view until the new one is complete.", { yes: "Rebuild" });
    if (!sure) return "";
    await view(name, "rebuild");
    return name + " is being rebuilt.";
  },
  async retry({ group }) {
    say("Retrying…");
    const { tried, left } = await call("POST", "/api/v1/deadletters/retry", { group });
    setTimeout(() => location.reload(), 1500);
    return tried + " tried again, " + left + " still dead.";
  },
  async drop({ group, count }) {
    const sure = await ask("Drop these " + count + " dead letters? The view stays without these cells until they have a newer version.", { yes: "Drop" });
    if (!sure) return "";
    const { dropped } = await call("POST", "/api/v1/deadletters/drop", { group });
    setTimeout(() => location.reload(), 1500);
    return dropped + " dropped.";
  },
  async example({ id }, button) {
    const body = button.closest("tbody");
    const open = body.querySelector("pre");
    button.setAttribute("aria-expanded", String(!open));
    if (open) {
      open.closest("tr").remove();
      return "";
    }
    const letter = await call("GET", "/api/v1/deadletters/" + encodeURIComponent(id));
    const shown = letter.raw ?? letter.raw_base64 ?? "";
    const cut = (letter.raw_base64 ? atob(shown).length : new TextEncoder().encode(shown).length) < letter.bytes;
    const cell = body.insertRow().insertCell();
    cell.colSpan = 7;
    const pre = document.createElement("pre");
    pre.tabIndex = 0;
    pre.textContent = ["id        " + letter.id, "key       " + letter.key, "column    " + letter.column, "version   " + letter.version,
      "position  " + letter.position, "time      " + letter.time, "row       " + letter.bytes + " bytes" + (cut ? ", only the beginning is shown" : ""), "", shown].join("\n");
    cell.append(pre);
    return "";
  },
};

document.addEventListener("click", async event => {
  const button = event.target.closest("button[data-act]");
  if (!button) return;
  try {
    const text = await acts[button.dataset.act](button.dataset, button);
    if (text) say(text);
  } catch (error) {
    say(error.message);
  }
});

if (location.pathname === "/") {
  const events = new EventSource("/live");
  events.addEventListener("main", event => {
    const { html, now, title } = JSON.parse(event.data);
    morph(byId("main"), new DOMParser().parseFromString(html, "text/html").getElementById("main"));
    byId("now").textContent = now;
    byId("now").classList.remove("bad");
    document.title = title;
  });
  events.addEventListener("error", () => {
    byId("now").classList.add("bad");
    if (!byId("now").textContent.startsWith("no answer")) byId("now").textContent = "no answer since " + byId("now").textContent;
  });
}
