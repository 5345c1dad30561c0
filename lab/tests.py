"""Tests of the lab itself, on a real server: `python3 lab/tests.py`. They use a cache that `lab/lab setup` filled."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import common  # noqa: E402
import install  # noqa: E402
import servers  # noqa: E402

LAB = str(common.HERE / "lab")


def lab(*words: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([LAB, *words], capture_output=True, text=True, timeout=240, check=False, **options)


def exists(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


class UpAndDown(unittest.TestCase):
    name = f"tests-{os.getpid()}"

    def tearDown(self):
        servers.down(self.name)
        shutil.rmtree(servers.folder_of(self.name))

    def test_up_outlives_its_caller_and_down_ends_it(self):
        with tempfile.TemporaryDirectory() as folder:
            env_file = pathlib.Path(folder) / "a b.env"
            done = lab("up", "q8", "--name", self.name, "--env", str(env_file))
            self.assertEqual(done.returncode, 0, done.stderr)
            shown = subprocess.run(["sh", "-c", '. "$1"; echo "$LAB_Q8_URL $COUNTERPOISE_LAB_ENV"', "sh", str(env_file)],
                                   capture_output=True, text=True, check=True).stdout.strip()
        url, _, named = shown.partition(" ")
        self.assertEqual(named, str(env_file))
        with urllib.request.urlopen(url.removesuffix("/v1") + "/health", timeout=10) as answer:
            self.assertEqual(answer.status, 200)
        pid = servers.load(self.name)["arms"]["q8"]["pid"]
        again = lab("up", "q8", "--name", self.name)
        self.assertEqual(servers.load(self.name)["arms"]["q8"]["pid"], pid, again.stderr)
        self.assertEqual(lab("down", "--name", self.name).returncode, 0)
        self.assertFalse(exists(pid))
        self.assertIn("nothing runs", lab("down", "--name", self.name).stderr)

    def test_down_leaves_a_process_that_is_not_its_own(self):
        stranger = subprocess.Popen(["sleep", "60"])
        try:
            servers.save(self.name, {"api_key": None, "arms": {"q8": {"pid": stranger.pid, "marker": "counterpoise-lab-q8-0"}}})
            self.assertEqual(lab("down", "--name", self.name).returncode, 0)
            self.assertIsNone(stranger.poll())
        finally:
            stranger.kill()
            stranger.wait()

    def test_a_server_that_cannot_start_is_told_with_its_log(self):
        setup = install.setup()
        setup["models"]["q8_0"] = "/nowhere.gguf"
        with self.assertRaisesRegex(common.LabError, "(?s)arm q8 ended with .*nowhere.gguf"):
            servers.up(self.name, ["q8"], setup, {"api_key": None, "threads": 1, "parent": None})
        self.assertEqual(servers.load(self.name)["arms"], {})


class Exec(unittest.TestCase):
    def test_the_exit_code_is_the_commands_and_the_key_is_asked_for(self):
        program = "import os,json,sys; json.dump(dict(os.environ), sys.stdout); sys.exit(7)"
        probe = ("import os,urllib.request as r,urllib.error as e\n"
                 "try: r.urlopen(os.environ['LAB_Q4_METRICS_URL'])\nexcept e.HTTPError as x: print(x.code)\n"
                 "q=r.Request(os.environ['LAB_Q4_METRICS_URL'],headers={'Authorization':'Bearer '+os.environ['LAB_API_KEY']})\n"
                 "print(r.urlopen(q).status)")
        self.assertEqual(lab("exec", "--api-key", "a key", "q4", "--", sys.executable, "-c", probe).stdout.split(), ["401", "200"])
        done = lab("exec", "q8", "--", sys.executable, "-c", program)
        self.assertEqual(done.returncode, 7, done.stderr)
        variables = json.loads(done.stdout)
        self.assertEqual(variables["LAB_Q8_MODEL"], "smollm2-135m-q8_0")
        self.assertNotIn("LAB_Q4_URL", variables)
        # Refused, or reset by whoever has the port now: in any case no server answers.
        with self.assertRaises(OSError):
            urllib.request.urlopen(variables["LAB_Q8_METRICS_URL"], timeout=5)

    def test_servers_end_with_an_exec_that_is_ended(self):
        for number in (signal.SIGKILL, signal.SIGTERM):
            process = subprocess.Popen([LAB, "exec", "q8", "--", "sleep", "60"], stderr=subprocess.DEVNULL)
            name = f"exec-{process.pid}"
            self.assertTrue(wait_until(lambda: "url" in servers.load(name)["arms"].get("q8", {}), 120))
            server = servers.load(name)["arms"]["q8"]
            os.kill(process.pid, number)
            code = process.wait(timeout=30)
            self.assertEqual(code, 128 + number if number == signal.SIGTERM else -number)
            self.assertTrue(wait_until(lambda: not exists(server["pid"]), 10))
            servers.down(name)


class Mistakes(unittest.TestCase):
    def test_each_says_what_to_do(self):
        for words, text in [(["up", "q9"], "unknown arm q9; the arms are q8"), (["exec", "q8"], "no command"),
                            (["up", "--name", "../x"], "letters, digits"), (["check", "--name", "absent"], "lab/lab up"),
                            (["exec", "--threads", "0", "--", "true"], "at least 1")]:
            with self.subTest(words=words):
                done = lab(*words)
                self.assertEqual(done.returncode, 2)
                self.assertIn(text, done.stderr)

    def test_an_unwritable_cache_is_told(self):
        done = lab("status", env=os.environ | {"COUNTERPOISE_LAB_CACHE": "/proc/nowhere"})
        self.assertEqual(done.returncode, 2)
        self.assertIn("COUNTERPOISE_LAB_CACHE", done.stderr)

    def test_a_broken_model_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.gguf"
            path.write_bytes(b"whole")
            note = {"source": install.SOURCE_SHA256, "recipe": install.RECIPE, "bytes": 5, "sha256": common.sha256(path)}
            install.note_of(path).write_text(json.dumps(note))
            self.assertTrue(install.is_whole(path))
            path.write_bytes(b"wh0le")
            self.assertFalse(install.is_whole(path))


if __name__ == "__main__":
    unittest.main(verbosity=2)
