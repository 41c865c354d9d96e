// Talking to the service. Every error has one shape: what was wrong, what is allowed, what to do next.

export class ServiceError extends Error {
  constructor(facts, status) {
    super(facts.what);
    this.facts = facts;
    this.status = status;
  }
}

async function ask(address, options) {
  let response;
  try {
    response = await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError({ what: "the service cannot be reached", next: "Is it running? Try again." }, 0);
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) {
    throw new ServiceError(answer.error ?? { what: `the service answered ${response.status}`, next: "" }, response.status);
  }
  return answer;
}

export const get = (address, signal) => ask(address, { signal });

export const post = (address, body, signal) =>
  ask(address, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal });
