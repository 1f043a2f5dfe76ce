#!/usr/bin/python3
"""install_test -- what `make install PREFIX=...` puts there can be built against and run. timeout: 120"""
import os
import shutil
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.environ.get("ZI_SOURCE_DIR") or os.path.join(HERE, "../..")
BUILD = os.environ.get("ZI_BUILD_DIR") or os.path.join(SOURCE, "build/dev")


def say(*words, env=None):
    """A command that must end well; what it printed."""
    done = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=env, timeout=100)
    assert done.returncode == 0, (words, done.stdout)
    return done.stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="zi-install-")
        cls.prefix = os.path.join(cls.dir, "prefix")
        say("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.lib = os.path.join(cls.prefix, "lib")
        cls.env = {k: v for k, v in os.environ.items() if not k.startswith("ZICO_")}
        cls.env.update(PKG_CONFIG_PATH=os.path.join(cls.lib, "pkgconfig"),
                       XDG_RUNTIME_DIR=cls.dir)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir)

    def compile(self, name, *flags):
        """The example, with the compiler's flags from pkg-config and from nowhere else."""
        program = os.path.join(self.dir, name)
        words = say("pkg-config", "--cflags", "--libs", *flags, "zico", env=self.env).split()
        if flags:  # the archive instead of the shared library
            words[words.index("-lzico")] = os.path.join(self.lib, "libzico.a")
        say("cc", "-std=c11", "-Wall", "-Werror",
            os.path.join(SOURCE, "examples/hello_lease.c"), "-o", program, *words)
        return program

    def test_what_is_there(self):
        """Headers, both libraries, the command, the preload library; nothing of the tests."""
        for name in ("client", "engine", "graph", "status", "step"):
            self.assertTrue(os.path.exists(f"{self.prefix}/include/zico/{name}.h"), name)
        for name in ("lib/libzico.so.0", "lib/libzico.a", "lib/libzico-hook.so", "bin/zico",
                     "lib/pkgconfig/zico.pc"):
            self.assertTrue(os.path.exists(f"{self.prefix}/{name}"), name)
        self.assertEqual(["bin", "include", "lib"], sorted(os.listdir(self.prefix)))

    def test_only_zico_names_leave(self):
        """The shared library has its SONAME, a version for each name, and hides the rest."""
        lib = os.path.realpath(os.path.join(self.lib, "libzico.so"))
        self.assertIn("[libzico.so.0]", say("readelf", "-d", lib))
        names = [w.split()[-1] for w in say("nm", "-D", "--defined-only", lib).splitlines()
                 if w.split()[-2] != "A"]
        self.assertIn("zico_session_open@@ZICO_0", names)
        self.assertIn("zico_step_raise@@ZICO_0", names)
        self.assertEqual([], [n for n in names if not n.startswith("zico_")])

    def test_example_with_the_shared_library(self):
        program = self.compile("shared")
        self.assertIn("libzico.so.0", say("readelf", "-d", program))
        out = say(program, env=dict(self.env, LD_LIBRARY_PATH=self.lib))
        self.assertIn("5 steps", out)

    def test_example_with_the_archive(self):
        program = self.compile("static", "--static")
        self.assertNotIn("libzico", say("readelf", "-d", program))
        self.assertIn("5 steps", say(program, env=self.env))

    def test_installed_command(self):
        """It finds its preload library beside itself, and shares memory with the example."""
        zico = os.path.join(self.prefix, "bin/zico")
        self.assertIn("0.", say(zico, "version"))
        out = say(zico, "run", "--budget", "128M", "--", self.compile("job"),
                  env=dict(self.env, LD_LIBRARY_PATH=self.lib))
        self.assertIn("5 steps", out)
        say(zico, "stop", env=self.env)


if __name__ == "__main__":
    unittest.main()
