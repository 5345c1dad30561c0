"""One llama.cpp server, one process. Runs inside the lab's virtual environment: `engine.py CONFIG.json MARKER`.

The marker is in the command line only to be seen there: it tells the lab that a process is one of its own.
"""

import ctypes
import json
import os
import pathlib
import signal
import sys

import xllamacpp

PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Asks the kernel to end this process when its parent ends; covers a parent that is gone already."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)


def set_threads(pool: xllamacpp.CpuParams, threads: int) -> None:
    pool.n_threads = threads
    pool.poll = 0  # A waiting thread sleeps instead of spinning: idle arms must not slow the arm that is measured.


def parameters(config: dict) -> xllamacpp.CommonParams:
    params = xllamacpp.CommonParams()
    params.model.path = config["weights_file"]
    params.model_alias = {config["model"]}
    params.hostnames = ["127.0.0.1"]
    params.port = config["port"]
    params.n_ctx = config["context"]
    params.n_parallel = config["slots"]
    params.ctx_shift = config.get("context_shift", False)
    params.fit_params = False
    params.warmup = True
    params.endpoint_metrics = True
    params.endpoint_slots = True
    params.ui = False
    params.sampling.seed = 7
    params.cache_ram_mib = 0  # No second prompt cache beside the slots' own: what is reused is what the slots hold.
    # A quantized value cache needs it; it is on in every arm, so that arms differ in one thing only.
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
    set_threads(params.cpuparams, config["threads"])
    set_threads(params.cpuparams_batch, config["threads"])
    if config.get("kv"):
        kind = xllamacpp.ggml_type[f"GGML_TYPE_{config['kv']}"]
        params.cache_type_k = kind
        params.cache_type_v = kind
    if config.get("draft_file"):
        speculative = params.speculative
        speculative.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
        speculative.draft.mparams.path = config["draft_file"]
        set_threads(speculative.draft.cpuparams, config["threads"])
        set_threads(speculative.draft.cpuparams_batch, config["threads"])
    if config.get("api_key"):
        params.api_keys = [config["api_key"]]
    return params


def main() -> None:
    config = json.loads(pathlib.Path(sys.argv[1]).read_text())
    if config.get("parent"):
        die_with(config["parent"])
    server = xllamacpp.Server(parameters(config))
    address = pathlib.Path(config["address_file"])
    temporary = address.with_suffix(".part")
    temporary.write_text(server.listening_address)
    temporary.rename(address)
    while True:  # The default action of SIGTERM ends the process, in the middle of loading too.
        signal.pause()


if __name__ == "__main__":
    main()
