// The same program as main.go, with the package standardwebhooks of npm.
import { createInterface } from "node:readline";
import { Webhook } from "standardwebhooks";

// begin of the example

// receive returns the event of a request, or throws for a request that dvt has not signed in the last 5 minutes. The
// names in headers are lower-case, and body is the text as it came: a parsed and printed body has another signature.
function receive(secret, headers, body) {
  return new Webhook(secret).verify(body, headers);
}

// end of the example

for await (const line of createInterface({ input: process.stdin })) {
  const { secret, headers, body } = JSON.parse(line);
  try {
    console.log("ok", receive(secret, headers, body).id);
  } catch (err) {
    console.log("refused:", err.message);
  }
}
