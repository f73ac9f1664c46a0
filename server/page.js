"use strict";
// The page is complete without this: it keeps what is shown up to date, and makes the buttons work.
const byId = id => document.getElementById(id);
document.documentElement.classList.add("js");

// morph makes a node like another one and keeps what it can, so that the focus and the reader's place stay.
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

// ask shows a question, and gives whether it was answered with yes; one for a token, the token.
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
    // Not the dialog's close event: it may come when the next question is asked.
    dialog.oncancel = () => given(false);
    dialog.firstElementChild.onsubmit = event => given(event.submitter.value === "yes");
  });
}
// Enter in a form presses its first button, which is the one that cancels.
byId("token").addEventListener("keydown", e => {
  if (e.key === "Enter") {
    e.preventDefault();
    byId("yes").click();
  }
});

// call asks the program something, with the token if there is one; if it wants one, a person is asked for it.
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
    if (!given) throw new Error("Nothing was done: it needs the token.");
    sessionStorage.setItem("token", given);
  }
}

const view = (name, what) => call("POST", "/api/v1/views/" + encodeURIComponent(name) + "/" + what);
const acts = {
  async pause({ view: name }) { await view(name, "pause"); return name + " is paused."; },
  async resume({ view: name }) { await view(name, "resume"); return name + " goes on."; },
  async rebuild({ view: name }) {
    const sure = await ask("Rebuild " + name + " from the first row of its tables? Readers see the old view until the new one is complete, where the sink can do that.", { yes: "Rebuild" });
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
      "position  " + letter.position, "time      " + letter.time, "row       " + letter.bytes + " bytes" + (cut ? ", of which the beginning is shown" : ""), "", shown].join("\n");
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
