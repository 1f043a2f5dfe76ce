"""hook_programs_test -- programs that never train run unharmed under the preload library.

timeout: 180
"""
import os
import shutil
import tempfile
import unittest

import hooked
from hooked import PYTHON, clean_env, hooked_env, run

STATS = "import zico; s = zico.stats(); print(s['joined'], s['n_own_blocks'], s['n_refused'])"


class Programs(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="zi-e2e-")
        self.addCleanup(shutil.rmtree, self.dir, True)

    def same(self, cmd, env=None, **more):
        """The command says the same with and without the library."""
        plain = run(cmd, clean_env(**(env or {})), **more)
        under = run(cmd, hooked_env(**(env or {})), **more)
        self.assertEqual(plain.stdout, under.stdout)
        self.assertEqual("", under.stderr if plain.stderr == "" else "")
        return under

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def test_git(self):
        """git initialises, commits a large file, and checks it."""
        blob = os.path.join(self.dir, "big")
        with open(blob, "wb") as f:
            f.write(os.urandom(3 << 20))
        script = ("git init -q . && git add big && git -c user.name=a -c user.email=a@b "
                  "commit -qm one && git fsck --strict && git cat-file -s HEAD:big")
        out = run(["sh", "-c", script], hooked_env(HOME=self.dir), cwd=self.dir).stdout
        self.assertIn(str(3 << 20), out)

    def test_gcc(self):
        """gcc compiles and links a program that runs."""
        source = self.write("a.c", "#include <stdio.h>\nint t[1<<20];\n"
                                   "int main(void){puts(\"made\");return t[5];}\n")
        exe = os.path.join(self.dir, "a.out")
        run(["gcc", "-O2", "-o", exe, source], hooked_env())
        self.same([exe])

    def test_shell_pipeline(self):
        """A pipeline of small programs gives the same output."""
        self.same(["sh", "-c", "seq 200000 | sort -rn | uniq | head -3; seq 100000 | md5sum"])

    def test_exit_codes_and_signals(self):
        """Exit codes and deaths by signal stay what they are."""
        self.assertEqual(3, run(["sh", "-c", "exit 3"], hooked_env(), check=False).returncode)
        self.assertEqual(-9, run(["sh", "-c", "kill -9 $$"], hooked_env(), check=False).returncode)

    def test_pytest(self):
        """pytest runs a small file."""
        path = self.write("test_small.py", "def test_a():\n    assert sum([1] * 2000000) == 2000000\n")
        out = run([PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", path], hooked_env(),
                  cwd=self.dir).stdout
        self.assertIn("1 passed", out)

    def test_numpy_loop(self):
        """A NumPy training loop: same losses; its arrays are private and charged."""
        script = os.path.join(hooked.EXAMPLES, "numpy_loop.py")
        self.same([PYTHON, script, "--width", "512"])
        out = run([PYTHON, "-c", "import numpy as np; a = np.ones(1 << 20); " + STATS], hooked_env())
        joined, own, refused = out.stdout.split()
        self.assertEqual(("1", "0"), (joined, refused))
        self.assertGreaterEqual(int(own), 1)

    @unittest.skipUnless(shutil.which("darknet"), "darknet is not installed")
    def test_darknet(self):
        """darknet trains a tiny classifier for a few batches."""
        for name in ("data", "backup"):
            os.mkdir(os.path.join(self.dir, name))
        paths = []
        for i in range(8):
            path = os.path.join(self.dir, "data", f"{'ab'[i % 2]}{i}.ppm")
            with open(path, "wb") as f:
                f.write(b"P6 32 32 255\n" + bytes([40 + 20 * i]) * (32 * 32 * 3))
            paths.append(path)
        self.write("train.list", "\n".join(paths) + "\n")
        self.write("labels", "a\nb\n")
        self.write("d.data", "classes=2\ntrain=train.list\nvalid=train.list\nlabels=labels\n"
                             "backup=backup/\ntop=1\n")
        self.write("n.cfg", "[net]\nbatch=4\nsubdivisions=1\nheight=32\nwidth=32\nchannels=3\n"
                            "max_crop=32\nmin_crop=32\nlearning_rate=0.01\nmax_batches=4\n"
                            "[convolutional]\nfilters=64\nsize=3\nstride=1\npad=1\n"
                            "activation=leaky\n[convolutional]\nfilters=2\nsize=1\nstride=1\n"
                            "activation=linear\n[avgpool]\n[softmax]\n")
        p = run(["darknet", "classifier", "train", "d.data", "n.cfg"], hooked_env(), cwd=self.dir,
                check=False, timeout=60)
        plain = run(["darknet", "classifier", "train", "d.data", "n.cfg"], clean_env(),
                    cwd=self.dir, check=False, timeout=60)
        self.assertEqual(plain.returncode, p.returncode, p.stderr)
        self.assertTrue(os.listdir(os.path.join(self.dir, "backup")))

    def test_other_allocators(self):
        """jemalloc, tcmalloc and mimalloc preloaded by the user keep serving the small blocks, and
        the large ones are ours; whichever stands first."""
        code = ("import numpy as np; a = [np.ones((i + 1) << 17) for i in range(20)]; "
                "b = [bytes(i) for i in range(30000)]; del a; "
                "maps = open('/proc/self/maps').read(); print('malloc' in maps); " + STATS)
        found = 0
        for name in ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2"):
            path = os.path.join("/usr/lib/x86_64-linux-gnu", name)
            if not os.path.exists(path):
                continue
            found += 1
            with self.subTest(name):
                out = run([PYTHON, "-c", code], hooked_env(LD_PRELOAD=f"{hooked.LIBRARY}:{path}"))
                loaded, joined, own, refused = out.stdout.split()
                self.assertEqual(("True", "1", "0"), (loaded, joined, refused))
                self.assertGreaterEqual(int(own), 20)
                run([PYTHON, "-c", code], hooked_env(LD_PRELOAD=f"{path}:{hooked.LIBRARY}"))
        self.assertGreater(found, 0)

    def compile(self, name, source, *flags):
        """A C program (or with -shared a library) made for one test."""
        path, out = self.write(name + ".c", source), os.path.join(self.dir, name)
        run(["gcc", "-O1", "-pthread", "-o", out, path, *flags], clean_env())
        return out

    def test_vfork_and_spawn(self):
        """vfork + exec and posix_spawn from a program that holds large blocks."""
        exe = self.compile("vf", r"""
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(void)
{
    char *big = malloc(8 << 20), *argv[] = {"echo", "child", NULL};
    int   status, sum = 0;
    pid_t pid;
    memset(big, 1, 8 << 20);
    for (int i = 0; i < 5; i++) {
        if ((pid = vfork()) == 0) { execv("/bin/echo", argv); _exit(9); }
        waitpid(pid, &status, 0), sum += status;
        posix_spawn(&pid, "/bin/echo", NULL, NULL, argv, environ);
        waitpid(pid, &status, 0), sum += status;
    }
    free(big);
    printf("%d %d\n", sum, (big = calloc(1, 1 << 20)) && big[77] == 0);
    return 0;
}
""")
        self.assertEqual("child\n" * 10 + "0 1\n", self.same([exe]).stdout)

    def test_threads_before_we_start(self):
        """A library whose constructor starts threads runs before ours: they take and free blocks
        while the hook initialises."""
        lib = self.compile("early.so", """
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
static pthread_t t[4];
static void *work(void *arg)
{
    for (int i = 0; i < 300; i++) {
        size_t n = (size_t)(100 + i * 7) << 10;
        char *p = malloc(n), *q = calloc(1, n);
        if (!p || !q || q[n - 1]) abort();
        memset(p, 3, n);
        p = realloc(p, n * 2);
        if (!p || p[n - 1] != 3) abort();
        free(p), free(q);
    }
    return arg;
}
__attribute__((constructor)) static void begin(void)
{
    for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, work, NULL);
}
__attribute__((destructor)) static void end(void)
{
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
}
""", "-shared", "-fPIC")
        for order in (f"{hooked.LIBRARY}:{lib}", f"{lib}:{hooked.LIBRARY}"):
            out = run(["seq", "3"], hooked_env(LD_PRELOAD=order, ZICO_LOCAL="256M")).stdout
            self.assertEqual("1\n2\n3\n", out)

    @unittest.skipUnless(os.geteuid() == 0, "needs another user's program")
    def test_setuid(self):
        """A setuid program runs, and we stay out of it."""
        exe = self.compile("suid", r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
int main(void)
{
    char *p = malloc(4 << 20);
    printf("%lu %d %d\n", getauxval(AT_SECURE), p != NULL, dlsym(RTLD_DEFAULT, "zico_step") != NULL);
    return 0;
}
""")
        os.chmod(self.dir, 0o755)
        os.chown(exe, 65534, 65534)
        os.chmod(exe, 0o4755)
        p = run([exe], hooked_env())
        if p.stdout.startswith("0"):
            self.skipTest("this file system has no setuid programs")
        self.assertEqual("1 1 0\n", p.stdout)

    def test_dlopen(self):
        """Libraries that are opened, allocate large blocks, and are closed while those live."""
        lib = self.compile("plug.so", """
#include <stdlib.h>
#include <string.h>
char *make(size_t n) { char *p = aligned_alloc(4096, n); if (p) memset(p, 4, n); return p; }
""", "-shared", "-fPIC")
        code = f"""
import ctypes, _ctypes
libc = ctypes.CDLL(None)
libc.free.argtypes = [ctypes.c_void_p]
for i in range(50):
    lib = ctypes.CDLL("{lib}")
    lib.make.restype, lib.make.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    p = lib.make(1 << 20)
    assert p % 4096 == 0
    _ctypes.dlclose(lib._handle)
    assert ctypes.string_at(p, 1 << 20) == b"\\x04" * (1 << 20)
    libc.free(p)
print("done")
"""
        self.assertEqual("done\n", self.same([PYTHON, self.write("plug.py", code)]).stdout)

    def test_fork_and_spawn(self):
        """Children by fork and by spawn read what they inherited and come back with an answer."""
        code = """
import multiprocessing as mp, numpy as np, os, sys
big = np.arange(1 << 20, dtype=np.float64)
def work(k):
    more = np.ones(1 << 20)
    return float(big[k] + more[k])
if __name__ == "__main__":
    for how in ("fork", "spawn"):
        with mp.get_context(how).Pool(2) as pool:
            print(how, pool.map(work, [1, 5, 100]))
    pid = os.fork()
    if pid == 0:
        big[:] = 1
        del big
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), big[10])
    import subprocess
    print(subprocess.run(["echo", "spawned"], stdout=subprocess.PIPE, text=True).stdout)
