"""Pages as a browser shows them, each in a frame of its own. ctest gives CLI_TEST_CHROMIUM, the browser."""
import base64
import html
import json
import os
import pathlib
import re
import subprocess
import tempfile

# Runs in each page, before its own scripts.
WATCH = """<script>
window.faults = [];
addEventListener("error", (event) => faults.push(String(event.message)));
addEventListener("securitypolicyviolation", (event) => faults.push("refused " + event.blockedURI));
</script>"""

# Runs around the frames, once they are loaded.
TELL = """
addEventListener("load", () => {
  const seen = Object.fromEntries([...document.querySelectorAll("iframe")].map((frame) => [frame.id, look(frame)]));
  document.body.textContent = "SEEN" + btoa(unescape(encodeURIComponent(JSON.stringify(seen)))) + "END";
});
"""


def seen(pages, script):
    """What the script's function look(frame) returns for each of the pages (name, width, text), by name."""
    frames = ""
    for name, width, text in pages:
        source = html.escape(text.replace("<head>", "<head>" + WATCH, 1))
        frames += f'<iframe id="{name}" style="width:{width}px;height:900px" srcdoc="{source}"></iframe>'
    with tempfile.TemporaryDirectory(prefix="strata-browser-") as folder:
        view = pathlib.Path(folder) / "look.html"
        view.write_text(f'<!doctype html><meta charset="utf-8"><body>{frames}<script>{script}{TELL}</script></body>')
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        done = subprocess.run(
            [os.environ["CLI_TEST_CHROMIUM"], "--headless", *sandbox, "--disable-gpu", "--disable-quic",
             "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
             f"--user-data-dir={folder}/profile", "--window-size=1280,900", "--dump-dom", view.as_uri()],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    found = re.search(rb"SEEN(.*?)END", done.stdout)
    if not found:
        raise AssertionError(done.stdout[-2000:] + done.stderr[-2000:])
    return json.loads(base64.b64decode(found.group(1)))
