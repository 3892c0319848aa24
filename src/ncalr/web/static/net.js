// Talking to the server. Errors say what happened: gone (no network), out (session ended), or what the server said.

let csrf = "";

export class Problem extends Error {
  constructor(status, message, facts = {}) {
    super(message);
    this.status = status;
    this.facts = facts;
  }
  get gone() { return this.status === 0 || this.status >= 500 || this.status === 429; }
  get out() { return this.status === 401; }
}

export async function ask(method, path, body) {
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
  try { facts = await reply.json(); } catch { /* an empty or torn body */ }
  if (!reply.ok) {
    const problem = new Problem(reply.status, facts.error || `the server answered ${reply.status}`, facts);
    problem.wait = Number(reply.headers.get("retry-after")) || 0;
    throw problem;
  }
  return facts;
}

export async function whoami() {
  const me = await ask("GET", "/api/me");
  csrf = me.csrf;
  return me;
}

// Sent while the page goes away: nobody waits for the reply.
export function farewell(path, body) {
  fetch(path, {
    method: "POST", keepalive: true, credentials: "same-origin", body: JSON.stringify(body),
    headers: { "content-type": "application/json", "x-csrf": csrf },
  }).catch(() => {});
}
