"""Asks running servers real questions, checks that their answers, counts and clocks agree, and measures them."""

import concurrent.futures
import dataclasses
import http.client
import json
import sys
import time
import urllib.parse

from common import LabError

QUESTIONS = [
    "What is the capital of France?", "Write a short story about a lighthouse keeper.", "Explain why the sky is blue.",
    "List five animals that live in the sea.", "How do I boil an egg?", "Describe a rainy day in a small town.",
    "What is photosynthesis?", "Give three reasons to learn a second language.",
]


@dataclasses.dataclass
class Answer:
    """One streamed answer; times in ms from the request's last byte."""
    text: str
    arrivals_ms: list[float]
    events_with_text: int
    finish_reason: str | None
    model: str
    usage: dict
    timings: dict
    done_marker: bool

    @property
    def ttft_ms(self) -> float:
        return self.arrivals_ms[0]

    @property
    def tpot_ms(self) -> float:
        """Counts the first event's tokens as one; more arrive in it where drafts are accepted at once."""
        return (self.arrivals_ms[-1] - self.arrivals_ms[0]) / max(self.usage["completion_tokens"] - 1, 1)


def call(url: str, key: str | None, path: str, body: dict | None = None) -> http.client.HTTPResponse:
    """The response with its headers read and its body not."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=120)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    if body is None:
        connection.request("GET", path, headers=headers)
    else:
        connection.request("POST", path, json.dumps(body), headers | {"Content-Type": "application/json"})
    return connection.getresponse()


def ask(url: str, key: str | None, model: str, question: str, tokens: int) -> Answer:
    body = {"model": model, "messages": [{"role": "user", "content": question}], "max_tokens": tokens, "temperature": 0,
            "seed": 7, "stream": True, "stream_options": {"include_usage": True}, "cache_prompt": False}
    sent = time.monotonic()
    response = call(url, key, "/v1/chat/completions", body)
    if response.status != 200:
        raise LabError(f"{url} answered {response.status}: {response.read(500).decode(errors='replace')}")
    answer = Answer("", [], 0, None, "", {}, {}, False)
    for line in response:
        now = (time.monotonic() - sent) * 1000
        data = line.decode().strip().removeprefix("data: ")
        if data == "[DONE]":
            answer.done_marker = True
        elif data:
            add_event(answer, json.loads(data), now)
    if not answer.arrivals_ms:
        raise LabError(f"{url} streamed no text for {question!r}")
    return answer


def add_event(answer: Answer, event: dict, now_ms: float) -> None:
    answer.model = event.get("model", answer.model)
    answer.usage = event.get("usage") or answer.usage
    answer.timings = event.get("timings") or answer.timings
    for choice in event.get("choices", []):
        answer.finish_reason = choice.get("finish_reason") or answer.finish_reason
        if text := choice.get("delta", {}).get("content"):
            answer.text += text
            answer.events_with_text += 1
            answer.arrivals_ms.append(now_ms)


def metrics(url: str, key: str | None) -> dict[str, float]:
    """Every `llamacpp:` sample of the metrics page."""
    lines = call(url, key, "/metrics").read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.partition(" ") for line in lines if line.startswith("llamacpp:"))}


def page(url: str, key: str | None, path: str) -> dict:
    response = call(url, key, path)
    if response.status != 200:
        raise LabError(f"{url}{path} answered {response.status}")
    return json.loads(response.read())


def contradictions(answer: Answer, model: str, tokens: int) -> list[str]:
    """What in one answer can't be true together. Bounds: the server's own clock stops before the bytes travel."""
    counted = answer.usage.get("completion_tokens", 0)
    checks = {
        "no [DONE]": answer.done_marker,
        f"names itself {answer.model!r}": answer.model == model,
        f"finish reason {answer.finish_reason!r} with {counted} tokens":
            answer.finish_reason == ("length" if counted == tokens else "stop"),
        f"usage says {counted} tokens, timings {answer.timings.get('predicted_n')}":
            counted == answer.timings.get("predicted_n"),
        f"{answer.events_with_text} events with text for {counted} tokens": 0 < answer.events_with_text <= counted,
        f"TTFT {answer.ttft_ms:.1f} ms is less than its prefill {answer.timings.get('prompt_ms', 0):.1f} ms":
            answer.ttft_ms > answer.timings.get("prompt_ms", float("inf")) * 0.95,
    }
    return [what for what, holds in checks.items() if not holds]


def check_arm(server: dict, key: str | None, tokens: int) -> dict:
    """Raises LabError where the server contradicts itself. Returns its figures."""
    url, model = server["url"], server["model"]
    before = metrics(url, key)
    props = page(url, key, "/props")
    listed = [entry["id"] for entry in page(url, key, "/v1/models")["data"]]
    faults = [] if listed == [model] and props["model_alias"] == model else [f"/v1/models lists {listed}"]
    alone = [ask(url, key, model, question, tokens) for question in QUESTIONS]
    started = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda question: ask(url, key, model, question, tokens), QUESTIONS))
    wall_s = time.monotonic() - started
    after = metrics(url, key)
    for answer in alone + together:
        faults += contradictions(answer, model, tokens)
    gained = {name: after[name] - before.get(name, 0.0) for name in after}
    generated = sum(answer.usage["completion_tokens"] for answer in alone + together)
    if gained.get("llamacpp:tokens_predicted_total") != generated:
        faults.append(f"/metrics counts {gained.get('llamacpp:tokens_predicted_total')} tokens, the answers {generated}")
    if faults:
        raise LabError(f"{url} ({model}): " + "; ".join(sorted(set(faults))))
    return figures(alone, together, wall_s, gained)


def figures(alone: list[Answer], together: list[Answer], wall_s: float, gained: dict[str, float]) -> dict:
    def rate(count: str, span: str) -> float:
        return 1000 * sum(answer.timings[count] for answer in alone) / sum(answer.timings[span] for answer in alone)

    drafted = gained.get("llamacpp:spec_decode_num_draft_tokens_total", 0.0)
    accepted = gained.get("llamacpp:spec_decode_num_accepted_tokens_total", 0.0)
    return {
        "prefill tok/s": rate("prompt_n", "prompt_ms"),
        "decode tok/s": rate("predicted_n", "predicted_ms"),
        "4 streams tok/s": sum(answer.usage["completion_tokens"] for answer in together) / wall_s,
        "TTFT ms": sorted(answer.ttft_ms for answer in alone)[len(alone) // 2],
        "TPOT ms": sorted(answer.tpot_ms for answer in alone)[len(alone) // 2],
        "acceptance": accepted / drafted if drafted else None,
        "changed by load": sum(one.text != other.text for one, other in zip(alone, together, strict=True)),
    }


def check(arms: list[str], tokens: int, running: dict, key: str | None) -> int:
    if missing := [arm for arm in arms if arm not in running]:
        raise LabError(f"arm {', '.join(missing)} does not run; start it: lab/lab up {' '.join(missing)}")
    for index, arm in enumerate(arms or running):
        row = check_arm(running[arm], key, tokens)
        if index == 0:
            print("\t".join(["arm", *row]))
        shown = ("-" if value is None else str(value) if isinstance(value, int) else f"{value:.2f}" for value in row.values())
        print("\t".join([arm, *shown]))
        sys.stdout.flush()
    return 0
