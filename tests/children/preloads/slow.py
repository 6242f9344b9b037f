"""Takes half a minute to import."""

import time

print("importing", flush=True)
time.sleep(30)
