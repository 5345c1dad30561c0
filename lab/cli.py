"""The lab's commands; `lab/lab --help` shows them."""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import install
import probe
import servers
from common import ARMS, DEFAULT_ARMS, THREADS, LabError, cache_dir, say

EXEC_PREFIX = "exec-"


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="lab/lab", description="Real inference servers on this machine, from PyPI wheels.")
    commands = root.add_subparsers(dest="command", required=True)
    commands.add_parser("setup", help="install the engine and make the models; nothing where they are there")
    arms_help = f"arms to start, of {', '.join(ARMS)}; left out: {', '.join(DEFAULT_ARMS)}"
    start = commands.add_parser("up", help="set up, then start one server per arm and wait until all are ready")
    start.add_argument("arms", nargs="*", metavar="ARM", help=arms_help)
    start.add_argument("--env", type=pathlib.Path, metavar="FILE", help="also write the variables to FILE")
    run = commands.add_parser("exec", usage="lab/lab exec [--api-key KEY] [--threads N] [ARM...] -- COMMAND...",
                              help="start servers, run a command with the variables set, always end the servers")
    run.add_argument("arms", nargs="*", metavar="ARM", help=arms_help)
    for command in (start, run):
        command.add_argument("--api-key", metavar="KEY", help="the key that the servers ask for")
        command.add_argument("--threads", type=int, default=THREADS, metavar="N",
                             help=f"threads of each server that is started (default {THREADS})")
    check = commands.add_parser("check", help="ask running servers real questions, check what they say, measure them")
    check.add_argument("arms", nargs="*", metavar="ARM", help="left out: all that run")
    check.add_argument("--tokens", type=int, default=96, help="tokens generated per answer (default 96)")
    stop = commands.add_parser("down", help="end the servers that `up` started, and no other process")
    commands.add_parser("status", help="what is installed and what runs")
    for command in (start, stop, check):
        command.add_argument("--name", default="default", help="tells several labs on one machine apart")
    return root


def main(words: list[str]) -> int:
    command = []
    if words[:1] == ["exec"] and "--" in words:
        cut = words.index("--")
        words, command = words[:cut], words[cut + 1:]
    options = parser().parse_args(words)
    if unknown := [arm for arm in getattr(options, "arms", []) if arm not in ARMS]:
        raise LabError(f"unknown arm {', '.join(unknown)}; the arms are {', '.join(ARMS)}")
    name = getattr(options, "name", "default")
    if not name.replace("-", "").replace("_", "").isalnum():
        raise LabError(f"--name {name!r}: letters, digits, - and _ only")
    match options.command:
        case "setup":
            return show_setup()
        case "up":
            return up(options, name)
        case "exec":
            return run_with_servers(options, command)
        case "check":
            return probe.check(options.arms, options.tokens, *where(name))
        case "down":
            servers.report_down(name)
            return 0
        case _:
            return status()


def show_setup() -> int:
    made = install.setup()
    for what, path in {"python": made["python"], **made["models"]}.items():
        print(f"{what}\t{path}")
    return 0


def up(options: argparse.Namespace, name: str) -> int:
    made, started = install.setup(), time.monotonic()
    state = servers.up(name, options.arms or DEFAULT_ARMS, made, settings_of(options))
    env_file = servers.folder_of(name) / "env"
    variables = servers.environment(state, options.env.absolute() if options.env else env_file)
    servers.write_env(variables, env_file)
    if options.env:
        servers.write_env(variables, options.env.absolute())
    say(f"{', '.join(state['arms'])} ready after {time.monotonic() - started:.1f} s; "
        f"end them with: lab/lab down{'' if name == 'default' else ' --name ' + name}")
    print((options.env or env_file).read_text(), end="")
    return 0


def settings_of(options: argparse.Namespace) -> dict:
    if options.threads < 1:
        raise LabError("--threads: at least 1")
    return {"api_key": options.api_key, "threads": options.threads, "parent": None}


def run_with_servers(options: argparse.Namespace, command: list[str]) -> int:
    """Exit code of the command, or 128 + n where signal n ended it, as in a shell."""
    if not command:
        raise LabError("no command: lab/lab exec [ARM...] -- COMMAND...")
    servers.forget_dead(EXEC_PREFIX)
    name = f"{EXEC_PREFIX}{os.getpid()}"
    made = install.setup()
    # A signal while servers start must still end them: as an exception it takes the same way out as any error.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    try:
        state = servers.up(name, options.arms or DEFAULT_ARMS, made, settings_of(options) | {"parent": os.getpid()})
        env_file = servers.folder_of(name) / "env"
        variables = servers.environment(state, env_file)
        servers.write_env(variables, env_file)
        code = run_command(command, os.environ | variables)
    finally:
        servers.down(name)
    shutil.rmtree(servers.folder_of(name), ignore_errors=True)
    return code


def run_command(command: list[str], environment: dict[str, str]) -> int:
    """Runs it in the foreground and passes signals on, so that it can end in its own way before the servers do."""
    try:
        process = subprocess.Popen(command, env=environment)
    except OSError as error:
        raise LabError(f"cannot run {command[0]}: {error.strerror}") from error
    # The terminal sends Ctrl-C to the command as well; here it must only not end the wait.
    signal.signal(signal.SIGINT, lambda number, frame: None)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: process.send_signal(number))
    code = process.wait()
    return 128 - code if code < 0 else code


def where(name: str) -> tuple[dict, str | None]:
    """The servers to check: those of a surrounding `lab exec`, else those of the named lab."""
    env_file = os.environ.get("COUNTERPOISE_LAB_ENV")
    if env_file and name == "default":
        name = pathlib.Path(env_file).parent.name if pathlib.Path(env_file).parent.parent == cache_dir() / "runs" else name
    state = servers.load(name)
    running = {arm: server for arm, server in state["arms"].items() if servers.is_ours(server)}
    if not running:
        raise LabError(f"nothing runs under the name '{name}'; start it: lab/lab up")
    return running, state["api_key"]


def status() -> int:
    cache = cache_dir()
    print(f"cache\t{cache}")
    for model in sorted((cache / "models").glob("*.gguf")):
        print(f"model\t{model.name}\t{'whole' if install.is_whole(model) else 'broken'}")
    for name in servers.names():
        for arm, server in servers.load(name)["arms"].items():
            health = "ended"
            if servers.is_ours(server):
                health = "ready" if servers.healthy(server.get("url", "")) else "not ready"
            print(f"{name}\t{arm}\tpid {server['pid']}\t{server.get('url', '-')}\t{health}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except LabError as problem:
        say(str(problem))
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
