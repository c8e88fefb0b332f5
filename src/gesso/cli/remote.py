"""Yields the events of a model behind somebody's OpenAI-compatible server, as an engine does.

Draft frames and sampler settings are asked of a gesso server only: others would refuse, or ignore, what they do not
know.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import httpx

from gesso.batch.ask import ENVIRONMENT, UNUSABLE, authorization
from gesso.engine.events import BlockCommitted, DenoisingFrame, Event, Finished, event_from_dict
from gesso.engine.result import FinishReason, GenerationResult
from gesso.errors import GessoError, HubError, OptionError
from gesso.generation import engine_options

STANDARD = {
    "seed": "seed",
    "max_new_tokens": "max_tokens",
    "stop": "stop",
    "temperature": "temperature",
    "top_p": "top_p",
}
"""Names of options that every server knows."""
FORMATS = ("json_schema", "json_object")
"""Those that are a `response_format`, which every server knows as well."""
CONNECT_SECONDS = 10.0


class ServedModel:
    """Sends requests to one model of a server."""

    def __init__(self, url: str, model: str | None, api_key: str | None) -> None:
        """
        Args:
            url: of the server, with or without `/v1`.
            model: an id that it serves; None takes the first.

        Raises:
            HubError: there is no such server, or it lets nobody in.
            OptionError: it does not serve this model, or the key is none that a header can have.
        """
        if not url.startswith(("http://", "https://")):
            raise OptionError(f"--server takes an address such as http://127.0.0.1:8000, got {url!r}", option="server")
        self._url = url
        self._base = url.rstrip("/").removesuffix("/v1") + "/v1"
        self._headers = authorization(api_key or None)
        cards = self._models()
        names = [str(card["id"]) for card in cards]
        self.name = names[0] if model is None else model
        if self.name not in names:
            raise OptionError(f"{url} does not serve {self.name!r}; it serves {', '.join(names)}", option="model")
        card = cards[names.index(self.name)]
        self.is_gesso = card.get("owned_by") == "gesso"
        self.special = frozenset(card.get("special_token_ids") or ())

    def _models(self) -> list[Mapping[str, Any]]:
        try:
            response = httpx.get(f"{self._base}/models", headers=self._headers, timeout=CONNECT_SECONDS)
        except httpx.HTTPError as error:
            raise HubError(f"no server answers at {self._url}: {error}") from None
        except UNUSABLE as error:
            raise HubError(f"{self._url} cannot be asked: {error}", hint=ENVIRONMENT) from None
        if response.is_error:
            raise HubError(f"{self._url} answers {response.status_code}: {_message(response.text)}")
        try:
            cards = response.json()["data"]
            if cards and all(isinstance(card["id"], str) for card in cards):
                return list(cards)
        except (ValueError, KeyError, TypeError):
            pass
        raise HubError(f"{self._url} lists no models: it is no OpenAI-compatible server")

    def stream(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        frames: bool = False,
        thinking: bool = False,
        **options: Any,
    ) -> "RemoteStream":
        """Returns the events of one request; options as an engine takes them.

        Raises:
            OptionError: an option that this server does not know, that needs another one or contradicts it.
        """
        body: dict[str, Any] = {"model": self.name, "messages": list(messages), "stream": True}
        body["stream_options"] = {"include_usage": True}
        given = {name: value for name, value in options.items() if value is not None}
        if given.get("strict_schema") and "json_schema" not in given:
            raise OptionError("strict_schema needs json_schema", option="strict_schema")
        if all(name in given for name in FORMATS):  # a request has one response_format
            message = f"{' and '.join(FORMATS)} contradict: an answer has one constraint at most"
            raise OptionError(message, option=FORMATS[0])
        body |= {STANDARD[name]: given.pop(name) for name in list(given) if name in STANDARD}
        if thinking:
            given["thinking"] = True
        elif "thinking_budget" in given:
            message = "a server's model thinks where thinking_budget is given: give thinking as well"
            raise OptionError(message, option="thinking_budget")
        unknown = None if self.is_gesso else next((name for name in given if name not in FORMATS), None)
        if unknown is not None:
            raise OptionError(f"{unknown}: {self._url} is no gesso server and does not know it", option=unknown)
        for name, value in given.items():
            _put(body, name, value)
        if self.is_gesso and frames:
            body.setdefault("diffusion", {})["draft_frames"] = True
        return RemoteStream(f"{self._base}/chat/completions", self._headers, body)


def _put(body: dict[str, Any], name: str, value: Any) -> None:
    """Puts an option where a gesso server's request has it."""
    if name == "json_object":
        body["response_format"] = {"type": name}
        return
    if name == "json_schema":
        form = body.setdefault("response_format", {})
        form["type"] = name
        form.setdefault(name, {}).update(name="answer", schema=value)
        return
    row = engine_options().get(name)
    if row is None or row.field is None:
        raise OptionError(f"{name}: a server's requests have no such field", option=name)
    *path, field = row.field.split(".")
    for part in path:
        body = body.setdefault(part, {})
    body[field] = value


