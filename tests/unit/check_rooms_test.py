"""check_rooms_test -- the judge of arrows accepts what the table allows and nothing else."""
import os
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ.get("ZI_SOURCE_DIR") or os.path.join(os.path.dirname(__file__), "..", "..")
TOOL = os.path.join(SOURCE, "tools", "check_rooms")

TABLES = """
<!-- rooms:begin -->
| room | layer | pure | trade | may include |
| --- | --- | --- | --- | --- |
| base | 0 | | x | |
| os | 1 | | x | base |
| graph | 1 | pure | x | base |
| exec | 2 | | x | base os graph |
<!-- rooms:end -->
<!-- outside:begin -->
| header | only under |
| --- | --- |
| `dnnl` | src/exec/onednn |
<!-- outside:end -->
"""


class CheckRooms(unittest.TestCase):
    def judge(self, files, tables=TABLES):
        """Exit code and output of the tool on a tree of these files."""
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**files, "ARCHITECTURE.md": tables}.items():
                full = os.path.join(root, path)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w", encoding="utf-8") as f:
                    f.write(text)
            env = dict(os.environ, GIT_CEILING_DIRECTORIES=os.path.dirname(root))
            done = subprocess.run([sys.executable, TOOL, root], env=env, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            return done.returncode, done.stdout

    def refused(self, files, why, tables=TABLES):
        code, out = self.judge(files, tables)
        self.assertEqual(1, code, out)
        self.assertIn(why, out)

    def test_allowed_arrows_pass(self):
        """Arrows of the table, the own room, public and system headers are fine."""
        code, out = self.judge({
            "src/exec/run.c": '#include "exec/run.h"\n#include "graph/graph.h"\n'
                              '#include "zico/status.h"\n#include <pthread.h>\n',
            "src/exec/onednn/conv.c": "#include <dnnl.h>\n",
            "src/graph/shape.c": '#  include "base/vec.h"\n#include <string.h>\n',
        })
        self.assertEqual(0, code, out)

    def test_other_arrows_fail(self):
        """Upward, sideways, unknown and roomless includes are named with file and line."""
        self.refused({"src/base/a.c": '\n#include "os/os.h"\n'}, "src/base/a.c:2: arrow base -> os")
        self.refused({"src/graph/a.h": '#include "os/os.h"\n'}, "arrow graph -> os")
        self.refused({"src/exec/a.c": '#include "nowhere/x.h"\n'}, "names no room")
        self.refused({"src/exec/a.c": '#include "run.h"\n'}, "with the room in front")
        self.refused({"src/attic/a.c": "\n"}, "not in the table of rooms")

    def test_pure_rooms_stay_pure(self):
        """A pure room cannot include what reads clocks or starts threads."""
        for header in ("pthread.h", "time.h", "sys/mman.h", "unistd.h"):
            self.refused({"src/graph/a.c": f"#include <{header}>\n"}, "pure room graph")

    def test_outside_headers_have_a_place(self):
        """A library is named only in its folder."""
        self.refused({"src/exec/run.c": "#include <dnnl.h>\n"}, "belongs to src/exec/onednn only")
        self.refused({"bench/conv.c": "#include <dnnl.h>\n"}, "belongs to src/exec/onednn only")

    def test_names_are_addresses(self):
        """No two files share a name, but a public header may share a door's."""
        self.refused({"src/os/a.c": "", "tests/unit/a.c": ""}, "the name a.c is taken")
        code, out = self.judge({"include/zico/graph.h": "", "src/graph/graph.h": "",
                                "src/os/README.md": "", "src/base/README.md": ""})
        self.assertEqual(0, code, out)

    def test_the_table_is_judged_too(self):
        """A row that points up, or from pure to impure, is a fault of the table."""
        self.refused({}, "does not point down",
                     TABLES.replace("| base | 0 | | x | |", "| base | 0 | | x | os |"))
        self.refused({}, "which is not pure",
                     TABLES.replace("| graph | 1 | pure", "| graph | 2 | pure")
                           .replace("pure | x | base |", "pure | x | base os |"))


if __name__ == "__main__":
    unittest.main()
