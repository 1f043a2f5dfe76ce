#!/usr/bin/python3
"""wire_doc_test -- docs/wire.md says what messages.def says, message by message."""
import os
import re
import subprocess
import sys

ROOT = os.environ.get("ZI_SOURCE_DIR") or os.path.join(os.path.dirname(__file__), "../..")


def main():
    if subprocess.run([os.path.join(ROOT, "tools/wire_doc"), "--check"]).returncode != 0:
        return 1
    with open(os.path.join(ROOT, "src/wire/messages.def"), encoding="utf-8") as f:
        named = re.findall(r"^MESSAGE\(\w+, (\w+), (\d+)", f.read(), re.M)
    with open(os.path.join(ROOT, "docs/wire.md"), encoding="utf-8") as f:
        page = f.read()
    missing = [name for name, n in named if f"### {name} ({n})" not in page]
    if missing or not named:
        print("not on the page:", missing, file=sys.stderr)
        return 1
    print(f"{len(named)} messages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