class RemoteStream:
    """Iterates over the events of one request; `cancel` disconnects at the next line, a comment's too."""

    def __init__(self, url: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> None:
        self._url = url
        self._headers = headers
        self._body = body
        self._cancelled = False
        self._done = False

    def cancel(self) -> None:
        """Ends it with what has come. A signal handler may call it."""
        self._cancelled = True

    def __iter__(self) -> Iterator[Event]:
        started = time.monotonic()
        text = reasoning = ""
        first = 0.0
        reason: FinishReason = "stop"
        stop_string: str | None = None
        mode: Literal["canvas", "ar"] = "canvas"
        usage: Mapping[str, Any] = {}
        report: Mapping[str, Any] = {}
        blocks = 0
        warnings: list[str] = []
        ended = False
        for chunk in self._chunks():
            if error := chunk.get("error"):
                raise GessoError(_error(error))
            if draft := chunk.get("draft"):
                yield _frame(draft)
            if block := chunk.get("block"):
                mode = "ar" if block.get("mode") == "ar" else "canvas"
            usage = chunk.get("usage") or usage
            for choice in chunk.get("choices") or ():
                delta = choice.get("delta") or {}
                new, thought = delta.get("content") or "", delta.get("reasoning_content") or ""
                new += "".join(_call(call) for call in delta.get("tool_calls") or ())
                if new or thought:
                    first = first or time.monotonic() - started
                    yield BlockCommitted(blocks, (), new, thought, 0, True, mode=mode)
                    text, reasoning, blocks = text + new, reasoning + thought, blocks + 1
                report = choice.get("diffusion") or report
                mode = "ar" if report.get("mode") == "ar" else mode
                warnings += choice.get("warnings") or ()
                if isinstance(stopped := choice.get("stop_reason"), str):
                    stop_string = stopped
                ended = ended or bool(choice.get("finish_reason"))
                reason = "length" if choice.get("finish_reason") == "length" else reason
            if self._cancelled:
                break
        if self._cancelled:
            reason = "cancelled"
        elif not (ended or self._done):
            raise GessoError("the connection broke: the stream stopped before the end of the answer")
        yield Finished(
            GenerationResult(
                text=text,
                reasoning=reasoning,
                token_ids=(),
                finish_reason=reason,
                stop_string=stop_string,
                prompt_tokens=int(usage.get("prompt_tokens") or 0),
                completion_tokens=int(usage.get("completion_tokens") or 0),
                denoising_steps=tuple(report.get("denoising_steps", ())),
                converged=tuple(report.get("converged", ())),
                seed=int(report.get("seed", 0)),
                seconds_to_first_block=first,
                seconds=time.monotonic() - started,
                warnings=tuple(map(str, warnings)),
                cached_tokens=_detail(usage, "prompt_tokens_details", "cached_tokens"),
                reasoning_tokens=_detail(usage, "completion_tokens_details", "reasoning_tokens"),
                mode=mode,
                decision=str(report.get("decision", "")),
                ignored=tuple(report.get("ignored") or ()),
                verify_rounds=tuple(report.get("verify_rounds") or ()),
                rejected_tokens=int(report.get("rejected_tokens") or 0),
                guidance_passes=int(report.get("guidance_passes") or 0),
            )
        )

    def _chunks(self) -> Iterator[dict[str, Any]]:
        """The data of the stream, event by event, until it is cancelled."""
        try:
            timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
            with httpx.stream("POST", self._url, headers=self._headers, json=self._body, timeout=timeout) as response:
                if response.is_error:
                    response.read()
                    raise OptionError(_message(response.text))
                for line in response.iter_lines():
                    if self._cancelled:
                        return
                    data = line.removeprefix("data:").strip() if line.startswith("data:") else ""
                    self._done = self._done or data == "[DONE]"
                    if data and data != "[DONE]":
                        chunk = json.loads(data)
                        if not isinstance(chunk, dict):
                            raise GessoError(f"the server sent what is no JSON object: {data[:200]}")
                        yield chunk
        except httpx.HTTPError as error:
            raise GessoError(f"the connection broke: {error}") from None
        except ValueError as error:
            if isinstance(error, GessoError):
                raise
            raise GessoError(f"the server sent what is no JSON: {error}") from None


def _frame(draft: Mapping[str, Any]) -> DenoisingFrame:
    frame = event_from_dict({"event": "draft", **draft, "accepted": [bool(mark) for mark in draft["accepted"]]})
    assert isinstance(frame, DenoisingFrame)
    return frame


def _detail(usage: Mapping[str, Any], details: str, name: str) -> int:
    """A count that some servers tell beside their usage; 0 where this one does not."""
    return int((usage.get(details) or {}).get(name) or 0)


def _call(call: Mapping[str, Any]) -> str:
    """A tool call, for a person to read."""
    function = call.get("function") or {}
    return f"{function.get('name') or ''}({function.get('arguments') or ''})"


def _error(error: object) -> str:
    """What an error in a stream says: an object with a `message`, as OpenAI has it, or a text."""
    message = error.get("message") if isinstance(error, dict) else error
    return str(message or "the server failed")


def _message(text: str) -> str:
    """The message of an error in OpenAI's shape, or the text itself."""
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return text[:200]
