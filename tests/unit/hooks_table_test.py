"""hooks_table_test -- hooks.def, the slow paths and the exported names agree.  timeout: 30"""
import os
import re
import subprocess
import unittest

SOURCE = os.environ.get("ZI_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "../.."))
BUILD = os.environ.get("ZI_BUILD_DIR", os.path.join(SOURCE, "build/dev"))
LIB = os.path.join(BUILD, "libzico-hook.so")
OTHERS = {"zico_step", "zico_hook_train_begin", "zico_hook_cores", "zico_hook_stats",
          "zico_hook_message"}


def hooks():
    with open(os.path.join(SOURCE, "src/hook/hooks.def"), encoding="utf-8") as f:
        return re.findall(r"^HOOK\([^,]+,\s*(\w+),.*\b(TAKE|MOVE|GIVE|LOOK),", f.read(), re.M)


class HooksTest(unittest.TestCase):
    def test_exports(self):
        """Exactly the hooks and the few zico names leave the library."""
        out = subprocess.run(["nm", "-D", "--defined-only", LIB], check=True,
                             stdout=subprocess.PIPE, text=True).stdout
        names = {line.split()[-1] for line in out.splitlines()}
        self.assertEqual(names, {name for name, _ in hooks()} | OTHERS)

    def test_slow_paths(self):
        """Each hook has a slow path, and no slow path lacks its hook."""
        with open(os.path.join(SOURCE, "src/hook/slow.c"), encoding="utf-8") as f:
            slow = set(re.findall(r"^zi_hook_(\w+)\(", f.read(), re.M))
        self.assertEqual(slow, {name for name, _ in hooks()})

    def test_family_is_whole(self):
        """A hooked way to get a block would be useless without the ways to give it back."""
        kinds = dict(hooks())
        self.assertEqual(kinds.get("free"), "GIVE")
        self.assertEqual(kinds.get("malloc_usable_size"), "LOOK")
        for name in ("malloc", "calloc", "posix_memalign", "aligned_alloc", "memalign", "valloc"):
            self.assertEqual(kinds.get(name), "TAKE", name)
        for name in ("realloc", "reallocarray"):
            self.assertEqual(kinds.get(name), "MOVE", name)

    def test_no_stdio(self):
        """The library neither prints through stdio nor ends the process."""
        out = subprocess.run(["nm", "-D", "--undefined-only", LIB], check=True,
                             stdout=subprocess.PIPE, text=True).stdout
        names = {re.sub(r"@.*", "", line.split()[-1]) for line in out.splitlines()}
        for name in ("printf", "fprintf", "fopen", "fwrite", "puts", "exit", "_exit"):
            self.assertNotIn(name, names)


if __name__ == "__main__":
    unittest.main()