"""
        out = self.same([PYTHON, self.write("forks.py", code)]).stdout
        self.assertIn("fork [2.0, 6.0, 101.0]", out)
        self.assertIn("7 10.0", out)

    def test_threads_before_and_dlopen(self):
        """Threads and libraries that come and go while blocks are taken and freed."""
        code = """
import threading, ctypes, numpy as np
def work(n):
    for i in range(200):
        a = np.ones((1 << 16) + 1000 * n); b = np.zeros(1 << 17); assert b.sum() == 0; del a
t = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[x.start() for x in t]
import sqlite3, json, xml.dom.minidom
ctypes.CDLL("libm.so.6")
[x.join() for x in t]
print("done")
"""
        self.assertEqual("done\n", self.same([PYTHON, self.write("threads.py", code)]).stdout)

    def test_refusal_is_a_memory_error(self):
        """Beyond the budget Python raises MemoryError and goes on."""
        code = ("import numpy as np\ntry:\n    np.ones(1 << 28)\nexcept MemoryError:\n"
                "    print('refused')\nprint(np.ones(1 << 18).sum())\n")
        out = run([PYTHON, "-c", code], hooked_env(ZICO_LOCAL="256M", ZICO_VERBOSE=0)).stdout
        self.assertEqual("refused\n262144.0\n", out)

    def test_user_sitecustomize(self):
        """A sitecustomize of the user's own still runs, and ours leaves no trace in the path."""
        os.mkdir(os.path.join(self.dir, "mine"))
        self.write("mine/sitecustomize.py", "import builtins; builtins.MARK = 'mine'\n")
        env = hooked_env()
        env["PYTHONPATH"] += ":" + os.path.join(self.dir, "mine")
        out = run([PYTHON, "-c", "import sys; print(MARK, any('startup' in p for p in sys.path), "
                                 "sys.modules['sitecustomize'].__file__)"], env).stdout
        self.assertTrue(out.startswith("mine False"), out)
        self.assertIn("/mine/", out)

    def test_without_broker(self):
        """No broker to join: one line on standard error, and the program runs as ever."""
        env = hooked_env(ZICO_SOCKET=os.path.join(self.dir, "none"))
        del env["ZICO_LOCAL"]
        p = run([PYTHON, "-c", "import numpy as np; print(np.ones(1 << 20).sum())"], env)
        self.assertEqual("1048576.0\n", p.stdout)
        self.assertEqual(1, p.stderr.count("\n"), p.stderr)

    def test_nonsense_options(self):
        """Options that cannot be read are named and otherwise ignored."""
        p = run(["sort", "/etc/passwd"], hooked_env(ZICO_HOOK_MIN="many"))
        self.assertIn("ZICO_HOOK_MIN", p.stderr)


if __name__ == "__main__":
    hooked.main()
