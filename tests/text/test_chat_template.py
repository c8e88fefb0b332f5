"""The sandbox around a checkpoint's chat template, and the files it may come in."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from gesso.errors import CheckpointError, TextError
from gesso.text.chat_template import ChatTemplate

HI = [{"role": "user", "content": "hi"}]
MINI = resources.files("gesso.tasks").joinpath("chat_template.jinja").read_text("utf-8")


def render(source: str, messages: Any = HI, **options: Any) -> str:
    return ChatTemplate(source, {"bos_token": "<bos>"}).render(messages, **options)


def test_what_a_template_is_given() -> None:
    source = "{{ bos_token }}|{{ messages[0].content }}|{{ enable_thinking }}|{{ tools }}|{{ add_generation_prompt }}"
    assert render(source) == "<bos>|hi|False|None|True"
    options: dict[str, Any] = {"thinking": True, "tools": [{"name": "f"}], "add_generation_prompt": False}
    assert render(source, **options) == "<bos>|hi|True|[{'name': 'f'}]|False"


def test_blocks_leave_no_blank_lines_and_loops_may_break() -> None:
    source = "{% for m in messages %}\n    {% if loop.index == 2 %}\n{% break %}\n    {% endif %}\n{{ m.content }}\n"
    assert render(source + "{% endfor %}\n", HI * 3) == "hi\n"


def test_json_in_a_template_is_as_other_libraries_write_it() -> None:
    assert render("{{ {'a': 'é<', 'b': [1]} | tojson }}") == '{"a": "é<", "b": [1]}'
    assert render("{{ {'b': 1, 'a': 'é'} | tojson(ensure_ascii=true, sort_keys=true) }}") == '{"a": "\\u00e9", "b": 1}'
    assert render("{{ [1] | tojson(indent=1) }}") == "[\n 1\n]"
    assert render("{{ [1, 2] | tojson(separators=(',', ':')) }}") == "[1,2]"


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.__class__.__base__.__subclasses__() }}",
        "{{ raise_exception.__globals__['json'] }}",
        "{{ self.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{{ messages | map(attribute='__class__') | list | first | attr('mro') }}",
        "{{ ('{0.__class__.__mro__}').format(messages) + 1 }}",
        "{% set _ = messages.append(1) %}{{ messages }}",
        "{% set _ = messages[0].update({'content': 'x'}) %}{{ messages }}",
        "{{ range(999999999) }}",
    ],
)
def test_the_sandbox_holds(source: str) -> None:
    messages = [dict(HI[0])]
    with pytest.raises(TextError, match="the chat template refuses these messages"):
        render(source, messages)
    assert messages == HI


def test_a_dunder_by_itself_is_nothing() -> None:
    assert render("{{ ''.__class__ }}") == ""


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ nothing.here }}", "nothing"),
        ("{{ 1 // 0 }}", "zero"),
        ("{{ 'x' + 1 }}", "str"),
        ("{{ messages | tojson(colour=1) }}", "colour"),
        ("{{ [messages] | tojson(indent='x', separators=1) }}", "int"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
        ("{{ '%d' % 'x' }}", "number"),
        ("{{ '{5}'.format() }}", "index"),
        ("{% include 'x' %}", "loader"),
    ],
)
def test_whatever_a_template_raises_is_one_kind_of_error(source: str, what: str) -> None:
    with pytest.raises(TextError, match=f"the chat template refuses these messages: .*{what}"):
        render(source)


@pytest.mark.parametrize("source", ["{% if %}", "{{", "{% endfor %}", "{{ x | nofilter }}", "{% frobnicate %}"])
def test_a_broken_template_is_the_checkpoints_fault(source: str) -> None:
    with pytest.raises(CheckpointError, match="the chat template cannot be read"):
        ChatTemplate(source, {})


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("{{ " + "(" * 20_000 + "1" + ")" * 20_000 + " }}", id="parentheses"),
        pytest.param("{{ " + " + ".join(["1"] * 2000) + " }}", id="sum"),
        pytest.param("{% if a %}" * 3000 + "{% endif %}" * 3000, id="ifs"),
        pytest.param("{% if a %}" * 150 + "{% endif %}" * 150, id="as many ifs as Python does not indent"),
        pytest.param("{% for a in b %}" * 30 + "{% endfor %}" * 30, id="as many loops as Python does not nest"),
        pytest.param("{{ " + "not " * 50_000 + "1 }}", id="not"),
        pytest.param("{{ a" + " | trim" * 3000 + " }}", id="filters"),
        pytest.param("{% if a %}" + "{% elif b %}" * 3000 + "{% endif %}", id="elif"),
        pytest.param("{{ " + "9" * 10_000 + " }}", id="digits"),
        pytest.param("{{ f(a=1, a=2) }}", id="keyword"),
    ],
)
def test_a_template_that_python_does_not_compile_is_broken_too(source: str) -> None:
    with pytest.raises(CheckpointError, match=r"^the chat template cannot be read: .+$"):
        ChatTemplate(source, {})


def test_thinking_on_and_off_in_the_bundled_models_template() -> None:
    template = ChatTemplate(MINI, {"bos_token": "<bos>"})
    question = "<|turn>user\nhi<turn|>\n<|turn>model\n"
    assert template.render(HI) == f"<bos>{question}<|channel>thought\n<channel|>"
    assert template.render(HI, thinking=True) == f"<bos><|turn>system\n<|think|>\n<turn|>\n{question}"
    system = [{"role": "system", "content": "Be brief."}, *HI]
    assert template.render(system, thinking=True) == (f"<bos><|turn>system\n<|think|>\nBe brief.<turn|>\n{question}")
    answered = [*HI, {"role": "assistant", "content": "<|channel>thought\nhm<channel|>ho"}]
    assert template.render(answered, add_generation_prompt=False) == (
        "<bos><|turn>user\nhi<turn|>\n<|turn>model\nho<turn|>\n"
    )


# The files of a folder


def folder(path: Path, *, jinja: str | bytes | None = None, config: Any = None) -> Path:
    if jinja is not None:
        (path / "chat_template.jinja").write_bytes(jinja if isinstance(jinja, bytes) else jinja.encode())
    if config is not None:
        text = config if isinstance(config, str) else json.dumps(config)
        (path / "tokenizer_config.json").write_text(text, encoding="utf-8")
    return path


def rendered(path: Path) -> str:
    template = ChatTemplate.from_folder(path)
    assert template is not None
    return template.render(HI)


def test_no_template_is_none(tmp_path: Path) -> None:
    assert ChatTemplate.from_folder(tmp_path) is None
    assert ChatTemplate.from_folder(folder(tmp_path, config={"bos_token": "<s>"})) is None
    assert ChatTemplate.from_folder(folder(tmp_path, config={"chat_template": None})) is None


def test_a_file_of_its_own_comes_before_the_config(tmp_path: Path) -> None:
    assert rendered(folder(tmp_path, config={"chat_template": "config"})) == "config"
    assert rendered(folder(tmp_path, jinja="file")) == "file"


def test_special_tokens_come_from_the_config(tmp_path: Path) -> None:
    source = "{{ bos_token }} {{ eos_token }} {{ pad_token }} {{ unk_token }}"
    assert rendered(folder(tmp_path, jinja=source)) == "<bos> <eos> <pad> <unk>"
    config = {"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": False}, "pad_token": None}
    assert rendered(folder(tmp_path, config=config)) == "<s> </s> <pad> <unk>"
    assert rendered(folder(tmp_path, config={"eos_token": {}, "unk_token": 5})) == "<bos> <eos> <pad> <unk>"


def test_of_several_templates_the_default_one_is_taken(tmp_path: Path) -> None:
    several = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "plain"}]
    assert rendered(folder(tmp_path, config={"chat_template": several})) == "plain"


@pytest.mark.parametrize(
    "value",
    [
        {"default": "x"},
        [],
        [{"name": "tool_use", "template": "x"}],
        ["x"],
        5,
        [{"name": "default", "template": 5}],
        [{"name": ["x"], "template": "y"}],
    ],
)
def test_another_form_of_template_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(CheckpointError, match="chat_template is no text, and no list with a template named default"):
        ChatTemplate.from_folder(folder(tmp_path, config={"chat_template": value}))


@pytest.mark.parametrize("config", ["{", "", "[]", '"x"', "null"])
def test_a_broken_config_is_refused_by_name(tmp_path: Path, config: str) -> None:
    with pytest.raises(CheckpointError, match=r"tokenizer_config\.json"):
        ChatTemplate.from_folder(folder(tmp_path, config=config))


def test_a_broken_template_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="the chat template cannot be read"):
        ChatTemplate.from_folder(folder(tmp_path, jinja="{% if %}"))
    with pytest.raises(CheckpointError, match=r"chat_template\.jinja is no UTF-8 text"):
        ChatTemplate.from_folder(folder(tmp_path, jinja=b"caf\xe9"))


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}", False),
        ("{% for m in messages %}{{ m.name or m.role }}: {{ m.content }}{% endfor %}", True),
        ("{{ raise_exception('no') }}", False),
    ],
)
def test_whether_names_of_participants_are_told(source: str, told: bool) -> None:
    assert ChatTemplate(source, {}).tells_names == told
