"""Replaces advisories.jsonl by the entries of the Go vulnerability database on modules of this repository.

Usage: refresh.py [DIRECTORY]. Without a directory it fetches the database; a directory holds its entries as ID.json.
"""

import glob
import io
import json
import os
import subprocess
import sys
import urllib.request
import zipfile

DATABASE = "https://vuln.go.dev/vulndb.zip"
KEPT = ("schema_version", "id", "modified", "published", "aliases", "summary", "affected")


def entries():
    """Yields each entry of the database."""
    if len(sys.argv) > 1:
        for name in sorted(glob.glob(os.path.join(sys.argv[1], "GO-*.json"))):
            with open(name, encoding="utf-8") as file:
                yield json.load(file)
        return
    with urllib.request.urlopen(DATABASE, timeout=60) as answer:
        archive = zipfile.ZipFile(io.BytesIO(answer.read()))
    for name in sorted(archive.namelist()):
        if name.startswith("ID/GO-"):
            yield json.loads(archive.read(name))


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    listed = subprocess.run(["go", "list", "-m", "all"], cwd=os.path.join(here, "../.."), check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    modules = {line.split()[0] for line in listed.splitlines()} | {"stdlib", "toolchain"}
    lines = []
    for entry in entries():
        affected = [a for a in entry.get("affected", []) if a["package"]["name"] in modules]
        if not affected or entry.get("withdrawn"):
            continue
        if entry.get("modified", "").startswith("0001"):
            entry["modified"] = entry["published"]
        entry["affected"] = affected
        for part in affected:
            part.pop("database_specific", None)
        kept = {name: entry[name] for name in KEPT if name in entry}
        kept["database_specific"] = {"url": "https://pkg.go.dev/vuln/" + entry["id"]}
        lines.append(json.dumps(kept, separators=(",", ":"), sort_keys=True))
    with open(os.path.join(here, "advisories.jsonl"), "w", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")
    print(f"{len(lines)} advisories on {len(modules)} modules")


main()
