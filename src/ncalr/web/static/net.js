// Talking to the server. Errors say what happened: gone (no network), out (session ended), or what the server said.

let csrf = "";
let person = null; // who the page is for, by key

export class Problem extends Error {
  constructor(status, message, facts = {}) {
    super(message);
    this.status = status;
    this.facts = facts;
  }
  // A refusal of our server says why; one that does not comes from something between, or in its place. By 421 it says
  // that it goes by another name now.
  get gone() { return [0, 421, 429].includes(this.status) || this.status >= 500 || !this.facts.error; }
  get out() { return this.status === 401; }
}

export async function ask(method, path, body) {
  const word = csrf;
  try { return await once(method, path, body); } catch (problem) {
    if (problem.status !== 403 || !(await renewed(word))) throw problem;
    return once(method, path, body);
  }
}

// Whether this person came in again in another tab: changes go by the word of that session since then.
async function renewed(word) {
  const me = await once("GET", "/api/me").catch(() => null);
  if (me?.key !== person || me.csrf === word) return false;
  csrf = me.csrf;
  return true;
}

async function once(method, path, body) {
  let reply;
  try {
    reply = await fetch(path, {
      method,
      headers: body === undefined ? { "x-csrf": csrf } : { "content-type": "application/json", "x-csrf": csrf },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: method === "GET" ? "no-store" : undefined,
    });
  } catch {
    throw new Problem(0, "no connection");
  }
  let facts = {};
  try { facts = (await reply.json()) ?? {}; } catch { /* an empty or torn body */ }
  if (!reply.ok) {
    const problem = new Problem(reply.status, facts.error || `the server answered ${reply.status}`, facts);
    problem.wait = Number(reply.headers.get("retry-after")) || 0;
    throw problem;
  }
  return facts;
}

export async function whoami() {
  const me = await once("GET", "/api/me");
  ({ csrf, key: person } = me);
  return me;
}

// Sent while the page goes away: nobody waits for the reply.
export function farewell(path, body) {
  fetch(path, {
    method: "POST", keepalive: true, credentials: "same-origin", body: JSON.stringify(body),
    headers: { "content-type": "application/json", "x-csrf": csrf },
  }).catch(() => {});
}
