// Requests to the service. All errors have the same fields: what was wrong, what is allowed, what to do next.

export class ServiceError extends Error {
  constructor(facts, status) {
    super(facts.what);
    this.facts = facts;
    this.status = status;
  }
}

async function request(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError({ what: "the service cannot be reached", next: "Check that it is running and try again." }, 0);
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) {
    throw new ServiceError(answer.error ?? { what: `the service answered ${response.status}`, next: "" }, response.status);
  }
  return answer;
}

export const get = (path, signal) => request(path, { signal });

export const post = (path, body, signal) =>
  request(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal });
