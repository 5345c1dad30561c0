"""Starts, names and ends the server processes of one lab; several labs, told apart by name, may run side by side.

A lab's folder is `runs/NAME` in the cache: `state.json` (0600: it may hold the key), `env`, and per arm a config and a log.
"""

import json
import os
import pathlib
import secrets
import shlex
import shutil
import signal
import subprocess
import time
import urllib.request

from common import ARMS, HERE, LabError, cache_dir, locked, read_json, say, write_atomically

READY_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 10.0


def folder_of(name: str) -> pathlib.Path:
    path = cache_dir() / "runs" / name
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def names() -> list[str]:
    runs = cache_dir() / "runs"
    return sorted(path.name for path in runs.iterdir() if path.is_dir()) if runs.is_dir() else []


def load(name: str) -> dict:
    """The lab's state: {"api_key": text or null, "arms": {arm: {"pid", "marker", "url", "model", "gguf", "log"}}}."""
    state = read_json(cache_dir() / "runs" / name / "state.json")
    return state if isinstance(state, dict) and isinstance(state.get("arms"), dict) else {"api_key": None, "arms": {}}


def save(name: str, state: dict) -> None:
    write_atomically(folder_of(name) / "state.json", json.dumps(state, indent=1) + "\n")


def is_ours(server: dict) -> bool:
    """Whether the pid still runs the process that this lab started: a pid alone may have been given to another."""
    try:
        words = pathlib.Path(f"/proc/{int(server['pid'])}/cmdline").read_bytes().split(b"\0")
    except (OSError, KeyError, ValueError):
        return False
    return str(server.get("marker")).encode() in words


def up(name: str, arms: list[str], setup: dict, settings: dict) -> dict:
    """Starts the arms that do not run yet, all at once, and waits until each is ready. Returns the state.

    `settings`: {"api_key": text or None, "threads": count, "parent": the pid to die with, or None}.
    """
    folder, api_key = folder_of(name), settings["api_key"]
    with locked(folder / "lock"):
        state = load(name)
        for server in state["arms"].values():
            if "url" not in server:  # Left by an `up` that was killed while it waited.
                stop(server)
        state["arms"] = {arm: server for arm, server in state["arms"].items() if is_ours(server)}
        if state["arms"] and state["api_key"] != api_key:
            raise LabError(f"the lab '{name}' runs with another API key; end it first: lab/lab down --name {name}")
        state["api_key"] = api_key
        started = {}
        try:
            for arm in arms:
                if arm not in state["arms"]:
                    state["arms"][arm], started[arm] = start(folder, arm, setup, settings)
                    save(name, state)  # At once: a server that is not written down could not be ended.
            for arm, process in started.items():
                state["arms"][arm]["url"] = wait_until_ready(folder, arm, process)
        except BaseException:
            for arm in started:
                stop(state["arms"].pop(arm))
            save(name, state)
            raise
        save(name, state)
        return state


def start(folder: pathlib.Path, arm: str, setup: dict, settings: dict):
    """Starts one server; it is not ready yet. Returns its entry of the state and its process."""
    config = dict(ARMS[arm])
    address = folder / f"{arm}.address"
    address.unlink(missing_ok=True)
    # Port 0: the kernel picks a free one when the server binds it, so that no other process can take it in between.
    config |= {"port": 0, "address_file": str(address)} | settings
    config["weights_file"] = setup["models"][config["weights"]]
    if "draft" in config:
        config["draft_file"] = setup["models"][config["draft"]]
    config_file, log = folder / f"{arm}.json", folder / f"{arm}.log"
    write_atomically(config_file, json.dumps(config, indent=1) + "\n")
    marker = f"counterpoise-lab-{arm}-{secrets.token_hex(8)}"
    command = [setup["python"], str(HERE / "engine.py"), str(config_file), marker]
    with open(log, "wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                   cwd=folder, start_new_session=True)
    return {"pid": process.pid, "marker": marker, "model": config["model"], "gguf": config["weights_file"],
            "log": str(log)}, process


def wait_until_ready(folder: pathlib.Path, arm: str, process: subprocess.Popen) -> str:
    """Waits for the server's address, then for /health to say 200 (503 while it loads). Returns the base address."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    log = folder / f"{arm}.log"
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise LabError(f"the server of arm {arm} ended with {process.returncode} before it was ready; "
                           f"the end of {log}:\n{tail(log)}")
        address = folder / f"{arm}.address"
        if address.exists() and healthy(url := address.read_text()):
            return url
        time.sleep(0.05)
    raise LabError(f"the server of arm {arm} was not ready within {READY_TIMEOUT_S:.0f} s; the end of {log}:\n{tail(log)}")


def healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
            return answer.status == 200
    except (OSError, ValueError):
        return False


def tail(log: pathlib.Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-12:])


def stop(server: dict) -> None:
    """Ends one process, if it is ours, and waits until it is gone."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not is_ours(server):
            break
        try:
            os.kill(server["pid"], number)
        except ProcessLookupError:
            break
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while is_ours(server) and time.monotonic() < deadline:
            time.sleep(0.02)
    if is_ours(server):
        raise LabError(f"process {server['pid']} does not end; see {server.get('log')}")
    try:
        os.waitpid(server["pid"], os.WNOHANG)  # Reaps it where it is a child of this process.
    except ChildProcessError:
        pass


def down(name: str) -> list[str]:
    """Ends the servers of a lab. Returns the arms that ran; logs stay."""
    if name not in names():
        return []
    with locked(folder_of(name) / "lock"):
        state = load(name)
        running = [arm for arm, server in state["arms"].items() if is_ours(server)]
        for server in state["arms"].values():
            stop(server)
        save(name, {"api_key": None, "arms": {}})
    return running


def forget_dead(prefix: str) -> None:
    """Removes the folders of ended labs of `lab exec`, which have no one left to read them."""
    for name in names():
        if name.startswith(prefix) and not pathlib.Path(f"/proc/{name.removeprefix(prefix)}").exists():
            down(name)
            shutil.rmtree(folder_of(name), ignore_errors=True)


def environment(state: dict, env_file: pathlib.Path) -> dict[str, str]:
    """What a program needs in order to find the servers."""
    variables = {"COUNTERPOISE_LAB_ENV": str(env_file)}
    for arm, server in state["arms"].items():
        prefix = "LAB_" + arm.upper().replace("-", "_")
        variables[f"{prefix}_URL"] = server["url"] + "/v1"
        variables[f"{prefix}_METRICS_URL"] = server["url"] + "/metrics"
        variables[f"{prefix}_MODEL"] = server["model"]
        variables[f"{prefix}_GGUF"] = server["gguf"]
        variables[f"{prefix}_LOG"] = server["log"]
    if state["api_key"] is not None:
        variables["LAB_API_KEY"] = state["api_key"]
    return variables


def write_env(variables: dict[str, str], env_file: pathlib.Path) -> None:
    try:
        lines = [f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()]
        write_atomically(env_file, "".join(lines))
    except OSError as error:
        raise LabError(f"cannot write {env_file}: {error.strerror}") from error


def report_down(name: str) -> None:
    arms = down(name)
    say(f"ended {', '.join(arms)}" if arms else f"nothing runs under the name '{name}'")
