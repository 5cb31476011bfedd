"""The same program as main.go, with the package standardwebhooks of PyPI."""

import json
import sys

from standardwebhooks import Webhook

# begin of the example


def receive(secret, headers, body):
    """Return the event of a request; raise for one that dvt has not signed in the last 5 minutes."""
    return Webhook(secret).verify(body, headers)


# end of the example

for line in sys.stdin:
    request = json.loads(line)
    try:
        event = receive(request["secret"], request["headers"], request["body"].encode())
        print("ok", event["id"], flush=True)
    except Exception as err:
        print("refused:", err, flush=True)
